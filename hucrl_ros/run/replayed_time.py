"""What time and the network did to an episode, told by its bag, in the place of both."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import AXES, RobotSpec
from hucrl_ros.config.schema import ControlSettings, DriverSettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.state_reader import JointReading, PoseBuffer, StateReader
from hucrl_ros.controller.ticks import LATE, NEVER_BEGUN
from hucrl_ros.controller.timing import DelayCompensation, InForce, in_force
from hucrl_ros.errors import BagError, StateError
from hucrl_ros.planners import Plan

Array = NDArray[np.float64]


class RecordedPlanning(Executor):
    """Plans in the calling thread, and hands a plan over in the tick in which it was ready."""

    def __init__(self) -> None:
        self._granted = 0
        self._late: Future[Any] | None = None
        self._plan: Any = None

    def forget(self) -> None:
        """Another bundle plans from now on: nobody takes what is still on its way."""
        self._late = None

    def begin(
        self, agent: Agent, iterations: int, told: Mapping[str, float], later: float | None
    ) -> None:
        """Let a tick of `agent` plan as it did.

        Args:
            agent: Plans.
            iterations: Those of the plan that was ready in time.
            told: What time decided in the tick.
            later: Iterations of the next plan that came too late; None: there is none.
        """
        if "late" in told and self._late is not None:
            self._late.set_result(self._plan)
            self._late = None
        self._granted = int(told.get("granted", iterations))
        fans = int(told["fans"]) if "fans" in told else None
        agent.allow(int(later or 0) if self._granted == LATE else self._granted, fans)

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Plan, as it was: in time, too late, or never."""
        future: Future[Plan | None] = Future()
        if self._granted != NEVER_BEGUN:
            future.set_running_or_notify_cancel()  # so that it can't be cancelled any more
            plan = work(*args, **kwargs)
            if self._granted == LATE:
                self._late, self._plan = future, plan
            else:
                future.set_result(plan)
        return future


class RecordedCommands(DelayCompensation):
    """Tells for how long commands acted as the recording does."""

    def __init__(self, spec: RobotSpec, age: float) -> None:
        super().__init__(spec.period, spec.action_dim, ControlSettings(), age)
        self.told: tuple[float, ...] = ()
        """Of the tick to come, see `DelayCompensation.shares`."""
        self.all: list[Array] = []
        """`(q,)` each, since the beginning of the episode."""

    def reset(self) -> None:
        """An episode begins."""
        self.all.clear()

    def sent(self, command: Array, now: float) -> None:
        """A command `(q,)` was sent."""
        self.all.append(command)

    def coming(self, received: float, before: Array | None = None) -> tuple[InForce, ...]:
        """What acted until the tick's command did.

        Raises:
            BagError: more commands than there were.
        """
        self.shares = self.told
        commands = [*([] if before is None else [before]), *self.all]
        if len(self.told) > len(commands):
            raise BagError(
                f"{len(self.told)} commands in force, of {len(commands)} that were sent"
            )
        return in_force(commands, self.told)


class RecordedStates(StateReader):
    """Takes from the recording what joint states don't tell."""

    def __init__(self, spec: RobotSpec, poses: PoseBuffer, driver: DriverSettings | None) -> None:
        """Read states; `driver`: None where joint states waited for what belongs to them."""
        super().__init__(spec, poses, 0.0 if driver is None else 1.0, driver)
        self.told: Mapping[int, float] = {}
        """By entry, of the state to come."""

    def read(self, reading: JointReading) -> Array:
        """The state `(p,)` of a joint state.

        Raises:
            BagError: there is no such entry.
            StateError: it made no sense.
        """
        if not self.untold:
            return super().read(reading)
        if self.told and max(self.told) >= len(self._order):
            raise BagError(f"no entry {max(self.told)} in a state of {len(self._order)}")
        joints = self.joints.read(reading)
        state: Array = np.concatenate([joints, np.zeros(3 * len(AXES))])[self._order]
        if not self.told:
            raise StateError("the controller could make no sense of it")
        state[list(self.told)] = list(self.told.values())
        return state
