"""The page's parts that need neither a browser nor ROS."""

import gc
import itertools
import re
import shutil
import threading
import time
import weakref
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import MagicMock
from urllib.parse import urlparse

import msgspec
import numpy as np
import pytest
import viser
from bundle_factory import write_bundle
from fabricated_run import fabricate_run, play_random
from fabricated_run import record as record_bag
from hypothesis import given
from hypothesis import strategies as some
from manifest_factory import write_manifest
from own_robots import ARM, changed, modelled, resolved
from test_inspect import CRASHES
from waiting import wait_until
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from hucrl_ros.benchmarks.page import CAMERA, Browser
from hucrl_ros.controller import examiner
from hucrl_ros.controller.state_reader import JointReading
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.errors import BagError
from hucrl_ros.page import controls, live, plots, stage, timeline, visitors, words
from hucrl_ros.page import memory as memory_module
from hucrl_ros.page.belief import Belief, imagined
from hucrl_ros.page.door import FIRST_WAIT, Door
from hucrl_ros.page.figure import Figure
from hucrl_ros.page.heard import (
    KEPT_SOURCES,
    KEPT_TICKS,
    LONGEST_NAME,
    WATCHDOG,
    Event,
    Heard,
)
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.page.look import GREEN, VERMILION, css
from hucrl_ros.page.memory import Memory
from hucrl_ros.page.page import LocalServer, Page
from hucrl_ros.page.past import Past
from hucrl_ros.page.rhythm import BEGIN, SILENT_S, Rhythm
from hucrl_ros.page.timeline import TimeLine
from hucrl_ros.page.tube import SIDES, spread, tube
from hucrl_ros.page.wishes import NEXT_BUNDLE, NEXT_GOAL, PAUSE, Setting, Stop, Wishes
from hucrl_ros.robots import describe
from hucrl_ros.run.progress import Phase
from hucrl_ros.run.replay import Recalled
from hucrl_ros.run.summary import read_summary, write_summary


@pytest.mark.parametrize("angle", [0.0, 0.7, 3.0])
def test_the_tip_of_a_robot_without_a_goal_is_the_end_of_its_chain(angle):
    kinematics = Kinematics(describe("pendulum"))
    (tip,) = kinematics.tips(np.array([[angle, 0.0]]))
    assert tip == pytest.approx([0.5 * np.sin(angle), 0.0, 0.75 + 0.5 * np.cos(angle)])
    positions, _ = kinematics.poses(np.array([angle, 0.0]))
    assert positions[1] == pytest.approx([0.0, 0.0, 0.75])


def test_the_tip_of_an_arm_is_the_point_that_is_to_reach_the_goal():
    kinematics = Kinematics(describe("reacher"))
    state = np.zeros(kinematics.spec.state_dim)
    kinematics.put(state)
    assert kinematics.site is not None
    (tip,) = kinematics.tips(state[None])
    assert tip == pytest.approx(kinematics.data.site_xpos[kinematics.site])


def test_where_an_object_is_to_get_somewhere_its_way_is_drawn():
    kinematics = Kinematics(describe("pusher"))
    states = np.zeros((2, 3, kinematics.spec.state_dim))
    states[..., 14:17] = places = np.arange(18.0).reshape(2, 3, 3)
    assert kinematics.tips(states) == pytest.approx(places)


RUNNING = np.r_[np.zeros(16), 2.0]
"""State of a half-cheetah at 2 m/s; where it is no state tells."""


def seen(figure):
    """Where the torso is seen, where the trail of its tip ends, and where the floor is [m]."""
    base, trail = np.array(figure._base.position), figure._ways["happened"].points
    return [(base + part)[0] for part in (figure._frames[1].position, trail[-1, 1], 0.0)]


def test_plans_go_on_from_where_a_robot_is_whose_speed_alone_is_told():
    kinematics = Kinematics(describe("half_cheetah"))
    (here,) = kinematics.tips(RUNNING[None])
    ways = kinematics.tips(np.broadcast_to(RUNNING, (2, 5, 17)), np.array([7.0]))
    assert ways[1, :, 0] - here[0] == pytest.approx([7.0, 7.1, 7.2, 7.3, 7.4])


def test_live_a_robot_whose_speed_alone_is_told_moves_along_and_stays_in_view(tmp_path):
    described, server = describe("half_cheetah"), LocalServer("127.0.0.1", 0, verbose=False)
    names, heard = described.robot.spec.joint_names, Heard(described.robot.spec)
    drawn = live.Live(server, described, heard, tmp_path)
    drawn.close()
    tip = Kinematics(described).tips(RUNNING)[0]

    def hear(second, speed):
        told = ((*names, "rootx"), (0.0,) * 9, (*(0.0,) * 8, speed))
        heard.joint_state(JointReading(*told, round(second * 1e9)))
        drawn._draw()

    try:
        for second, speed in ((10.0, 1.0), (10.5, 3.0), (11.0, 1.0)):
            hear(second, speed)
        assert seen(drawn._figure) == pytest.approx([0.0, tip, -2.0], abs=1e-6)
        assert drawn._untold == pytest.approx([2.0])
        for step in (0, 1, 0):  # another episode
            heard.tick(record(step))
        hear(13.0, 1.0)
        hear(13.1, 1.0)
        assert seen(drawn._figure) == pytest.approx([0.0, tip, -0.1], abs=1e-6)
    finally:
        server.stop()


def test_back_in_time_a_robot_whose_speed_alone_is_told_is_where_it_had_come_to():
    states, ticks = np.tile(RUNNING, (21, 1)), np.zeros(1, [("stamp_ns", np.int64)])
    stamps_ns = np.arange(1, 22) * 50_000_000
    episode = SimpleNamespace(states=states, actions=states[1:], stamps_ns=stamps_ns, ticks=ticks)
    past = MagicMock(period=0.05, episode=lambda index: episode)
    kinematics = Kinematics(describe("half_cheetah"))
    memory = Memory(past, kinematics, Rhythm(None))
    moment = memory.moment(0, 10)
    memory.close()
    assert moment.untold == pytest.approx([1.0])
    assert moment.way[0] == pytest.approx(kinematics.tips(RUNNING, moment.untold))
    server = LocalServer(host="127.0.0.1", port=0, verbose=False)
    try:
        figure = Figure(server.scene, kinematics, "/past")
        figure.pose(moment.state, moment.untold)
        assert figure._base.position == pytest.approx([-1.0, 0.0, 0.0])
        assert figure._frames[1].position[0] == pytest.approx(1.0)
    finally:
        server.stop()


def test_the_width_of_a_tube_is_the_doubt():
    way = np.stack([np.zeros(5), np.linspace(0.0, 1.0, 5), np.zeros(5)], axis=1)
    radii = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    vertices, faces = tube(way, radii)
    rings = vertices.reshape(5, SIDES, 3)
    assert np.linalg.norm(rings - way[:, None], axis=-1) == pytest.approx(
        np.repeat(radii[:, None], SIDES, axis=1)
    )
    assert rings[..., 1] == pytest.approx(np.repeat(way[:, 1:2], SIDES, axis=1))
    assert faces.shape == (2 * 4 * SIDES, 3)
    assert faces.max() == len(vertices) - 1


def test_a_tube_survives_a_way_that_stands_still():
    vertices, _ = tube(np.ones((4, 3)), np.full(4, 0.1))
    assert np.linalg.norm(vertices - 1.0, axis=-1) == pytest.approx(np.full(4 * SIDES, 0.1))


def test_spread_is_the_root_mean_square_distance():
    centre = np.zeros((2, 3))
    ways = np.array([[[0, 0, 0], [3, 0, 0]], [[0, 0, 0], [0, 4, 0]]], np.float64)
    assert spread(ways, centre) == pytest.approx([0.0, np.sqrt(12.5)])


class LinearModel:
    """next = s + a, with an epistemic deviation of 0.1 and 0.2; the third entry is a goal."""

    manifest = SimpleNamespace(
        spec=SimpleNamespace(predicted_dim=2), bounds=np.array([[-5.0, -5.0], [5.0, 1.0]])
    )

    def run(self, graph, state, action):
        assert graph == "dynamics"
        mean = state[:, :2] + action
        return [mean, np.full_like(mean, (0.1, 0.2)), np.zeros_like(mean)]


def test_outcomes_are_those_of_h_ucrls_equation():
    doubts = np.array([[0.0, 0.0], [3.0, -3.0]])
    actions = np.array([[1.0, 0.5], [1.0, 0.5], [1.0, 0.5]])
    states = imagined(LinearModel(), np.array([0.0, 0.0, 7.0]), actions, doubts)
    assert states.shape == (2, 4, 3)
    assert states[0, :, 0] == pytest.approx([0.0, 1.0, 2.0, 3.0])
    assert states[0, :, 1] == pytest.approx([0.0, 0.5, 1.0, 1.0])  # no further than its bound
    assert states[1, :, 0] == pytest.approx([0.0, 1.3, 2.6, 3.9])
    assert (states[..., 2] == 7.0).all()


def test_a_wrong_token_opens_nothing_and_costs_more_time_each_time():
    now = [0.0]
    door = Door("right-token-of-32-letters-abcdef", lambda: now[0])
    assert not door.opens("wrong")
    assert door.shut_for == FIRST_WAIT
    assert not door.opens("right-token-of-32-letters-abcdef"), "it is shut for a while"
    now[0] = FIRST_WAIT
    assert not door.opens("")
    assert door.shut_for == 2 * FIRST_WAIT
    now[0] += 2 * FIRST_WAIT
    assert not door.opens("right-token-of-32-letters-abcde\udcff")
    now[0] += 4 * FIRST_WAIT
    assert door.opens(" right-token-of-32-letters-abcdef\n")


def test_the_right_token_is_not_called_wrong_where_it_comes_too_early():
    server, token = LocalServer(host="127.0.0.1", port=0, verbose=False), "right-token"
    try:
        door = controls.Controls(server, Wishes(), token, None, 1.0)
        door._door._clock = lambda: 0.0
        for given, told in (("wrong", "wrong token; the next one counts in 1 s"),
                            (token, "too early; the next one counts in 1 s")):  # fmt: skip
            door._text.value = given
            door._knock()
            assert told in door._answer.content
            assert door._inside is None
    finally:
        server.stop()


def record(step, **changes):
    values = {
        "stamp_sec": 1, "stamp_nanosec": step, "step": step, "tick_ms": 5.0, "source": 0,
        "missed": False, "clamped": False, "filtered": 0, "iterations": 1, "planned_return": 0.0,
        "epistemic_std": 0.1, "aleatoric_std": 0.1, "hallucination": 0.5, "surprise": 1.0,
        "action": (0.0,),
    }  # fmt: skip
    return TickRecord(**{**values, **changes})


def test_ticks_are_counted_anew_in_each_episode():
    heard = Heard(describe("pendulum").robot.spec)
    for step, source in enumerate((0, 1, 2, 3, 4)):
        heard.tick(record(step, source=source, missed=step == 1, clamped=step > 2, filtered=step))
    assert heard.now.counts == (5, 1, 3, 2, 4)
    heard.tick(record(0))
    assert heard.now.counts == (1, 0, 0, 0, 0)
    assert heard.now.episode == 1
    assert heard.ticks()["tick_ms"].tolist() == [5.0]


def test_the_newest_ticks_are_kept():
    heard = Heard(describe("pendulum").robot.spec)
    for step in range(KEPT_TICKS + 10):
        heard.tick(record(step, tick_ms=0.5 * step))
    kept = np.arange(10, KEPT_TICKS + 10)
    np.testing.assert_array_equal(heard.ticks()["step"], kept)
    np.testing.assert_array_equal(heard.ticks()["tick_ms"], 0.5 * kept)


def test_a_joint_state_is_a_state_and_nonsense_is_none():
    heard = Heard(describe("pendulum").robot.spec)
    assert heard.now.state is None
    heard.joint_state(JointReading(("pendulum_joint",), (0.5,), (1.5,), 10))
    assert heard.now.state.tolist() == [0.5, 1.5]
    heard.joint_state(JointReading(("pendulum_joint",), (float("nan"),), (1.5,), 20))
    assert heard.now.state is None


@some.composite
def _ticks(draw):
    period = draw(some.floats(0.001, 0.1))
    return period, draw(some.floats(0.0, 1.2)) * period, draw(some.floats(0.0, 0.99 * SILENT_S))


@given(_ticks())
def test_the_page_works_between_two_ticks(ticks):
    period, took, later = ticks
    rhythm = Rhythm(period)
    rhythm.tick(100.0, took)
    begin = 100.0 + later + rhythm.wait(100.0 + later)
    since = (begin - 100.0 + 1e-9) % period
    assert 0.0 <= rhythm.wait(100.0 + later) <= period
    assert since <= max(BEGIN * (period - took), 0.0) + 2e-9
    rhythm.tick(99.0, took)  # fetched late: an older one changes nothing
    assert begin == 100.0 + later + rhythm.wait(100.0 + later)


def test_where_no_ticks_come_the_page_waits_for_none():
    for rhythm in (Rhythm(None), Rhythm(0.02)):
        assert rhythm.wait(100.0) == 0.0
    rhythm.tick(100.0, 0.01)
    assert rhythm.wait(100.01) == pytest.approx(0.01)
    assert rhythm.wait(100.01 + SILENT_S) == 0.0


def test_of_learning_the_learner_tells_more_than_the_supervisor():
    heard = Heard(describe("pendulum").robot.spec)
    heard.supervisor(Phase.FITTING.value)
    heard.learner("fitting", "0.5")
    assert heard.now.phase == "fitting 50%"
    heard.learner("done", "1.0")
    heard.supervisor(Phase.PAUSED.value)
    assert heard.now.phase == Phase.PAUSED.value


@pytest.mark.parametrize("phase", [Phase.PERSON, Phase.HELD, Phase.PAUSED, Phase.REFUSED])
def test_what_a_person_is_asked_to_do_is_told_in_full(phase):
    heard = Heard(describe("pendulum").robot.spec)
    heard.supervisor(phase.value)
    assert heard.now.phase == phase.value


def test_a_line_is_news_once():
    heard = Heard(describe("pendulum").robot.spec)
    for _ in range(3):
        heard.note("watchdog", "no command")
    heard.calm("watchdog")
    heard.note("watchdog", "no command")
    assert [event.text for event in heard.events()] == ["no command"] * 2


def test_what_strangers_say_takes_no_more_and_more_room():
    heard = Heard(describe("pendulum").robot.spec)
    for number in range(2 * KEPT_SOURCES):
        heard.note("steady", "no command")
        heard.note(f"{number}{10**5 * 'x'}", "hello")
    assert len(heard._said) == KEPT_SOURCES
    assert "steady" in heard._said
    assert max(map(len, heard._said)) <= LONGEST_NAME
    heard.calm(f"{number}{10**5 * 'x'}")
    assert len(heard._said) == KEPT_SOURCES - 1
    heard.learner(10**5 * "x", "0.5")
    assert len(heard.now.phase) < 2 * LONGEST_NAME
    heard.supervisor(10**5 * "x")
    assert len(heard.now.phase) <= LONGEST_NAME


def test_words_of_strangers_are_no_html():
    evil = "<img src='http://example.org/x.png'> & ![x](http://example.org)"
    shown = words.events([Event(0.0, evil, evil)], [evil])
    assert "<img" not in shown
    assert set(re.findall(r"<(\w+)", shown)) <= {"div", "span", "b"}


def test_what_is_heard_each_second_hides_no_note_of_the_run():
    heard = [Event(float(k), "simulator", f"{k} commands refused") for k in range(30)]
    noted = [f"note {k}" for k in range(9)]
    shown = words.events(heard, noted)
    assert shown.count("<b>") == words.SHOWN_EVENTS - words.LEAST_NOTES
    assert "29 commands" in shown and "note 8" in shown and "note 4" not in shown
    assert all(f"note {k}" in words.events(heard[:2], noted) for k in range(9))


def test_a_run_that_is_played_without_nodes_is_played_all_the_same(run_folder):
    """As by `hucrl train`."""
    page = Page(run_folder, "127.0.0.1", 0, "token")
    said = lambda: page.panel.show() or page.panel._status.content  # noqa: E731
    try:
        assert "not played now" in said()
        with run_folder.locked():
            assert "played without ROS" in said()
        with run_folder.locked(domain=7):
            assert "without ROS" not in said()
    finally:
        page.close()


def test_a_run_that_is_resumed_with_more_episodes_has_more(run_folder):
    """Also without nodes, as by `hucrl train`."""
    page = Page(run_folder, "127.0.0.1", 0, "token")
    said = lambda: page.panel.show() or page.panel._status.content  # noqa: E731
    try:
        assert f"of {run_folder.config.episodes})" in said()
        run_folder.change(run_folder.config.model_copy(update={"episodes": 77}))
        with run_folder.locked():
            assert "of 77)" in said()
    finally:
        page.close()


def test_a_long_line_is_drawn_by_its_peaks():
    y = np.zeros(6000)
    y[4321] = 9.0
    x, shown = plots.thinned(np.arange(6000.0), y)
    assert len(x) == plots.MOST_POINTS
    assert shown.max() == 9.0
    assert x[shown.argmax()] == 4320.0


@pytest.mark.parametrize("count", [601, 1201, 4000])
def test_the_newest_points_of_a_long_line_are_drawn_at_once(count):
    y = np.zeros(count)
    y[-1] = 9.0
    x, shown = plots.thinned(np.arange(float(count)), y)
    assert len(x) == len(shown) <= plots.MOST_POINTS
    assert shown[-1] == 9.0


def test_an_axis_leaves_room_for_lines_with_gaps():
    low, high = plots.bounds(np.array([np.nan, 10.0]), np.array([-10.0, np.nan]))
    assert low == pytest.approx(-11.2)
    assert high == pytest.approx(11.2)
    assert plots.bounds(np.array([np.nan])) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("low", "high", "longest"),
    [(0.0, 300.0, "300"), (-1300.0, 80.0, "-1,000"), (-130000.0, 7400.0, "-100,000"),
     (0.0, 0.0021, "0.002"), (0.0, 5e6, "5,000,000")],
)  # fmt: skip
def test_beside_an_axis_there_is_room_for_its_numbers(low, high, longest):
    width = 6.7 * len(longest) + 15  # a tick and a gap
    assert width <= plots.room(low, high) < max(width + 20, 50)


def test_numbers_of_any_size_leave_room_for_a_plot():
    for low, high in ((0.0, 1e300), (-1.7e308, 1.7e308), (0.0, 1e-300), (0.0, 5e-324)):
        assert plots.room(low, high) == plots.WIDEST


def test_a_plot_gets_the_room_that_its_numbers_need():
    gui = MagicMock()
    plot = plots.Plot(gui, "Return", "episode", plots.ERRORS)
    drawn = gui.add_uplot.return_value
    drawn.axes = before = gui.add_uplot.call_args.kwargs["axes"]
    plot.show(np.arange(2.0), np.array([1.0, 200.0]), np.zeros(2))
    assert drawn.axes is before
    plot.show(np.arange(2.0), np.array([1.0, -2e5]), np.zeros(2))
    assert drawn.axes[1]["size"] > before[1]["size"]


@pytest.fixture
def flown_by_others(tmp_path):
    """A run whose episode 1 was flown by the random bundle 0, and episode 2 by that of 1."""
    run = fabricate_run(tmp_path / "run", steps=40)
    states, actions = play_random(np.random.default_rng(1))
    for episode, bundle in ((1, 0), (2, 1)):
        shutil.rmtree(run.bag(episode))
        record_bag(run.bag(episode), states[:41], actions[:40], np.ones(40), run.bundle(bundle))
        shutil.rmtree(run.bundle(episode))
    shutil.rmtree(run.bundle(0))
    write_bundle(run.bundle(0), episode=0, random=True, beta=0.0)
    write_bundle(run.bundle(1), episode=1, beta=1.5)
    write_manifest(run.bundle(2), 2)
    summary = read_summary(run.summary)
    episodes = [
        episode.model_copy(update={"bundle": f"bundles/bundle_00{bundle}"})
        for episode, bundle in zip(summary.episodes, (0, 0, 1), strict=True)
    ]
    write_summary(run.summary, summary.model_copy(update={"episodes": tuple(episodes)}))
    return Past(run, describe("pendulum"))


def test_an_episode_was_played_with_the_beta_of_the_bundle_that_flew(flown_by_others):
    beta = flown_by_others.learned(flown_by_others.summary()).beta
    assert beta == pytest.approx([np.nan, np.nan, 1.5], nan_ok=True)


def test_an_episode_that_a_surprise_ended_has_no_return_in_the_plot(flown_by_others):
    told = flown_by_others.summary()
    first, *others = told.episodes
    cut = told.model_copy(update={"episodes": (first.model_copy(update={"cut": True}), *others)})
    assert np.isnan(flown_by_others.learned(cut).earned).tolist() == [True, False, False]


def test_of_a_long_run_bags_are_read_little_by_little_and_each_once(tmp_path, monkeypatch):
    monkeypatch.setattr("hucrl_ros.page.past.READ_AT_A_TIME", 2)
    found = Past(fabricate_run(tmp_path / "run", steps=40), describe("pendulum"))
    read = []

    def episode(index):
        read.append(index)
        if index == 1:
            raise BagError("damaged")
        return SimpleNamespace(ticks={"hallucination": np.array([0.5])})

    monkeypatch.setattr(found, "episode", episode)
    known = [found.learned(found.summary()).hallucination.tolist() for _ in range(3)]
    assert known[0] == pytest.approx([0.5, np.nan, np.nan], nan_ok=True)
    for later in known[1:]:
        assert later == pytest.approx([0.5, np.nan, 0.5], nan_ok=True)
    assert read == [0, 1, 2]


def test_what_is_recalled_is_what_the_bundle_that_flew_believed(flown_by_others):
    memory = Memory(flown_by_others, Kinematics(describe("pendulum")), Rhythm(None))
    first, second = memory.episode(1), memory.episode(2)
    for each in (first, second):
        wait_until(lambda: not each.progress.startswith("recomputing"))  # noqa: B023 - at once
    memory.close()
    assert first.progress == "random actions: nothing was believed"
    assert second.progress == "planned anew: the bag doesn't tell how it was"
    assert memory.moment(1, 5).belief is None
    assert memory.moment(2, 5).belief is not None


def test_a_moment_after_a_lost_joint_state_is_told_by_its_own_tick(tmp_path, monkeypatch):
    run = fabricate_run(tmp_path / "run", steps=40)
    states, actions = play_random(np.random.default_rng(1))
    shutil.rmtree(run.bag(1))
    took = np.arange(40.0)
    record_bag(run.bag(1), states[:41], actions[:40], took, left_out=(20,))
    believed = []
    monkeypatch.setattr(memory_module, "believed", lambda *given: believed.append(given[0]))
    plan = SimpleNamespace(states=np.zeros((2, 2)))
    monkeypatch.setattr(
        memory_module, "recall", lambda bag: (Recalled(k, states[k], plan, k) for k in range(40))
    )
    found = Past(run, describe("pendulum"))
    memory = Memory(found, Kinematics(describe("pendulum")), Rhythm(None))
    wait_until(lambda: not memory.episode(1).progress)
    for step, tick in ((19, 19), (20, 21), (38, 39)):
        moment = memory.moment(1, step)
        assert moment.state == pytest.approx(states[tick])
        at = f"{tick * found.period:.2f} s"
        assert moment.told.startswith(f"{at} · planned · tick {tick:.1f} ms")
        assert believed[-1] == tick
    memory.close()


def test_after_what_a_bag_lacks_plans_are_made_anew(flown_by_others, monkeypatch):
    bundle = examiner.load_examined(flown_by_others.run.bundle(1))

    def lacking(bag):
        yield Recalled(0, np.zeros(2), None, bundle)
        raise BagError("the tick of step 1 isn't in the bag")

    monkeypatch.setattr(memory_module, "recall", lacking)
    memory = Memory(flown_by_others, Kinematics(describe("pendulum")), Rhythm(None))
    wait_until(lambda: not memory.episode(2).progress.startswith("recomputing"))
    moment = memory.moment(2, 5)
    memory.close()
    assert moment.belief is not None
    assert "planned anew from step 1 on: the bag doesn't tell how it was" in moment.told


def test_the_page_first_tries_a_bundle_in_a_process_with_limits(flown_by_others, monkeypatch):
    monkeypatch.setattr(examiner, "PROGRAM", ("-c", CRASHES))
    crashed = "ended the process that examined it, by SIGSEGV"
    heard = Heard(describe("pendulum").robot.spec)
    assert live._believer(flown_by_others.run.bundle(1), heard) is None
    assert heard.events()[0].text.endswith(crashed)
    memory = Memory(flown_by_others, Kinematics(describe("pendulum")), Rhythm(None))
    episode = memory.episode(2)
    wait_until(lambda: episode.progress.endswith(crashed))
    memory.close()


def test_episodes_that_were_looked_at_too_long_ago_are_forgotten(flown_by_others, monkeypatch):
    monkeypatch.setattr(memory_module, "KEPT", 1)

    def endless(bag):
        for step in itertools.count():
            time.sleep(0.001)
            yield Recalled(step, np.zeros(2), None, None)

    monkeypatch.setattr(memory_module, "recall", endless)
    memory = Memory(flown_by_others, Kinematics(describe("pendulum")), Rhythm(None))
    seen = [weakref.ref(memory.episode(index)) for index in (2, 1, 2, 1, 2)]
    try:
        wait_until(lambda: not any(each() for each in seen[:-1]))
        wait_until(lambda: len(seen[-1]().plans) > 10)
    finally:
        memory.close()


def test_each_of_many_browsers_may_look_at_another_episode(tmp_path, monkeypatch):
    monkeypatch.setattr(memory_module, "KEPT", 1)
    page = Page(fabricate_run(tmp_path / "run", steps=40), "127.0.0.1", 0, "token")
    read, episode = [], Past.episode
    # The plots read each bag once as well.
    page.panel.close()
    monkeypatch.setattr(Past, "episode", lambda past, k: read.append(k) or episode(past, k))
    try:
        with browsing(page), browsing(page), browsing(page):
            wait_until(lambda: len(page._visitors._known) == 3)
            lines = [visitor.time for visitor in page._visitors._known.values()]
            for index, line in enumerate(lines):
                line._episode.value = f"episode {index}"
            wait_until(lambda: [line._shown[0] for line in lines] == [0, 1, 2])
            read.clear()
            time.sleep(10 * visitors.ADVANCE_S)
            assert not read
            assert len(page._visitors._memory._known) == 3
        wait_until(lambda: not page._visitors._watched())
    finally:
        page.close()


def test_what_a_browser_had_of_its_own_is_gone_soon_after_it(tmp_path, monkeypatch):
    monkeypatch.setattr(visitors, "SWEEP_S", 0.2)
    page = Page(fabricate_run(tmp_path / "run", steps=40), "127.0.0.1", 0, "token")
    gc.disable()
    try:
        ended = threading.Event()
        browser = Browser(int(page.greeting[0].rpartition(":")[2].strip("/")), ended)
        browser.start()
        wait_until(lambda: page._visitors._known)
        (visitor,) = map(weakref.ref, page._visitors._known.values())
        assert visitor() is not None
        ended.set()
        wait_until(lambda: visitor() is None)
    finally:
        gc.enable()
        page.close()


def test_play_goes_on_where_it_was_held_and_from_the_end_at_the_beginning(monkeypatch):
    memory = MagicMock(period=0.5)
    memory.episode.return_value = SimpleNamespace(steps=10, progress="")
    memory.moment.return_value.told = ""
    line, inputs, now = past_line(monkeypatch, memory)
    step, play, seen = inputs.step, inputs.play, []
    for second, held in ((0, None), (2, None), (3, False), (90, False), (90, True), (91, None),
                         (95, None), (96, True), (97, None)):  # fmt: skip
        now[0], play.value = float(second), play.value if held is None else held
        line.advance()
        seen.append((step.value, play.value))
    assert [at for at, _ in seen] == [0, 4, 4, 4, 4, 6, 10, 2, 4]
    assert [plays for _, plays in seen] == [
        True,
        True,
        False,
        False,
        True,
        True,
        False,
        True,
        True,
    ]


def past_line(monkeypatch, memory):
    """A time line that shows episode 0, its inputs, and the time that passes for it."""
    now = [0.0]
    monkeypatch.setattr(timeline, "Figure", MagicMock())
    monkeypatch.setattr(timeline, "time", SimpleNamespace(monotonic=lambda: now[0]))
    client = MagicMock()
    inputs = SimpleNamespace(
        episode=SimpleNamespace(value="live", options=("live", "episode 0")),
        step=SimpleNamespace(value=0),
        play=SimpleNamespace(value=False),
        told=MagicMock(visible=False, content=""),
    )
    client.gui.add_dropdown.return_value = inputs.episode
    client.gui.add_slider.return_value = inputs.step
    client.gui.add_checkbox.return_value = inputs.play
    client.gui.add_html.return_value = inputs.told
    line = TimeLine(client, MagicMock(), memory)
    inputs.episode.value = "episode 0"
    return line, inputs, now


def test_an_episode_is_played_as_fast_as_the_robot_was(monkeypatch):
    memory = MagicMock(period=0.03)
    memory.episode.return_value = SimpleNamespace(steps=1000, progress="")
    memory.moment.return_value.told = ""
    line, inputs, now = past_line(monkeypatch, memory)
    while now[0] < 6.0:
        line.advance()
        now[0] += visitors.ADVANCE_S
    assert inputs.step.value == pytest.approx(6.0 / 0.03, abs=3)


def test_an_episode_that_cannot_be_read_is_said_once_and_read_once(monkeypatch):
    memory = MagicMock()
    memory.episode.side_effect = BagError("episode_000: damaged: its end is missing")
    line, inputs, _ = past_line(monkeypatch, memory)
    for _ in range(3):
        line.advance()
    assert inputs.told.visible
    assert "its end is missing" in inputs.told.content
    assert memory.episode.call_count == 1


@pytest.mark.parametrize("sent", ["episode x", "episode 7", "", "1"])
def test_a_choice_that_was_not_offered_is_live(monkeypatch, sent):
    monkeypatch.setattr(timeline, "Figure", MagicMock())
    client, memory = MagicMock(), MagicMock(period=0.5)
    episode = SimpleNamespace(value="live", options=())
    client.gui.add_dropdown.return_value = episode
    line = TimeLine(client, MagicMock(), memory)
    line.offer(3, alive=True)
    episode.value = sent
    line.advance()
    assert episode.value == "live"
    memory.episode.assert_not_called()


@pytest.fixture
def believing(run_folder, monkeypatch):
    """A page that draws and thinks when it is told to; its bundle_001 alone believes something."""
    page = Page(run_folder, "127.0.0.1", 0, "token")
    page.panel.close()
    page._live.close()
    way = np.zeros((3, 3))
    believer = MagicMock()
    believer.from_state.return_value = Belief(way, way, way[None], np.zeros(3), 0.0)
    known = {"bundle_001": believer}
    monkeypatch.setattr(live, "SILENT_S", 600.0)
    monkeypatch.setattr(live, "_believer", lambda path, heard: known.get(path.name))
    monkeypatch.setattr(page._server, "get_clients", lambda: {0: None})
    page.heard.active(True)
    page.heard.joint_state(JointReading(("pendulum_joint",), (0.5,), (1.5,), 10))
    page.heard.bundle("/run/bundles/bundle_001")
    yield page
    monkeypatch.undo()
    page.close()


def believes(page):
    """Whether a plan is seen, after a look at what was heard."""
    page._live._think()
    page._live._draw()
    return page._live._figure._ways["expected"].visible


def test_the_plans_of_a_bundle_go_when_another_one_plays(believing):
    assert believes(believing)
    believing.heard.bundle("/run/bundles/bundle_000")
    assert not believes(believing)


def test_of_a_robot_that_is_not_heard_the_page_says_that_it_is_drawn_where_it_was(believing):
    heard = believing.heard
    told = lambda now: words.status(now, True, False, 0, 6)  # noqa: E731
    assert believes(believing) and "step" in told(heard.now)
    assert "where it was" in told(heard.now._replace(received=time.monotonic() - 3.0))
    heard.joint_state(JointReading(("pendulum_joint",), (float("nan"),), (1.5,), 20))
    assert "where it was" in told(heard.now)
    assert not believes(believing)


def test_a_trip_of_the_watchdog_and_a_run_that_is_given_up_are_said_at_the_top(believing):
    heard = believing.heard
    told = lambda: words.status(heard.now, True, False, 0, 6)  # noqa: E731
    assert "step" in told()
    heard.note(WATCHDOG, "no <command>")
    assert "watchdog: no &lt;command&gt;" in told() and css(VERMILION) in told()
    heard.calm(WATCHDOG)
    assert "step" in told() and css(GREEN) in told()
    for active in (True, False):  # a controller that hangs can't say that it is over
        heard.active(active)
        heard.supervisor(Phase.STOPPED.value)
        assert "given up" in told() and css(VERMILION) in told()


@contextmanager
def browsing(page, **camera):
    """A browser whose camera is said to be so."""
    address = f"ws://127.0.0.1:{page._server.get_port()}"
    told = {**msgspec.msgpack.decode(CAMERA), **camera}
    version = Subprotocol(f"viser-v{viser.__version__}")
    with connect(address, subprotocols=[version], max_size=None) as browser:
        browser.send(msgspec.msgpack.encode(told))
        yield


def test_a_browser_that_cannot_be_drawn_for_keeps_nobody_out(tmp_path, caplog, monkeypatch):
    def refuse_wide(client, kinematics):
        assert client.camera.image_width == 1

    monkeypatch.setattr(visitors, "show_narrow", refuse_wide)
    page = Page(fabricate_run(tmp_path / "run", steps=40), "127.0.0.1", 0, "token")
    try:
        with browsing(page, image_width=2):
            wait_until(lambda: caplog.messages)
            with browsing(page):
                wait_until(lambda: len(page._server.get_clients()) == 2)
                wait_until(lambda: page._visitors._known)
                time.sleep(4 * visitors.ADVANCE_S)
        wait_until(lambda: not page._visitors._odd)
    finally:
        page.close()
    assert caplog.messages == ["a browser is drawn for no longer"]


def test_a_window_of_no_size_is_not_narrow():
    for width, height in ((1, 0), (0, 0), (0, 1)):
        size = {"image_width": width, "image_height": height}
        camera = MagicMock(**size, position=None)
        type(camera).aspect = property(lambda _: width / height)  # noqa: B023 - at once
        stage.show_narrow(MagicMock(camera=camera), Kinematics(describe("pendulum")))
        assert camera.position is None


def test_wishes_are_taken_once_in_their_order():
    wishes = Wishes()
    setting = Setting(PAUSE, True, lambda reason: None)
    assert not wishes.add(Stop(False)), "nobody is there"
    wishes.connect(True)
    assert wishes.add(Stop(True))
    assert wishes.add(setting)
    assert wishes.taken() == [Stop(True), setting]
    assert wishes.taken() == []
    wishes.stands_at(NEXT_GOAL, (1.0, 2.0, 3.0))
    assert wishes.standing(NEXT_GOAL) == (1.0, 2.0, 3.0)
    wishes.stands_at(NEXT_GOAL, None)
    assert wishes.standing(NEXT_GOAL) is None


@pytest.fixture
def inside():
    """The controls behind the door, and the wishes that they lead to."""
    server, wishes = LocalServer(host="127.0.0.1", port=0, verbose=False), Wishes()
    wishes.connect(True)
    yield controls._Inside(server, wishes, None, 1.0), wishes
    server.stop()


def test_a_bundle_that_another_person_chose_stays_chosen_before_the_page_knows_it(inside):
    shown, wishes = inside
    for wished in ("", "bundle_002", "bundle_001"):
        wishes.stands_at(NEXT_BUNDLE, wished)
        shown.advance(["bundle_000", "bundle_001"], "bundle_001")
        assert shown._bundle.value == (wished or controls.NEWEST)
        assert wishes.taken() == []


def test_back_from_bundle_1000_is_bundle_999(inside, tmp_path):
    shown, wishes = inside
    run = fabricate_run(tmp_path / "run", steps=40)
    for number in (100, 999, 1000, 1001):
        run.bundle(number).mkdir()
    wishes.stands_at(NEXT_BUNDLE, "")
    shown.advance(Past(run, describe("pendulum")).bundles(), "bundle_1000")
    shown._roll_back()
    assert [wish.value for wish in wishes.taken()] == ["bundle_999"]


def test_an_address_of_ipv6_is_one_that_a_browser_takes(tmp_path):
    page = Page(fabricate_run(tmp_path / "run", steps=40), "::1", 0, "token")
    try:
        assert urlparse(page.greeting[0].split()[1]).hostname == "::1"
    finally:
        page.close()


def test_no_browser_can_have_the_page_published():
    assert LocalServer.request_share_url(None) is None


def test_regions_of_constraints_are_drawn_where_they_are_and_follow_the_robot(tmp_path):
    regions = {
        "inside": {"shape": "half_space", "point": [0, -1.0, 0], "normal": [0.0, 2.0, 0.0]},
        "outside": {"shape": "capsule", "ends": ["hand", [0.0, 0.0, 0.0]], "radius": 0.02},
    }
    limits = [
        {"kind": kind, "of": [5.0, 5.0, 5.0], "region": region} for kind, region in regions.items()
    ]
    found = resolved(tmp_path, {**changed(ARM, joint_limits=False), "constraints": limits})
    server = LocalServer(host="127.0.0.1", port=0, verbose=False)
    try:
        figure = Figure(server.scene, Kinematics(found), "/there")
        (half_space, _), (capsule, _) = figure._fences._drawn
        hand = 0.6 * np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        for elbow, expected in ((0.0, hand[0]), (np.pi / 2, hand[1])):
            figure.pose(np.array([elbow, 0.0, 0.0, 0.0, 0.3, 0.1]))
            assert capsule.position == pytest.approx(expected / 2, abs=1e-6)
            assert half_space.position == pytest.approx([0.0, -1.0, 0.0])
        long = np.ptp(capsule.vertices, axis=0).max()
        assert long == pytest.approx(0.6 + 2 * 0.02, rel=1e-2)
        figure.pose(np.array([0.0, np.pi / 2, 0.0, 0.0, 0.3, 0.1]))
        assert np.ptp(capsule.vertices, axis=0).max() < long
    finally:
        server.stop()


def test_the_legend_names_what_is_drawn(tmp_path):
    assert "goal" not in words.legend(describe("pendulum"))
    inside = {"kind": "inside", "of": "hand"}
    box = {"shape": "box", "center": [0.0, 0.0, 0.0], "half_sizes": [2.0, 2.0, 2.0]}
    found = resolved(tmp_path, {**ARM, "constraints": [{**inside, "region": box}]})
    legend = words.legend(found)
    assert "goal" in legend
    assert "to stay inside of" in legend
    assert "outside" not in legend


def test_the_camera_looks_at_all_that_a_robot_can_reach():
    centre, size = Kinematics(describe("pendulum")).reach()
    assert centre == pytest.approx([0.0, 0.0, 0.75], abs=0.01)
    assert size == pytest.approx(2 * 0.5, rel=0.05)
    centre, size = Kinematics(describe("cartpole")).reach()
    assert centre == pytest.approx([0.0, -0.06, 1.0], abs=0.1)
    assert 5.0 < size < 6.2, "the rail, and a pole at each end"


@pytest.mark.parametrize("aside", [(0.0, 0.0), (0.22, 0.0), (0.0, 0.5)])
def test_the_robot_is_beside_the_panel(aside):
    centre, size = np.array([1.0, 2.0, 3.0]), 0.5
    position, look_at = stage.view(centre, size, np.array(aside))
    toward = look_at - position
    assert np.linalg.norm(toward) == pytest.approx(stage.DISTANCE * size)
    toward /= np.linalg.norm(toward)
    right = np.cross(toward, [0.0, 0.0, 1.0]) / np.hypot(*toward[:2])
    seen = centre - look_at
    assert seen @ right == pytest.approx(-aside[0] * size)
    assert seen @ np.cross(right, toward) == pytest.approx(aside[1] * size)
    assert seen @ toward == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("aspect", "moved"), [(1.6, False), (0.46, True)])
def test_only_in_a_narrow_window_the_camera_stands_further_away(aspect, moved):
    size = {"image_width": aspect * 1000, "image_height": 1000, "aspect": aspect}
    client = SimpleNamespace(camera=SimpleNamespace(**size, position=None, look_at=None))
    kinematics = Kinematics(describe("pendulum"))
    stage.show_narrow(client, kinematics)
    assert (client.camera.position is not None) == moved
    if moved:
        way = np.linalg.norm(client.camera.position - client.camera.look_at)
        assert way == pytest.approx(stage.DISTANCE * kinematics.reach()[1] / aspect)


@pytest.mark.parametrize("aspect", [0.46, 0.56, 0.75, 0.875, 0.99])
def test_in_every_narrow_window_the_robot_can_be_seen(aspect):
    size = {"image_width": aspect * 1000, "image_height": 1000, "aspect": aspect}
    camera = SimpleNamespace(**size, position=None, look_at=None)
    kinematics = Kinematics(describe("pendulum"))
    stage.show_narrow(SimpleNamespace(camera=camera), kinematics)
    toward = camera.look_at - camera.position
    depth = np.linalg.norm(toward)
    right = np.cross(toward / depth, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    centre, reach = kinematics.reach()
    half = depth * np.tan(stage.FIELD / 2)
    up = (centre - camera.look_at) @ np.cross(right, toward / depth)
    aside = (centre - camera.look_at) @ right
    assert reach / 2 - half <= up <= half - reach / 2 + 1e-9
    assert -0.4 * aspect * half < aside < 1e-9


def test_the_tip_of_a_rod_is_its_far_end(tmp_path):
    rod = """<mujoco><worldbody><body pos="0 0 1"><joint name="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.02" mass="1"/></body></worldbody>
      <actuator><motor joint="hinge" ctrlrange="-1 1"/></actuator></mujoco>"""
    (tip,) = Kinematics(resolved(tmp_path, modelled(tmp_path, rod))).tips(np.zeros((1, 2)))
    assert tip == pytest.approx([0.0, 0.0, 0.5], abs=0.03)


def test_the_tip_is_at_the_end_of_the_chain_in_whatever_order_joints_are_named(tmp_path):
    arm = """<mujoco><worldbody><body><joint name="low" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.02" mass="1"/>
      <body pos="0.5 0 0"><joint name="high" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="1"/></body></body></worldbody>
      <actuator><motor joint="low" ctrlrange="-1 1"/><motor joint="high" ctrlrange="-1 1"/>
      </actuator></mujoco>"""
    for joints in (["low", "high"], ["high", "low"]):
        found = resolved(tmp_path, modelled(tmp_path, arm, joints=joints, actuated=joints))
        (tip,) = Kinematics(found).tips(np.zeros((1, 4)))
        assert tip == pytest.approx([0.8, 0.0, 0.0], abs=0.03)


BARE = """<robot name="bare"><link name="base"/><link name="arm">
  <inertial><origin xyz="0.2 0 0"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
  <visual><geometry><box size="0.4 0.1 0.1"/></geometry></visual></link>
  <joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="3" velocity="4"/></joint></robot>"""
WHEEL = """<mujoco><worldbody><body pos="0 0 1"><joint name="axle" axis="0 1 0"/>
  <geom type="cylinder" size="0.2 0.02" zaxis="0 1 0"/></body></worldbody>
  <actuator><motor joint="axle" ctrlrange="-1 1"/></actuator></mujoco>"""


@pytest.mark.parametrize(
    ("model", "middle"), [(BARE, [0, 0, 0]), (WHEEL, [0, 0, 1])], ids=["bare", "wheel"]
)
def test_the_camera_keeps_away_from_any_robot(tmp_path, model, middle):
    found, size = Kinematics(resolved(tmp_path, modelled(tmp_path, model))).reach()
    assert found == pytest.approx(middle, abs=0.2)
    assert 0.35 < size < 1.0


def test_where_a_robot_can_be_knows_of_where_a_joint_is_zero(tmp_path):
    slide = """<mujoco><worldbody><body>
      <joint name="j" type="slide" axis="1 0 0" ref="1" range="0.5 1.5"/><geom size=".05"/></body>
      </worldbody><actuator><motor joint="j" ctrlrange="-1 1"/></actuator></mujoco>"""
    middle, _ = Kinematics(resolved(tmp_path, modelled(tmp_path, slide))).reach()
    assert middle == pytest.approx([0, 0, 0], abs=0.05)
