"""A run whose episodes come from bags that somebody else recorded, and its first bundle."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags import messages
from hucrl_ros.bags.course import Course
from hucrl_ros.bags.foreign import read_foreign
from hucrl_ros.config.files import override
from hucrl_ros.config.robot import AXES, VELOCITY, RobotSpec, object_speeds, sources
from hucrl_ros.controller.state_reader import FRAME, SPEED_PERIODS
from hucrl_ros.controller.ticks import NANOSECONDS, Source, TickRecord
from hucrl_ros.controller.topics import ACTIVE, COMMANDS, GOAL, JOINT_STATES, OBJECT_POSE, TICKS
from hucrl_ros.errors import BagError
from hucrl_ros.learning.learner import Learner, Progress
from hucrl_ros.run.asked import AskedRun, RunOptions, asked_run
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.on_robot import require_limits
from hucrl_ros.run.prepare import check_to_learn, check_to_play, created_run, unmade_without
from hucrl_ros.run.recording import Recording
from hucrl_ros.run.summary_writer import Ledger
from hucrl_ros.tasks import Task, make_task

GOALS = 64
"""First word of the seed by which goals are drawn."""
APART = 10
"""[control periods] Between two stretches in an episode, so that nothing leads across."""


class LearnedRun(NamedTuple):
    """What came of foreign bags."""

    run: RunFolder
    bundle: Path
    report: list[str]
    """What was used of each bag, and what not and why, one line each."""


def learn_from_bags(bags: Sequence[Path], options: RunOptions, progress: Progress) -> LearnedRun:
    """Learn a task from what a robot did under somebody else's control.

    The run goes on with `hucrl up --resume --no-simulator`: to it the bags are random episodes.

    Args:
        bags: At least one.
        options: Task, settings and folder of the run, with `on_robot`.
        progress: Is told how far learning is.

    Raises:
        BagError: a bag can't be read, is given twice, or holds nothing to learn from.
        ConfigError: a setting is wrong, or nothing limits the robot.
        RunError: a run lies in the folder already, or what is left of one.
        LearningError: nothing finite came out.
    """
    asked = asked_run(options)
    check_to_learn(asked.config)
    check_to_play(asked)
    require_limits(*asked)  # or the run could never have any: it keeps its settings
    robot = asked.described.robot
    bag, times = Counter(path.resolve() for path in bags).most_common(1)[0]
    if times > 1:
        raise BagError(f"{bag}: given {times} times; each bag counts once")
    recovered = [read_foreign(bag, robot, asked.config) for bag in bags]
    courses = [course for each in recovered for course in each.courses]
    _draw_goals(courses, asked)
    episodes = list(_episodes(courses, robot.steps))
    counted = {"episodes": len(episodes), "exploration.random_episodes": len(episodes)}

    def record(run: RunFolder) -> None:
        with run.locked(on_robot=True):
            for episode in episodes:
                _record(run, robot.spec, episode)

    run = created_run(options, asked._replace(config=override(asked.config, counted)), record)
    with run.locked(on_robot=True), unmade_without(run, run.bundle(len(episodes))):
        bundle = _learn(run, progress)
    return LearnedRun(run, bundle, [line for each in recovered for line in each.report])


def _draw_goals(courses: Sequence[Course], asked: AskedRun) -> None:
    """Give each stretch a goal as an episode gets it, where the bag tells none.

    Nothing moves by it, but plans are imagined for the goals of the states that were seen.
    """
    config, described = asked.config, asked.described
    count = len(described.robot.context)
    if not count:
        return
    body = Task(described, config.action_penalty).robot()
    draws = np.random.default_rng((GOALS, config.seed))
    for course in courses:
        if np.isnan(course.states[:, -count:]).any():
            course.states[:, -count:] = body.initial_state(draws)[-count:]


def _learn(run: RunFolder, progress: Progress) -> Path:
    config = run.config
    learner = Learner(config, run)
    for index in range(config.episodes):  # who moved the robot is not known
        learner.export_initial(index)
    bundle = learner.learn(progress)
    task = make_task(config.task, config.action_penalty, run.robot)
    Ledger(run, config, task, in_process=True).write()
    return bundle


def _episodes(courses: Sequence[Course], steps: int) -> Iterator[list[Course]]:
    """Stretches, cut and put together to episodes of `steps` transitions at most."""
    episode: list[Course] = []
    room = steps
    for course in courses:
        begin = 0
        while begin < len(course.actions):
            end = min(begin + room, len(course.actions))
            episode.append(course.part(begin, end))
            # One more is what leads to the next stretch, and is left out.
            room -= end - begin + 1
            begin = end
            if room < 1:
                yield episode
                episode, room = [], steps
    if episode:
        yield episode


def _record(run: RunFolder, spec: RobotSpec, episode: Sequence[Course]) -> None:
    """A bag as of an episode in lockstep: the efforts of a joint state acted until it.

    Of a robot that takes no efforts the ticks say what acted.
    """
    recording = Recording(run, {}, stepped=True)
    period_ns = round(spec.period * NANOSECONDS)
    joints, (further, body, goal, _) = len(spec.joint_names), sources(spec)
    entries = (*spec.observed, *spec.context)
    aged = [SPEED_PERIODS[0] * spec.period] if object_speeds(spec) else []
    moving = [spec.observed.index(f"{joint}{VELOCITY}") for joint in further]
    names = (*spec.joint_names, *further)
    motors = [spec.joint_names.index(name) for name in spec.actuated_joints]
    clock_ns, step = APART * period_ns, 0
    recording.write(ACTIVE, messages.boolean(True), clock_ns)
    for course in episode:
        told: list[float] | None = None
        shown = np.zeros((len(course.states), len(names)))
        if spec.command == "effort":
            shown[1:, motors] = course.actions
        commands = spec.to_command(course.actions, course.states[:-1])
        for k, state in enumerate(course.states):
            observed = state[2 * joints :]
            if goal and (place := _place(goal, entries, observed)) != told:
                told = place
                recording.write(GOAL, messages.pose(clock_ns, place, FRAME), clock_ns)
            for ago in (*aged, 0.0) if body else ():  # how fast it moves, an older pose tells
                stamp, place = clock_ns - round(ago * 1e9), _place(body, entries, observed, -ago)
                recording.write(OBJECT_POSE, messages.pose(stamp, place, FRAME), clock_ns)
            places = [*state[:joints].tolist(), *(0.0 for _ in further)]
            speeds = [*state[joints : 2 * joints].tolist(), *observed[moving].tolist()]
            message = messages.joint_state(clock_ns, names, places, speeds, shown[k].tolist())
            recording.write(JOINT_STATES, message, clock_ns)
            if k < len(course.actions):
                recording.write(COMMANDS, messages.floats(commands[k].tolist()), clock_ns)
                tick = _tick(clock_ns, step, course.actions[k].tolist())
                recording.write(TICKS, messages.tick(tick), clock_ns)
                step += 1
                clock_ns += period_ns
        clock_ns += APART * period_ns
    recording.write(ACTIVE, messages.boolean(False), clock_ns)
    recording.finish()


def _place(
    body: str, entries: Sequence[str], values: NDArray[np.float64], later: float = 0.0
) -> list[float]:
    """Where a body is [m], or will be so much later [s]; a coordinate that isn't told is zero."""
    told = dict(zip(entries, values.tolist(), strict=True))
    names = [f"{body}_{axis}" for axis in AXES]
    return [told.get(name, 0.0) + later * told.get(f"{name}{VELOCITY}", 0.0) for name in names]


def _tick(stamp_ns: int, step: int, action: Sequence[float]) -> TickRecord:
    seconds, rest = divmod(stamp_ns, NANOSECONDS)
    return TickRecord(
        stamp_sec=seconds,
        stamp_nanosec=rest,
        step=step,
        tick_ms=math.nan,
        source=int(Source.RANDOM),
        missed=False,
        clamped=False,
        filtered=0,
        iterations=0,
        planned_return=math.nan,
        epistemic_std=math.nan,
        aleatoric_std=math.nan,
        surprise=math.nan,
        hallucination=0.0,
        action=tuple(action),
    )
