"""Bundles that hold only their manifest."""

from hucrl_ros.config.schema import PlannerSettings, SafetySettings
from hucrl_ros.controller.manifest import (
    MANIFEST,
    SCHEMA_VERSION,
    LearningReport,
    Manifest,
    dump_manifest,
)

NOTHING_LEARNED = LearningReport()


def write_manifest(folder, episode, report=NOTHING_LEARNED, command="effort", task="pendulum"):
    """A folder with the manifest of the bundle that plays `episode`."""
    manifest = Manifest(
        strategy="greedy",
        seed=0,
        episode=episode,
        random=episode == 0,
        beta=0.0,
        planner=PlannerSettings(),
        safety=SafetySettings(),
        report=report,
        data_hash="",
        versions={},
        revision="test",
        schema_version=SCHEMA_VERSION,
        task=task,
        action_penalty=0.2,
        discount=0.99,
        steps=400,
        robot="pendulum",
        joint_names=("pendulum_joint",),
        actuated_joints=("pendulum_joint",),
        effort_limits=(1.0,),
        command=command,
        period=1 / 80,
        angles=(0,),
        reach=(None, 12.0),
        hallucination_dim=0,
        target_std=(1.0, 1.0),
        files={},
    )
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text(dump_manifest(manifest))
    return folder
