"""Episodes in real time in the test's own process, with all that time can do to one."""

import dataclasses
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from hucrl_ros.bags import messages
from hucrl_ros.config.schema import Config, ControlSettings, SafetySettings
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import build_control_loop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.motors import keeping_promise
from hucrl_ros.controller.setup import setup_of
from hucrl_ros.controller.state_reader import FRAME, JointReading, Pose, PoseBuffer
from hucrl_ros.controller.topics import (
    ACTIVE,
    COMMANDS,
    GOAL,
    JOINT_STATES,
    OBJECT_POSE,
    SETUP,
    TICKS,
)
from hucrl_ros.robots.mujoco_robot import Plant
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.recording import Recording

CONTROL = ControlSettings(latency_compensation="always", extra_delay=0.02, budget=0.3)
CALM = SafetySettings(outage_periods=1e6)
"""A machine that is busy ends no episode."""
SEED = 5


class Disturbed:
    """Plays an episode of a run; `at` has what happens before which step."""

    def __init__(self, run, task, control=CONTROL, safety=CALM):
        self.run, self.task, self.control, self.safety = run, task, control, safety
        self.poses, self.at = PoseBuffer(), {}
        self.recording = Recording(run, {}, stepped=False)
        self.stalls, self.spoilt, self.hurries = set(), set(), {}
        self._pool = ThreadPoolExecutor(1)

    def load(self, name, **changes):
        """A loop for one of the run's bundles, with other settings in its manifest."""
        bundle = load_bundle(self.run.bundles / name)
        given = bundle.manifest.model_copy(
            update={"safety": self.safety, "steps": 1000, **changes}
        )
        manifest = keeping_promise(given, bundle.manifest)
        bundle = dataclasses.replace(bundle, manifest=manifest)
        guard = Guard(manifest.spec, self.safety)
        loop = build_control_loop(
            bundle, guard, self.control, self.poses, self._pool, lockstep=False
        )
        plan, calls = loop.player._plan_now, itertools.count()

        def stalling(periods):
            if next(calls) in self.stalls:
                time.sleep(0.05)
            return plan(periods)

        loop.player._plan_now = stalling
        return loop

    def begin(self, loop):
        self.loop = loop
        loop.start(SEED)
        self.tell()

    def tell(self):
        text = setup_of(self.loop, SEED).model_dump_json()
        self._write(SETUP, messages.string(text))

    def silence(self):
        self._send(self.loop.stale())

    def interrupt(self, effort, meanwhile=False):
        """A watchdog sends something before the next tick's command.

        `meanwhile`: while that is chosen.
        """
        command = np.full(self.loop.spec.action_dim, effort)
        told = [command, None] if meanwhile else [command]
        self.loop.others = lambda: told.pop() if told else None

    def tighten(self, **limits):
        self.loop.obey(Guard(self.loop.spec, self.loop.guard.safety.model_copy(update=limits)))
        self.tell()

    def swap(self, loop):
        loop.take_over(self.loop, SEED)
        self.loop = loop
        self.tell()

    def play(self, steps):
        """Returns the bag."""
        plant = Plant(self.task.robot(), SEED)
        plant.reset(self.recording.episode)
        self._plant = plant
        self._write(ACTIVE, messages.boolean(True))
        for step in range(steps):
            sample = plant.sample()
            if step in self.spoilt:
                sample = sample._replace(positions=np.full_like(sample.positions, np.nan))
            self._show(sample, plant.joints)
            for happens in self.at.get(step, ()):
                happens()
            # For no more fans of the safety filter than that.
            self.loop.player.allow(None, self.hurries.get(step))
            velocities = sample.velocities.tolist()
            reading = JointReading(
                plant.joints, sample.positions.tolist(), velocities, sample.stamp_ns
            )
            answer = self.loop.answer(reading, time.monotonic(), self._send)
            self._write(TICKS, messages.tick(answer.record, answer.decided))
            time.sleep(0.003)
            plant.period()
        self._write(ACTIVE, messages.boolean(False))
        self._pool.shutdown()
        return self.recording.finish()

    def _send(self, command):
        if command is not None:
            self._write(COMMANDS, messages.floats(command.tolist()))
            self._plant.command(command)

    def _show(self, sample, joints):
        for topic, places, position in (
            (GOAL, self.poses.goal, sample.goal),
            (OBJECT_POSE, self.poses.object, sample.object),
        ):
            if position is not None:
                # It comes late now and then: the state has an older one, which the bag can't tell.
                if topic == GOAL or sample.stamp_ns // 1000 % 3:
                    places.add(Pose(sample.stamp_ns, FRAME, position.tolist()))
                self._write(topic, messages.pose(sample.stamp_ns, position.tolist(), FRAME))
        entries = [x.tolist() for x in (sample.positions, sample.velocities, sample.efforts)]
        self._write(JOINT_STATES, messages.joint_state(sample.stamp_ns, joints, *entries))

    def _write(self, topic, message):
        self.recording.write(topic, message, time.time_ns())


def run_with(folder, *bundles):
    """A run's folder, and where its bundles go."""
    run = RunFolder.create(folder, Config())
    for name, write in bundles:
        write(run.bundles / name)
    return run
