"""Planning that stalls leaves no period without a command, and none goes uncounted."""

import dataclasses
import subprocess
import sys
from concurrent.futures import Executor, ThreadPoolExecutor, TimeoutError
from threading import Event

import numpy as np
import pytest
from bench import PERIOD, Bench, Process, short_bundle
from bundle_factory import PLANNER
from waiting import PATIENCE

from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.agent import GRACE, Agent
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.state_reader import JointReading
from hucrl_ros.controller.ticks import Source
from hucrl_ros.controller.timing import DeadlinePlanner, Planned

ITERATION_S = 0.002
BUDGET_S = 0.7 * PERIOD
P, O = Source.PLANNED, Source.PREVIOUS  # noqa: E741


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Job:
    """What a thread beside this one has done by a time of the simulated clock."""

    def __init__(self, clock, outcome, end):
        self._clock, self._outcome, self._end = clock, outcome, end

    def done(self):
        return self._clock.now >= self._end

    def cancel(self):
        return False

    def exception(self):
        self._clock.now = max(self._clock.now, self._end)

    def result(self, timeout=0.0):
        if self._end > self._clock.now + timeout:
            self._clock.now += timeout
            raise TimeoutError
        self._clock.now = max(self._clock.now, self._end)
        return self._outcome


class Beside(Executor):
    """Works while the simulated clock goes on for others."""

    def __init__(self, clock):
        self._clock = clock

    def submit(self, work):
        begin = self._clock.now
        outcome, end = work(), self._clock.now
        self._clock.now = begin
        return Job(self._clock, outcome, end)


class Course:
    """An agent's loop on a simulated clock, whose iterations take as long as the test says."""

    def __init__(self, bundle, threaded=True):
        self.clock = Clock()
        executor = Beside(self.clock) if threaded else None
        self.agent = Agent(bundle, BUDGET_S, self.clock, executor=executor)
        spec = bundle.manifest.spec
        guard = Guard(spec, SafetySettings())
        self.loop = ControlLoop(spec, 10**6, self.agent, guard, self.clock)
        self.stall_s = 0.0
        self._engine, self.agent._engine = self.agent._engine, self
        self._began, self._k = self.clock.now, 0
        self.loop.start(0)
        for _ in range(3):  # now it knows how long an iteration takes
            self.tick()

    def set_state(self, state):
        self._engine.set_state(state)

    def __call__(self, *inputs):
        self.clock.now += ITERATION_S + self.stall_s
        self.stall_s = 0.0
        return self._engine(*inputs)

    def tick(self, stall_s=0.0):
        """The record of the newest joint state that is due; those before it are lost."""
        self._k = max(self._k + 1, int((self.clock.now - self._began) / PERIOD))
        received = self.clock.now = max(self.clock.now, self._began + self._k * PERIOD)
        self.stall_s = stall_s
        reading = JointReading(("pendulum_joint",), [3.0], [0.5], round(self._k * PERIOD * 1e9))
        return self.loop.answer(reading, received, list).record

    def sources(self, stalls):
        return [Source(self.tick(stall).source) for stall in stalls]


def test_a_stall_leaves_no_period_without_a_command(bundle):
    course = Course(bundle)
    records = [course.tick(stall) for stall in (0, 0.045, 0, 0, 0, 0, 0)]
    assert [Source(record.source) for record in records] == [P, O, O, O, O, P, P]
    counters = course.loop.counters
    assert counters.skipped_joint_states == counters.misses == 0
    assert counters.overruns == 4
    assert counters.sources == {P: 3 + 3, O: 4}
    assert max(record.tick_ms for record in records) < 1e3 * PERIOD
    # The first waits until its grace is over; the next ones needn't wait.
    deadline_s = BUDGET_S + GRACE * (PERIOD - BUDGET_S)
    assert records[1].tick_ms == pytest.approx(1e3 * deadline_s)
    assert records[2].tick_ms == pytest.approx(0.0)


def test_following_the_policy_takes_no_other_thread(bundle):
    planner = bundle.manifest.planner.model_copy(update={"algorithm": "policy"})
    manifest = bundle.manifest.model_copy(update={"planner": planner})
    course = Course(dataclasses.replace(bundle, manifest=manifest))
    course.agent._deadline.run(lambda: None, -1.0)
    assert course.sources([0, 0]) == [Source.POLICY] * 2
    assert course.loop.counters.overruns == 0


def test_without_a_thread_of_its_own_a_stall_loses_periods_and_that_is_counted(bundle):
    course = Course(bundle, threaded=False)
    assert course.sources([0, 0.045, 0]) == [P, P, P]
    assert course.loop.counters.misses == 1
    assert course.loop.counters.skipped_joint_states == 2


def test_during_a_stall_each_command_is_the_previous_plans_for_that_period(bundle):
    course = Course(bundle)
    course.tick()
    plan = course.agent._plan.actions[:, 0]
    sent = [course.tick(stall).action[0] for stall in (0.045, 0, 0, 0)]
    np.testing.assert_allclose(sent, plan[1:5], atol=1e-6)
    assert len(set(sent)) == len(sent), "none is sent twice"


def test_a_late_plan_serves_for_the_periods_that_are_left_of_it(bundle):
    course = Course(bundle)
    course.tick()
    for stall in (0.045, 0, 0, 0):
        course.tick(stall)
    record = course.tick(0.045)  # the first plan is ready now, 4 periods old, and the next stalls
    late = course.agent._plan.actions[:, 0]
    assert (record.source, record.action[0]) == (O, pytest.approx(late[4]))


def test_a_stall_longer_than_the_plan_ends_in_the_policy(bundle):
    course = Course(bundle)
    course.tick()
    longer = [(PLANNER.horizon + 3) * PERIOD] + [0] * (PLANNER.horizon + 1)
    expected = [O] * (PLANNER.horizon - 1) + [Source.POLICY] * 3
    assert course.sources(longer) == expected
    assert course.loop.counters.overruns == len(longer)


def test_periods_without_a_joint_state_shift_the_plan_as_well(bundle):
    course = Course(bundle)
    course.tick()
    plan = course.agent._plan.actions[:, 0]
    course.clock.now += 3.0 * PERIOD
    record = course.tick(0.045)
    assert course.loop.counters.skipped_joint_states == 2
    assert (record.source, record.action[0]) == (O, pytest.approx(plan[3]))


def test_stalls_now_and_then_are_all_counted(bundle):
    course = Course(bundle)
    stalls = [0.050 if k % 10 == 5 else 0.0 for k in range(100)]
    sources = course.sources(stalls)
    counters = course.loop.counters
    assert counters.ticks == 3 + len(stalls)
    assert sources.count(O) == counters.overruns == counters.sources[O]
    assert 10 * 4 <= counters.overruns <= 10 * 5
    assert counters.skipped_joint_states == counters.misses == 0


def test_work_behind_another_agents_is_given_up_when_its_time_has_come():
    begun, end = Event(), Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: begun.set() or end.wait(PATIENCE))
        assert begun.wait(PATIENCE)
        planner = DeadlinePlanner(pool)
        assert planner.run(lambda: 1 / 0, 0.0) == Planned(None, False, begun=False)
        assert not planner.busy, "it will never begin"
        end.set()
    assert planner.late() is None


def test_a_bug_in_late_work_is_not_lost():
    end = Event()
    with ThreadPoolExecutor(1) as pool:
        planner = DeadlinePlanner(pool)
        planner.run(lambda: end.wait(PATIENCE) and 1 / 0, 0.0)
        assert planner.busy or end.is_set()
        end.set()
    with pytest.raises(ZeroDivisionError):
        planner.late()


STATES = 160
STALLING = """
import sys, time
from hucrl_ros.nodes.controller import main
from hucrl_ros.controller.agent import Agent
plan, calls = Agent._plan_now, 0
def stall(self, periods):
    global calls
    calls += 1
    if calls % 16 == 0:
        time.sleep(0.05)
    return plan(self, periods)
Agent._plan_now = stall
sys.exit(main())
"""


@pytest.mark.ros
def test_a_controller_that_stalls_beside_a_busy_process_accounts_for_every_period(
    ros_domain, tmp_path
):
    bundle = short_bundle(tmp_path / "bundle", steps=10 * STATES)
    program = ("-c", STALLING)
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    process = Process(
        "controller",
        tmp_path / "controller.log",
        program,
        bundle=bundle,
        mode="real_time",
        safety__outage_periods=1e6,
    )
    try:
        with Bench(tmp_path) as bench:
            bench.meet(process)
            assert bench.transition("configure")
            assert bench.transition("activate")
            assert bench.drive(lambda: bench.published == STATES) == STATES
            health = bench.health("controller")
            ticks, commands = list(bench.ticks), list(bench.commands)
    finally:
        hog.kill()
        hog.wait()
        process.clean_up()
    skipped, ticked = int(health["skipped_joint_states"]), len(ticks)
    assert ticked + skipped == STATES
    assert [tick.step for tick in ticks] == list(range(ticked))
    assert len({tick.stamp_ns for tick in ticks}) == ticked, "one tick a joint state"
    # Beside the ticks' commands there are only the safe ones for lost joint states, all counted.
    in_ticks = [list(tick.action) for tick in ticks]
    others = [effort for _, effort in commands if effort not in in_ticks]
    assert others in ([], [[0.0]] * len(others))
    previous = sum(tick.source == Source.PREVIOUS for tick in ticks)
    stalls = ticked // 16
    # A stall of 4 periods in the executor's thread would skip 3 of them and overrun none.
    assert int(health["overruns"]) >= 2 * stalls - skipped
    assert previous == int(health["ticks_previous"]) >= stalls - skipped
