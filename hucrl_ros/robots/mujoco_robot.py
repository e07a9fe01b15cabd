"""A robot that MuJoCo simulates, and the same with a clock: commands in, sensor values out."""

import math
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import AXES, VELOCITY, Draw, object_speeds, sources
from hucrl_ros.config.schema import BodySettings
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.body import AS_MODELLED, Drive, alter
from hucrl_ros.robots.extras import Extras, unseen_joints
from hucrl_ros.robots.model_files import build_model
from hucrl_ros.robots.motors import led

Array = NDArray[np.float64]
ROUNDING = 1e-9
"""Share of a physics step that isn't worth another one."""
UNSTABLE = slice(int(mujoco.mjtWarning.mjWARN_BADQPOS), int(mujoco.mjtWarning.mjWARN_BADQACC) + 1)
"""MuJoCo's warnings of positions, velocities and accelerations that are no numbers, or huge."""
GOAL_ROUNDING = 1e-6
"""[m] By which a goal may be outside of what is drawn, or beside what is fixed."""


class MujocoRobot:
    """Commands in, joint positions and velocities out.

    A control period is divided into `substeps` physics steps, so that a real-time simulator
    can apply a command that arrives in the middle of a period.
    """

    def __init__(self, described: Description, body: BodySettings = AS_MODELLED) -> None:
        """Load the model.

        Args:
            described: With nothing of the spec and the start left to derive.
            body: How it differs from the model.

        Raises:
            ConfigError: the model can't be loaded, or doesn't fit the description.
        """
        settings = described.robot
        self.spec = settings.spec
        self.model = build_model(described.model, settings)
        self.data = mujoco.MjData(self.model)
        # A view of MuJoCo's counters, which a reset sets to 0.
        self._unstable = self.data.warning.number[UNSTABLE]
        self._origin = described.path
        self.substeps = round(self.spec.period / self.model.opt.timestep)
        # Only MuJoCo knows which positions a servo accepts.
        limited = self.spec.command != "position"
        self._limits = np.asarray(self.spec.effort_limits) if limited else np.inf
        speeds = object_speeds(self.spec)
        try:
            joints = [self.model.joint(name) for name in self.spec.joint_names]
            self._extras = Extras(self.model, (*self.spec.observed, *self.spec.context))
            self._places = Extras(self.model, [name.removesuffix(VELOCITY) for name in speeds])
        except (KeyError, ValueError) as error:
            reason = error.args[0] if error.args else error
            raise ConfigError(f"{described.path}: {' '.join(str(reason).split())}") from None
        self._qpos = np.array([int(joint.qposadr[0]) for joint in joints])
        self._qvel = np.array([int(joint.dofadr[0]) for joint in joints])
        self._speeds = [2 * len(joints) + self.spec.observed.index(name) for name in speeds]
        none = Draw()
        self._draws = [settings.start.get(entry, none) for entry in settings.entries]
        self._draw_fixed = settings.draw_fixed
        self._drive: Drive | None = None
        if body != AS_MODELLED:
            alter(self.model, self.spec, body)
            self._drive = Drive(self.model, self.spec, body)
        self.drawn = {
            entry: draw.range for entry, draw in zip(settings.entries, self._draws, strict=True)
        }
        """Least and largest value that each entry of the state hardly exceeds at a start."""
        self.ranges = joint_ranges(self.model, self.spec.joint_names)
        """`(n, 2)` lower and upper limit of each joint [rad or m]; infinite where it has none."""
        for joint, limits in settings.limits.items():
            self.ranges[settings.joints.index(joint)] = limits

    def initial_state(self, rng: np.random.Generator) -> Array:
        """Every entry drawn by itself, as the description says, and joints that follow others."""
        draws = self._draws
        spread = np.array([draw.spread for draw in draws])
        is_uniform = np.array([draw.is_uniform for draw in draws])
        uniform, normal = np.zeros((2, len(draws)))
        for shares, drawn, of_kind in (
            (uniform, rng.uniform, is_uniform),
            (normal, rng.standard_normal, ~is_uniform),
        ):
            wanted = (of_kind & (spread != 0.0)) | self._draw_fixed
            shares[wanted] = drawn(size=int(wanted.sum()))
        origin, first = np.array([(draw.origin, draw.first) for draw in draws]).T
        return self.led(origin + (first + spread * np.where(is_uniform, uniform, normal)))

    def led(self, state: Array) -> Array:
        """`state` `(p,)`, but joints that an equality moves with another one are where that says.

        Anywhere else the simulator would hurl them there. Joints with a motor stay as they are.
        """
        return led(self.model, self.spec, state)

    @property
    def state(self) -> Array:
        """The present state `(p,)`: positions [rad or m], then velocities [rad/s or m/s].

        What the spec calls observed and context follows [m].
        """
        return self.states(self.data.qpos, self.data.qvel)

    def states(self, qpos: Array, qvel: Array) -> Array:
        """States `(..., p)` of MuJoCo's coordinates `(..., nq)` and `(..., nv)`.

        The context is the present one.
        """
        joints = [qpos[..., self._qpos], qvel[..., self._qvel]]
        return np.concatenate([*joints, self._extras.read(self.data, qpos, qvel)], axis=-1)

    def write_joints(self, states: Array, qpos: Array, qvel: Array) -> None:
        """Write joints of `states` `(..., p)` into MuJoCo's coordinates, in place."""
        joints = len(self.spec.joint_names)
        qpos[..., self._qpos] = states[..., :joints]
        qvel[..., self._qvel] = states[..., joints : 2 * joints]

    def set_state(self, state: Array) -> None:
        """Put the robot into `state` `(p,)`, under the command of no action."""
        mujoco.mj_resetData(self.model, self.data)
        self.write_joints(state, self.data.qpos, self.data.qvel)
        self._extras.write(self.data, state[2 * len(self.spec.joint_names) :])
        self.data.ctrl[:] = self.idle(state)
        mujoco.mj_forward(self.model, self.data)
        if self._drive is not None:
            self._drive.centre(self.data)

    def forward(self) -> None:
        """Have MuJoCo tell what the commands in `data` do, as soon as they act.

        Where the model gives a motor a delay, it has none of them yet.
        """
        delays = getattr(self.model, "actuator_delay", np.zeros(0))  # older MuJoCos know none
        told = delays.copy()
        delays[:] = 0.0
        mujoco.mj_forward(self.model, self.data)
        delays[:] = told

    def cool(self) -> None:
        """Have cold motors; they stay warm over a reset."""
        if self._drive is not None:
            self._drive.cool()

    def divide(self, seconds: float) -> int:
        """Take physics steps no longer than the model's, of which a whole number fill `seconds`.

        Returns:
            That number.
        """
        steps: int = math.ceil(seconds / self.model.opt.timestep - ROUNDING)
        self.model.opt.timestep = seconds / steps
        return steps

    def reset(self, rng: np.random.Generator) -> Array:
        """Start an episode; returns its first state `(p,)`."""
        self.set_state(self.initial_state(rng))
        return self.state

    def idle(self, state: Array) -> Array:
        """The command `(q,)` of no action in `state`: no effort, no velocity, or where it is."""
        return self.spec.to_command(np.zeros(self.spec.action_dim), state)

    @property
    def unseen(self) -> list[str]:
        """Joints that move and that the state doesn't tell of, as a message calls them."""
        return unseen_joints(self.model, self.spec)

    @property
    def efforts(self) -> Array:
        """Of the servos in the last physics step `(q,)` [N m or N]."""
        return np.array(self.data.actuator_force)

    def substep(self, command: Array) -> None:
        """One physics step under `command` `(q,)`, efforts and velocities within the limits.

        Raises:
            ConfigError: the simulation is unstable.
        """
        self.data.ctrl[:] = np.clip(command, -self._limits, self._limits)
        if self._drive is not None:
            self._drive.act(self.data)
        mujoco.mj_step(self.model, self.data)
        # MuJoCo has then begun anew from the model's pose, so the state doesn't tell.
        if any(self._unstable.tolist()):
            raise ConfigError(
                f"{self._origin}: the simulation is unstable in steps of "
                f"{1e3 * self.model.opt.timestep:g} ms: take a smaller robot.timestep, smaller "
                'gains (kp, kv, stiffness), or <option integrator="implicitfast"/> in the model'
            )

    def step(self, action: Array) -> Array:
        """One control period under a constant `action` `(q,)`; returns the next state `(p,)`.

        In it an object's velocity is that of the whole period, as two poses tell it through ROS.

        Raises:
            ConfigError: the simulation is unstable.
        """
        before = self._places.read(self.data, self.data.qpos, self.data.qvel)
        command = self.spec.to_command(action, self.state)
        for _ in range(self.substeps):
            self.substep(command)
        state = self.state
        after = self._places.read(self.data, self.data.qpos, self.data.qvel)
        state[self._speeds] = (after - before) / self.spec.period
        return state


def joint_ranges(model: mujoco.MjModel, names: tuple[str, ...]) -> Array:
    """`(n, 2)` limits of the joints [rad or m]; infinite where one has none."""
    ranges = np.full((len(names), 2), (-math.inf, math.inf))
    for row, name in enumerate(names):
        joint = model.joint(name).id
        if model.jnt_limited[joint]:
            ranges[row] = model.jnt_range[joint]
    return ranges


RESET_PERIODS = 10
"""A reset takes this many control periods, so that no transition seems to lead across it."""


class Sample(NamedTuple):
    """What can be seen of the robot at one moment; joints are in the order of `Plant.joints`."""

    stamp_ns: int
    """Simulated time [ns]."""
    positions: Array
    """`(n,)` [rad or m]"""
    velocities: Array
    """`(n,)` [rad/s or m/s]"""
    efforts: Array
    """`(n,)` mean that acted since the sample before, of servos theirs [N m or N]; 0 after a reset
    and where no motor is."""
    commands: Array
    """`(n,)` in force; 0 where no motor is."""
    object: Array | None
    """`(3,)` where the observed body is [m]; None: none is observed."""
    goal: Array | None
    """`(3,)` where the goal is [m]; None: there is none, or it is that of the sample before."""


class Plant:
    """A robot whose simulated time never goes backward, not even at a reset.

    Like a forward command controller, it holds the newest command until another one comes.
    """

    def __init__(self, robot: MujocoRobot, seed: int, rate: float = 0.0) -> None:
        """Put the robot at the start of episode 0, at simulated time of one control period.

        Args:
            robot: The robot.
            seed: With the episode's number, it decides where an episode starts.
            rate: Of samples; 0: one in each control period [Hz].
        """
        spec = robot.spec
        told = sources(spec)
        self.robot = robot
        self.sample_period: float = 1.0 / rate if rate else spec.period
        """Simulated time between two samples [s]."""
        self.substeps = robot.divide(self.sample_period) if rate else robot.substeps
        """Physics steps between two samples."""
        self.joints = (*spec.joint_names, *told.further)
        """Names of the joints that a sample tells of."""
        self._object, self._goal = self._place(told.object), self._place(told.goal)
        self._goal_is_new = True
        self._goal_name = told.goal
        self.wanted_goal: Array | None = None
        """`(3,)` goal of the episodes that begin from now on [m]; None: as it is drawn."""
        self._seed = seed
        self._takes_efforts = spec.command == "effort"
        self._limits = np.asarray(spec.effort_limits) if spec.command != "position" else np.inf
        self._motors = [spec.joint_names.index(name) for name in spec.actuated_joints]
        self._substep_ns: float = self.sample_period * 1e9 / self.substeps
        # Time 0 would read as "no stamp".
        self._start_ns = round(spec.period * 1e9)
        self._substeps = 0
        self._command: Array
        self._mean = np.zeros(spec.action_dim)
        self._mean_substeps = 0
        self._start_episode(0)

    @property
    def stamp_ns(self) -> int:
        """Simulated time [ns]."""
        return self._start_ns + round(self._substeps * self._substep_ns)

    def reset(self, episode: int) -> None:
        """Put the robot at the start of an episode, under the command of no action."""
        self._start_ns = self.stamp_ns + round(RESET_PERIODS * self.robot.spec.period * 1e9)
        self._substeps = 0
        self._start_episode(episode)

    def require_goal(self, goal: Array, named: str) -> None:
        """Refuse a goal `(3,)` [m] that the task never has.

        Raises:
            ConfigError: says what is accepted.
        """
        if not self._goal_name:
            raise ConfigError(f"{named}: the robot {self.robot.spec.name!r} has no goal")
        here = self._read(self._goal)
        assert here is not None
        accepted = [
            self.robot.drawn.get(f"{self._goal_name}_{axis}", (where, where))
            for axis, where in zip(AXES, here.tolist(), strict=True)
        ]
        inside = [
            low - GOAL_ROUNDING <= x <= high + GOAL_ROUNDING
            for x, (low, high) in zip(goal.tolist(), accepted, strict=True)
        ]
        if not all(inside):
            told = ", ".join(
                f"{axis} {low:g} to {high:g}"
                for axis, (low, high) in zip(AXES, accepted, strict=True)
            )
            raise ConfigError(f"{named} = {goal.tolist()}: the task's goals are within {told} [m]")

    def command(self, command: Array | None) -> None:
        """Apply `command` `(q,)` from now on, within the limits; None: that of no action."""
        command = self.robot.idle(self.robot.state) if command is None else command
        self._command = np.clip(command, -self._limits, self._limits)

    def substep(self) -> None:
        """Advance by one physics step."""
        self.robot.substep(self._command)
        self._mean_substeps += 1
        # A running mean gives a constant command back exactly, not up to rounding.
        applied = self._command if self._takes_efforts else self.robot.efforts
        self._mean += (applied - self._mean) / self._mean_substeps
        self._substeps += 1

    def period(self) -> None:
        """Advance by the time between two samples."""
        for _ in range(self.substeps):
            self.substep()

    def sample(self) -> Sample:
        """What can be seen now; the mean of the efforts starts anew."""
        joints = [self.robot.data.joint(name) for name in self.joints]
        positions = np.array([joint.qpos[0] for joint in joints])
        velocities = np.array([joint.qvel[0] for joint in joints])
        efforts, commands = np.zeros((2, len(joints)))
        efforts[self._motors] = self._mean
        commands[self._motors] = self._command
        goal = self._read(self._goal) if self._goal_is_new else None
        self._goal_is_new = False
        self._restart_mean()
        place = self._read(self._object)
        return Sample(self.stamp_ns, positions, velocities, efforts, commands, place, goal)

    def _place(self, body: str) -> Extras | None:
        return Extras(self.robot.model, [f"{body}_{axis}" for axis in AXES]) if body else None

    def _read(self, place: Extras | None) -> Array | None:
        data = self.robot.data
        return None if place is None else place.read(data, data.qpos, data.qvel)

    def _start_episode(self, episode: int) -> None:
        state = self.robot.reset(np.random.default_rng([self._seed, episode]))
        if self.wanted_goal is not None:
            spec = self.robot.spec
            for index, entry in enumerate(spec.context, spec.state_dim - len(spec.context)):
                state[index] = self.wanted_goal[AXES.index(entry[-1])]
            self.robot.set_state(state)
        self._command = self.robot.idle(state)
        self._goal_is_new = True
        self._restart_mean()

    def _restart_mean(self) -> None:
        self._mean[:] = 0.0
        self._mean_substeps = 0
