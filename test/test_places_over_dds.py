"""Tasks with a goal, an object or a further joint, over real DDS."""

import math
import shutil

import numpy as np
import pytest
from bench import Bench, Process
from geometry_msgs.msg import PoseStamped
from shortened import shorten

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.config.schema import Config, ModelSettings, PlannerSettings, SearchSettings
from hucrl_ros.controller.ticks import Source
from hucrl_ros.experiments.train import play_episode
from hucrl_ros.nodes.controller_topics import pose_message
from hucrl_ros.nodes.topics import LATCHED, STREAM
from hucrl_ros.robots import make_robot
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.ros

STEPS = 12
ARRIVED_S = 0.5
"""For a pose to arrive, which nothing tells."""
MODEL = ModelSettings(heads=2, layers=(8,))
PLANNER = PlannerSettings(algorithm="policy", horizon=1)
"""Sees the whole state, and nothing has to be compiled."""
SEARCH = SearchSettings(policy_layers=(8,), critic_layers=(8,))
JOINTS = make_robot("reacher").spec.joint_names
STEP = make_robot("reacher").spec.period
"""[s]"""


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """Makes runs of a task whose short episode 0 is played by small untrained networks."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch, STEPS)

        def make(task):
            root = folder / task
            if root.exists():
                return RunFolder.open(root)
            run = RunFolder.create(root, Config(task=task, seed=3))
            untrained_bundle(run.bundle(0), task, MODEL, PLANNER, SEARCH)
            return run

        yield make


class Stage:
    """Simulator, recorder and controller in lockstep; the test is the supervisor."""

    def __init__(self, bench: Bench, run: RunFolder) -> None:
        self.bench, self.run = bench, run
        settings = {"task": run.config.task, "seed": run.config.seed, "mode": "lockstep"}
        self.controller = Process("controller", bench._logs / "controller.log", **settings)
        for name in ("simulator", "recorder"):
            bench.start(name, **settings, run=run.root)

    def play(self) -> None:
        bench = self.bench
        bench.meet(self.controller)
        assert bench.transition("configure")
        bench.load(self.run.bundle(0))
        assert bench.record(True).success
        assert bench.reset().success
        assert bench.wait(lambda: bench.transition("activate"))
        assert bench.wait(lambda: bench.active[-2:] == [True, False]), self.controller.text()
        assert bench.record(False).success


@pytest.mark.parametrize(
    "task", ["reacher", "pusher", pytest.param("half_cheetah", marks=pytest.mark.slow)]
)
def test_an_episode_in_lockstep_is_that_of_one_process_to_the_last_bit(
    task, run_of, ros_domain, tmp_path
):
    run = run_of(task)
    made = make_task(task, run.config.action_penalty)
    alone = RunFolder(tmp_path / "alone")
    shutil.copytree(run.root, alone.root)
    expected = read_episode(play_episode(made, run.config, alone), made.spec, STEPS)
    with Bench(tmp_path) as bench:
        stage = Stage(bench, run)
        try:
            stage.play()
        finally:
            stage.controller.clean_up()
    recorded = read_episode(run.bag(0), made.spec, STEPS)
    np.testing.assert_array_equal(recorded.states, expected.states)
    np.testing.assert_array_equal(recorded.actions, expected.actions)
    assert recorded.contiguous.all() and recorded.events == []
    assert set(recorded.ticks["source"]) == {Source.POLICY}
    assert len(set(map(tuple, expected.actions))) > 1, "they depend on the state"


class PoseBench(Bench):
    """A bench that says where object and goal are as well."""

    def __init__(self, folder):
        super().__init__(folder)
        self.goals = self.node.create_publisher(PoseStamped, "goal", LATCHED)
        self.objects = self.node.create_publisher(PoseStamped, "object_pose", STREAM)

    def place(self, publisher, position, ahead=0.0):
        """Publish a place `ahead` [s] of the newest joint state."""
        publisher.publish(pose_message(position, self.stamp_ns + round(ahead * 1e9)))

    def ask_arm(self, advance=STEP):
        return self.ask(names=JOINTS, position=[0.1] * 7, velocity=[0.0] * 7, advance=advance)


@pytest.fixture
def start(run_of, ros_domain, tmp_path):
    """Starts a controller of its own, configured."""
    processes = []
    with PoseBench(tmp_path) as bench:

        def start_controller(task, mode, **parameters):
            parameters |= {"task": task, "mode": mode, "bundle": run_of(task).bundle(0)}
            process = Process("controller", tmp_path / "controller.log", **parameters)
            processes.append(process)
            bench.meet(process)
            assert bench.transition("configure")
            return bench, process

        yield start_controller
    for process in processes:
        process.clean_up()


def test_no_episode_begins_without_a_goal_and_a_bad_goal_gets_the_safe_command(start):
    bench, process = start("reacher", "lockstep")
    assert not bench.transition("activate")
    line = "no goal: publish a geometry_msgs/PoseStamped on '/goal'"
    assert bench.wait(lambda: process.lines(line))
    assert bench.health("controller")["message"] == line

    step = make_robot("reacher").spec.period
    bench.place(bench.goals, [math.nan, 0.0, 0.0], ahead=step)
    assert bench.wait(lambda: bench.transition("activate"))
    assert bench.ask_arm() == [0.0] * 7
    assert bench.wait(lambda: process.lines("goal: x is nan; expected a finite number"))
    bench.place(bench.goals, [0.1, 0.2, 0.0], ahead=step)  # changed in mid-episode
    bench.spin_for(ARRIVED_S)
    assert bench.ask_arm() != [0.0] * 7
    assert bench.wait(lambda: len(bench.ticks) == 2)
    assert [tick.source for tick in bench.ticks] == [Source.SAFE, Source.POLICY]


def test_in_lockstep_a_tick_waits_for_the_objects_pose_then_it_is_a_problem(start):
    bench, process = start("pusher", "lockstep")
    step = make_robot("pusher").spec.period
    assert bench.transition("activate")
    bench.publish(names=JOINTS, position=[0.1] * 7, velocity=[0.0] * 7, advance=step)
    bench.spin_for(0.2)
    assert bench.commands == []
    bench.place(bench.objects, [0.4, 0.0, -0.3])
    assert bench.wait(lambda: len(bench.ticks) == 1)
    assert bench.ticks[0].source == Source.POLICY
    assert bench.ask_arm(step) == [0.0] * 7, "its pose never comes"
    line = "object_pose: the newest is 40.0 ms older than the joint state"
    assert bench.wait(lambda: process.lines(line))
    assert bench.wait(lambda: len(bench.ticks) == 2)
    assert bench.ticks[1].source == Source.SAFE


def test_in_real_time_a_stale_pose_gets_the_safe_command_until_there_is_a_new_one(start):
    bench, process = start("pusher", "real_time", safety__outage_periods=1e6)
    step = make_robot("pusher").spec.period
    bench.place(bench.objects, [0.4, 0.0, -0.3], ahead=step)
    bench.spin_for(ARRIVED_S)
    assert bench.transition("activate")
    sources = []
    for advance in (step, 3 * step, step):  # stale after 3 periods
        count = len(bench.ticks)
        assert bench.ask_arm(advance) is not None
        assert bench.wait(lambda count=count: len(bench.ticks) > count)
        sources.append(bench.ticks[-1].source == Source.SAFE)
    assert sources == [False, False, True]
    assert bench.wait(lambda: process.lines("object_pose: the newest is 160.0 ms older"))
    bench.place(bench.objects, [0.4, 0.0, -0.3])
    bench.spin_for(ARRIVED_S)
    assert bench.wait(lambda: bench.ask_arm(step / 10) != [0.0] * 7)
