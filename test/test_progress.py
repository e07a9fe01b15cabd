"""What a person sees of a run: lines for a log, a table for a terminal, live numbers."""

import io

import numpy as np
import pytest
from rich.console import Console

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.state_reader import JointReading
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.run import live_view
from hucrl_ros.run.live_view import LineView, LiveView, make_view, render
from hucrl_ros.run.progress import EpisodeMonitor, Phase, Progress, describe_phase, format_number
from hucrl_ros.run.summary import EpisodeSummary, TickStatistics
from hucrl_ros.tasks import make_task


def finished(index=0, value=12.34, **changes):
    ticks = TickStatistics(p50=1.25, p99=2.5, p999=3.0, max=4.0)
    return EpisodeSummary(index=index, return_=value, steps=400, tick_ms=ticks, **changes)


def drawn(progress, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(render(progress))
    return console.file.getvalue()


def running(**changes):
    progress = Progress(Config(episodes=3), steps=400, optimum=278.1)
    progress.enter(Phase.RUNNING, episode=1)
    progress.finished = [finished()]
    for name, value in changes.items():
        setattr(progress, name, value)
    return progress


def test_the_table_shows_the_present_episode_and_the_finished_ones():
    text = drawn(running(step=123, return_so_far=45.67, predicted_return=250.0, tick_p99=6.5))
    for shown in ("2 of 3 episodes", "step 123/400", "running", "278.1"):
        assert shown in text
    present = text.splitlines()[-1].split()
    assert present[:3] == ["1", "45.7", "250.0"]
    assert "6.50" in present
    row = next(line.split() for line in text.splitlines() if "12.3" in line)
    assert row[:3] == ["0", "12.3", "–"]


def test_the_columns_are_aligned_and_fit_a_small_terminal():
    episodes = [
        finished(i, -1234.5 - i, misses=400, fallbacks=400, fit_s=1, search_s=99) for i in range(2)
    ]
    lines = drawn(running(finished=episodes), width=80).splitlines()
    table = lines[lines.index("") + 1 :]
    assert all(len(line) <= 80 for line in lines)
    assert "…" not in "".join(lines)
    ends = [line.rstrip().rindex(line.split()[1]) + len(line.split()[1]) for line in table]
    assert len(set(ends)) == 1


def test_of_a_long_run_a_terminal_shows_the_newest_and_in_the_end_all(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    seen = io.StringIO()
    console = Console(file=seen, width=90, height=24, force_terminal=True, color_system=None)
    view = LiveView(console)
    episodes = [finished(i, i + 0.5) for i in range(40)]
    progress = running(finished=episodes, episode=40, step=7, notes=["the learner died"])
    progress.config = Config(episodes=100)
    view.update(progress)
    shown = seen.getvalue()
    assert len(shown.splitlines()) == 24
    for new in ("! the learner died", "39.5", "…"):
        assert new in shown
    assert " 0.5 " not in shown
    assert "     40 " in shown.splitlines()[-2]
    view.close()
    assert " 0.5 " in seen.getvalue()


def test_an_episode_is_shown_once_while_it_is_learned_from():
    progress = running()
    progress.enter(Phase.FITTING)
    progress.finished.append(finished(1, 200.0))
    rows = [line.split()[0] for line in drawn(progress).splitlines() if "200.0" in line]
    assert rows == ["1"]
    assert not drawn(progress).splitlines()[-1].strip().startswith("2")


def test_before_the_task_is_known_the_table_is_drawn_all_the_same():
    assert "waiting for the nodes" in drawn(Progress(Config()))


def test_lines_tell_each_phase_once_and_each_episode_once():
    stream = io.StringIO()
    view, progress = LineView(stream), Progress(Config(episodes=2), steps=400)
    for phase in (Phase.WAITING, Phase.RUNNING, Phase.RUNNING, Phase.FITTING):
        progress.enter(phase)
        progress.detail = "50%"
        view.update(progress)
    progress.finished.append(finished(value=12.34, predicted_return=99.0, misses=7))
    view.update(progress)
    progress.finished[-1] = finished(value=12.34, fit_s=0.5, search_s=9.04)
    progress.model_errors[0] = 0.00321
    progress.enter(Phase.FINISHED)
    for _ in range(3):
        view.update(progress)
    assert stream.getvalue().splitlines() == [
        "episode 0 (1 of 2): waiting for the nodes",
        "episode 0 (1 of 2): running",
        "episode 0 (1 of 2): fitting the model",
        "episode 0: return 12.3, predicted 99.0, tick p50 1.25 p99 2.50 ms, 7 misses",
        "episode 0: learned, model error 0.003, fit 0.5 s, search 9.0 s",
        "finished after 1 of 2 episodes",
    ]


def test_lines_name_the_nodes_that_are_missing_for_long(monkeypatch):
    stream, progress = io.StringIO(), Progress(Config(), detail="recorder, learner")
    view = LineView(stream)
    view.update(progress)
    assert "recorder" not in stream.getvalue()
    monkeypatch.setattr(live_view, "MISSING_S", -1.0)
    for progress.detail in ("recorder, learner", "recorder, learner", "learner"):
        view.update(progress)
    assert stream.getvalue().splitlines()[1:] == [
        "still waiting for: recorder, learner",
        "still waiting for: learner",
    ]


def test_a_pipe_gets_lines_and_a_terminal_the_live_table(monkeypatch):
    assert isinstance(make_view(io.StringIO()), LineView)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    view = make_view(io.StringIO())
    view.close()
    assert isinstance(view, LiveView)


def test_a_new_phase_forgets_the_old_ones_detail():
    progress = running(detail="40%", step=7, return_so_far=1.0)
    progress.enter(Phase.LOADING, episode=2)
    assert (progress.detail, progress.step, progress.return_so_far) == ("", 0, None)
    assert describe_phase(progress) == "episode 2 (3 of 3): loading the bundle"


# Live numbers


def tick(stamp_ns, action, tick_ms=1.0, missed=False):
    played = (missed, False, False, 1, 0.0, 0.0, 0.0, 0.0, 1.0, (action,))
    return TickRecord(*divmod(stamp_ns, 10**9), 0, tick_ms, 0, *played)


@pytest.fixture
def monitor():
    return EpisodeMonitor(make_task("pendulum", 0.2))


def see(monitor, stamp_ns, angle, action):
    monitor.see_joint_state(JointReading(["pendulum_joint"], [angle], [0.0], stamp_ns))
    monitor.see_tick(tick(stamp_ns, action))


def test_an_upright_pendulum_earns_one_each_step(monitor):
    assert monitor.return_so_far() is None
    for step in range(10):
        see(monitor, step, 0.0, 0.0)
    assert monitor.return_so_far() == pytest.approx(10.0)
    see(monitor, 10, 0.0, 0.0)
    assert monitor.return_so_far() == pytest.approx(11.0)


def test_efforts_are_paid_for(monitor):
    see(monitor, 1, np.pi, 1.0)
    assert monitor.return_so_far() == pytest.approx(-0.2, abs=1e-3)


def test_states_without_a_tick_and_repetitions_earn_nothing(monitor):
    for stamp in (1, 1, 2, 3):
        monitor.see_joint_state(JointReading(["pendulum_joint"], [0.0], [0.0], stamp))
    monitor.see_tick(tick(2, 0.0))
    assert monitor.return_so_far() == pytest.approx(1.0)
    assert monitor.steps == 1


def test_a_joint_state_that_makes_no_sense_is_passed_over(monitor):
    monitor.see_joint_state(JointReading(["elbow"], [0.0], [0.0], 1))
    monitor.see_tick(tick(1, 0.0))
    assert monitor.steps == 1
    assert monitor.return_so_far() == 0.0


def test_steps_are_counted_by_the_ticks_own_numbers(monitor):
    for step in (0, 1, 5):  # A slow reader has lost some.
        monitor.see_tick(tick(step, 0.0)._replace(step=step))
    assert monitor.steps == 6


def test_tick_times_and_misses_are_those_of_this_episode(monitor):
    for stamp, duration in enumerate((1.0, 2.0, 3.0)):
        monitor.see_tick(tick(stamp, 0.0, duration, missed=duration > 2.5))
    assert monitor.tick_quantiles() == pytest.approx((2.0, 2.98))
    assert monitor.misses == 1
    monitor.start()
    assert monitor.tick_quantiles() is None
    assert (monitor.misses, monitor.steps) == (0, 0)


def test_no_number_of_a_table_is_minus_zero():
    numbers = (-0.04, 0.0, -0.06, 12.34, float("nan"), float("-inf"), None)
    shown = [format_number(number) for number in numbers]
    assert shown == ["0.0", "0.0", "-0.1", "12.3", "nan", "-inf", "–"]
