"""A robot arm to measure with: as large as the reacher, but all of it in its joint states."""

from dataclasses import replace

from hucrl_ros.config.reward import RewardSettings, TaskSettings
from hucrl_ros.robots import describe
from hucrl_ros.tasks import DescribedTask


def make_arm(action_penalty: float) -> DescribedTask:
    """The reacher with the goal always in the same place, so that no state has to hold it."""
    found = describe("reacher")
    robot, goal = found.robot, found.robot.context
    own = {
        "context": (),
        "stops": (),
        "start": {entry: draw for entry, draw in robot.start.items() if entry not in goal},
        "scales": {entry: scale for entry, scale in robot.scales.items() if entry not in goal},
        "reach": {**robot.reach, **dict.fromkeys(robot.joints)},
    }
    place = [robot.start[entry].mean for entry in goal]
    terms = [{"term": "distance", "of": "tool", "to": place}, {"term": "effort"}]
    arm = replace(
        found,
        robot=robot.model_copy(update=own),
        reward=RewardSettings.model_validate({"terms": terms}),
        task=TaskSettings(name="arm"),
    )
    return DescribedTask(arm, action_penalty)
