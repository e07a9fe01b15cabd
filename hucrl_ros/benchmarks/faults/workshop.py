"""Where faults are tried: a small run to hurt, a domain of its own, and somebody who looks on."""

import json
import os
import signal
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.benchmarks.faults.played_run import PlayedRun
from hucrl_ros.benchmarks.faults.remains import recorded_since
from hucrl_ros.benchmarks.faults.sightings import (
    COMMANDS,
    Kind,
    Sightings,
    between,
    lost_ticks,
    of_kind,
    read_sightings,
    time_to_safe,
)
from hucrl_ros.benchmarks.faults.trial import LOSS_S, Trial
from hucrl_ros.benchmarks.loop import NODES
from hucrl_ros.errors import RunError
from hucrl_ros.experiments.workers import child_environment
from hucrl_ros.robots import describe
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import NodeSpec, Value
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.processes import Exit, ProcessGroup
from hucrl_ros.run.session import Domain, wished_domain

TASK = "pendulum"
SETTINGS = {
    "action_penalty": 0.0,  # where efforts cost, so little learning ends in none: the safe command
    "planner.particles": 16,
    "planner.horizon": 5,
    "planner.iterations": 1,
    "model.fit_steps": 50,
    "search.iterations": 3,
    "search.pool": 16,
    "search.policy_layers": [16],
    "search.critic_layers": [16],
}
"""Everything that a run does, but as little of it as there can be."""
ON_ROBOT = {"safety.velocity_limits": [100.0]}
"""Of a robot something has to limit where it may be; this one may turn for ever."""
ENDING_S = 120.0
"""[s] Without a further word before a session ends, and for its processes to be gone, on a loaded
machine too. Longer than that it hangs."""
WHOLE_S = 900.0
"""[s] For a whole run."""
WITNESS_S = 60.0
"""[s] For the witness to start."""


class Heard(NamedTuple):
    """What came to the robot."""

    commands: int = 0
    unsafe: int = 0
    """Of these, beyond the limits, not finite, or of another length."""


class Workshop(AbstractContextManager["Workshop"]):
    """A folder for runs, a ROS domain, and a witness in it that hears what the robot hears."""

    def __init__(
        self, folder: Path, mode: str, episodes: int, seed: int, watched: bool = False
    ) -> None:
        """Start the witness.

        Args:
            folder: Where runs and logs go.
            mode: `lockstep` or `real_time`.
            episodes: Of each run; of many, three in four are random ones, which take less time.
            seed: Of each run.
            watched: Whether each run has its page.

        Raises:
            RunError: the witness doesn't start.
        """
        self.folder, self.mode = folder, mode
        self._settings = {**SETTINGS, "mode": mode, "episodes": episodes, "seed": seed}
        self._settings["exploration.random_episodes"] = max(3 * episodes // 4, 1)
        self._words = ("--watch",) if watched else ()
        # Taken again by each `hucrl up`, which is asked for it.
        with Domain(wished_domain(os.environ.get("ROS_DOMAIN_ID"))) as domain:
            self.domain = domain.number
        self._heard = folder / f"witness_{mode}.bin"
        self.logs = folder / f"logs_{mode}"
        self.logs.mkdir(parents=True, exist_ok=True)
        environment = child_environment(
            ROS_DOMAIN_ID=str(self.domain),
            ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST",
            ROS_LOG_DIR=str(self.logs),
        )
        self._group = ProcessGroup(self.logs, environment)
        limits = list(describe(TASK).robot.spec.effort_limits)
        own: dict[str, Value] = {
            "out": str(self._heard), "limits": json.dumps(limits), "stepped": mode == "lockstep"
        }  # fmt: skip
        witness = NodeSpec("witness", parameters=own, package=NODES)
        self._group.start(witness.name, witness.command)
        deadline = time.monotonic() + WITNESS_S
        while not self._heard.exists():
            if ended := self._group.ended():
                raise RunError(ended[0].description)
            if time.monotonic() > deadline:
                raise RunError(f"witness: doesn't start within {WITNESS_S:g} s")
            time.sleep(0.05)

    def __exit__(self, *error: object) -> None:
        self._group.stop()

    @property
    def sightings(self) -> Sightings:
        """All that the witness has heard so far.

        Raises:
            RunError: it has ended.
        """
        if ended := self._group.ended():
            raise RunError(ended[0].description)
        return read_sightings(self._heard)

    def heard(self) -> Heard:
        """How many commands came to the robot since the beginning."""
        sightings = self.sightings
        return Heard(len(of_kind(sightings, *COMMANDS)), len(of_kind(sightings, Kind.UNSAFE)))

    def new_run(self, name: str, on_robot: bool = False) -> RunFolder:
        """A run that nobody has played yet; `on_robot`: for a driver that is none of its nodes."""
        settings = {**self._settings, **(ON_ROBOT if on_robot else {})}
        folder = self.folder / name
        return prepare_run(RunOptions(TASK, overrides=settings, out=folder, on_robot=on_robot))

    def play(self, run: RunFolder, words: tuple[str, ...] = ()) -> PlayedRun:
        """Play the run, or go on with it."""
        return PlayedRun(run, self.domain, self.logs, (*words, *self._words))

    def wait_for_end(self, played: PlayedRun) -> Exit | None:
        """Wait for the end of a session that is hurt, or until it must be taken to hang."""
        begin = time.monotonic()
        size = -1
        while (end := played.wait(1.0)) is None and time.monotonic() < begin + ENDING_S:
            if len(played.output) != size:  # it goes on
                begin, size = time.monotonic(), len(played.output)
        return end

    def undisturbed(self) -> tuple[RunFolder, float]:
        """A whole run without a fault, and how long it took [s].

        Raises:
            RunError: it doesn't end as it should.
        """
        run = self.new_run("undisturbed")
        begin = time.monotonic()
        with self.play(run) as played:
            end = played.wait(WHOLE_S)
            if end is None or end.code != 0:
                told = "it doesn't end" if end is None else end.description
                raise RunError(f"{run.root}: the run without a fault: {told}")
        return run, time.monotonic() - begin

    def was_commanded(self, played: PlayedRun, at: float) -> bool:
        """Whether, in this session and until then [s], a command came that isn't the safe one."""
        return len(of_kind(between(self.sightings, played.begin, at), Kind.COMMAND)) > 0

    def outcome(self, played: PlayedRun, fault: str, node: str, phase: str, at: float) -> Trial:
        """What came of a fault: wait for the end of the session, and look around.

        Args:
            played: The session that was hurt.
            fault: Name of the fault.
            node: Whom it hit.
            phase: In which part of the run.
            at: When, by the steady clock [s].
        """
        end = self.wait_for_end(played)
        left = played.wait_until_gone(ENDING_S)
        output = played.output
        defects = [f"{name} is still there" for name in left]
        if end is None:
            defects.append(f"hucrl up hasn't ended after {ENDING_S:g} s")
        errors = [line for line in output.splitlines() if line.startswith("hucrl up: ")]
        killed = end is not None and end.code == -signal.SIGKILL
        if len(errors) > 1 or (end is not None and end.code != 0 and not errors and not killed):
            defects.append(f"{len(errors)} lines on why it ended")
        logs = {path.name: path.read_text() for path in played.run.logs.glob("*.log")}
        defects += [
            f"a traceback in {name}"
            for name, text in {"the output": output, **logs}.items()
            if "Traceback" in text
        ]
        session = between(self.sightings, played.begin, time.monotonic())
        ticks, states = recorded_since(played.run, played.begin_epoch)
        return Trial(
            fault=fault,
            node=node,
            mode=self.mode,
            phase=phase,
            after_s=at - played.begin,
            safe_s=time_to_safe(session, at),
            told=errors[-1].removeprefix("hucrl up: ") if errors else "",
            commands=len(of_kind(session, *COMMANDS)),
            unsafe=len(of_kind(session, Kind.UNSAFE)),
            lost=lost_ticks(session, ticks, states, at - LOSS_S),
            defects=tuple(defects),
            finished=end is not None and end.code == 0,
        )
