"""summary.json: statistics against closed forms, and that a reader never sees half a file."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from hucrl_ros.config.schema import Config
from hucrl_ros.errors import RunError
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import (
    EpisodeSummary,
    Summary,
    TickStatistics,
    count_fallbacks,
    episode_return,
    read_summary,
    summarise_episode,
    write_summary,
)
from hucrl_ros.tasks import make_task


def make_summary(returns: list[float]) -> Summary:
    episodes = [
        EpisodeSummary(index=i, return_=value, steps=400) for i, value in enumerate(returns)
    ]
    return Summary.of(Config(), optimum=278.1, episodes=episodes, wall_s=1.5, cpu_s=2.5)


def make_episode(states, actions, **ticks):
    names = ("tick_ms", "missed", "source", "clamped", "filtered")
    count = len(actions)
    arrays = {name: np.asarray(ticks.get(name, np.zeros(count, int))) for name in names}
    return SimpleNamespace(states=states, actions=actions, ticks=arrays, cut=False, bundle="")


def make_manifest(episode=3, random=False, algorithm="dyna_mpc", promised=250.0, constraints=()):
    return SimpleNamespace(
        constraints=constraints,
        episode=episode,
        random=random,
        planner=SimpleNamespace(algorithm=algorithm),
        report=SimpleNamespace(predicted_return=promised),
    )


def test_tick_statistics_of_a_ramp_are_its_quantiles():
    statistics = TickStatistics.of(np.arange(1001.0))
    assert statistics == TickStatistics(p50=500.0, p99=990.0, p999=999.0, max=1000.0)


def test_no_ticks_have_no_statistics():
    assert TickStatistics.of(np.empty(0)) is None


def test_best_return_is_the_largest_and_none_without_episodes():
    assert make_summary([-40.0, 271.5, 260.0]).best_return == 271.5
    assert make_summary([]).best_return is None


def test_a_written_summary_reads_back_equal(tmp_path):
    summary = make_summary([-40.0, 271.5])
    write_summary(tmp_path / "summary.json", summary)
    assert read_summary(tmp_path / "summary.json") == summary


def test_the_file_has_exactly_the_keys_of_the_contract(tmp_path):
    path = tmp_path / "summary.json"
    write_summary(path, make_summary([1.0]))
    values = json.loads(path.read_text())
    assert list(values) == [
        "task",
        "strategy",
        "action_penalty",
        "seed",
        "mode",
        "optimum",
        "best_return",
        "regret",
        "complexity",
        "wall_s",
        "cpu_s",
        "versions",
        "events",
        "episodes",
    ]
    assert list(values["episodes"][0]) == [
        "index",
        "return",
        "promised_return",
        "steps",
        "cut",
        "tick_ms",
        "misses",
        "fallbacks",
        "clamps",
        "filtered",
        "outside",
        "deepest",
        "fit_s",
        "search_s",
        "complexity",
        "bag",
        "bundle",
    ]


def test_numbers_that_a_way_of_running_lacks_are_null(tmp_path):
    path = tmp_path / "summary.json"
    write_summary(path, make_summary([1.0]))
    episode = json.loads(path.read_text())["episodes"][0]
    assert [key for key, value in episode.items() if value is not None] == [
        "index",
        "return",
        "steps",
        "cut",
    ]


def test_regret_is_what_all_episodes_missed_of_the_optimum():
    assert make_summary([-60.0, 200.0]).regret == pytest.approx(2 * 278.1 - 140.0)
    assert make_summary([]).regret == 0.0
    unknown = Summary.of(Config(), optimum=None, episodes=[], wall_s=0.0, cpu_s=0.0)
    assert unknown.regret is None


def test_an_episode_that_was_cut_has_no_regret():
    whole = EpisodeSummary(index=0, return_=200.0, steps=400)
    cut = EpisodeSummary(index=1, return_=3.0, steps=7, cut=True)
    found = Summary.of(Config(), optimum=278.1, episodes=[whole, cut], wall_s=1.5, cpu_s=2.5)
    assert found.regret == pytest.approx(78.1)
    assert found.best_return == 200.0


def test_complexity_of_a_run_is_that_of_its_learned_episodes():
    episodes = [
        EpisodeSummary(index=i, return_=0.0, steps=1, complexity=complexity)
        for i, complexity in enumerate([None, 2.0, 0.5])
    ]

    def complexity_of(count):
        kept = episodes[:count]
        return Summary.of(Config(), optimum=1.0, episodes=kept, wall_s=0, cpu_s=0).complexity

    assert [complexity_of(count) for count in (1, 2, 3)] == [None, 2.0, 2.5]


def test_return_of_an_upright_resting_pendulum_is_its_number_of_steps(tmp_path):
    episode = make_episode(np.zeros((11, 2)), np.zeros((10, 1)))
    assert episode_return(episode, make_task("pendulum", 0.2)) == pytest.approx(10.0)


def test_return_of_a_hanging_pendulum_at_full_torque_is_the_action_penalty():
    states = np.tile([np.pi, 0.0], (11, 1))
    episode = make_episode(states, np.ones((10, 1)))
    assert episode_return(episode, make_task("pendulum", 0.2)) == pytest.approx(-2.0, abs=1e-3)


def test_the_state_after_the_last_action_earns_nothing():
    states = np.tile([np.pi, 0.0], (3, 1))
    states[-1] = 0.0
    episode = make_episode(states, np.zeros((2, 1)))
    assert episode_return(episode, make_task("pendulum", 0.2)) == pytest.approx(0.0, abs=1e-6)


def test_fallbacks_are_ticks_without_a_fresh_plan():
    source = np.array([0, 0, 1, 2, 2, 3, 4])
    assert count_fallbacks(source, "dyna_mpc") == 4


def test_sending_the_policy_is_no_fallback_where_it_is_the_planner():
    assert count_fallbacks(np.array([2, 2, 2, 4]), "policy") == 1


def test_an_episode_is_summarised_with_paths_relative_to_the_run(tmp_path):
    run = RunFolder.create(tmp_path / "run", Config())
    episode = make_episode(
        np.zeros((5, 2)),
        np.zeros((4, 1)),
        tick_ms=[1.0, 2.0, 3.0, 4.0],
        missed=[0, 0, 1, 0],
        source=[0, 1, 0, 0],
        clamped=[1, 1, 0, 0],
    )
    learned = SimpleNamespace(fit_s=0.5, search_s=1.5, complexity=0.25)
    task = make_task("pendulum", 0.2)
    assert summarise_episode(3, episode, task, make_manifest(), learned, run) == EpisodeSummary(
        index=3,
        return_=4.0,
        predicted_return=250.0,
        steps=4,
        tick_ms=TickStatistics.of(np.array([1.0, 2.0, 3.0, 4.0])),
        misses=1,
        fallbacks=1,
        clamps=2,
        fit_s=0.5,
        search_s=1.5,
        complexity=0.25,
        bag="episodes/episode_003",
        bundle="bundles/bundle_003",
    )


def test_what_constraints_asked_for_and_where_they_were_left_is_counted_by_name(
    tmp_path, monkeypatch
):
    run = RunFolder.create(tmp_path / "run", Config())
    states = np.zeros((5, 4))
    states[:, 0] = [0.0, 2.6, -2.6, 1.0, 9.0]  # The last one has no action any more.
    episode = make_episode(states, np.zeros((4, 1)), filtered=[0, 1, 1, 0])
    task = make_task("cartpole", 0.0)
    found = summarise_episode(
        3, episode, task, make_manifest(constraints=task.constraint_names), None, run
    )
    (rail,) = task.constraint_names
    assert (found.filtered, found.outside) == ({rail: 2}, {rail: 2})
    margins = -task.rooms(states[1:2], np.zeros((1, 1))).item()  # 2.6 m is beyond the rail's end.
    assert found.deepest == {rail: pytest.approx(margins, abs=1e-3)}
    inside = summarise_episode(
        3,
        make_episode(np.zeros((5, 4)), np.zeros((4, 1))),
        task,
        make_manifest(constraints=task.constraint_names),
        None,
        run,
    )
    assert (inside.filtered, inside.outside, inside.deepest) == ({}, {}, {})
    monkeypatch.setattr(type(task), "rooms", lambda self, s, a: np.full((len(s), 1), -np.inf))
    endless = summarise_episode(
        3, episode, task, make_manifest(constraints=task.constraint_names), None, run
    )
    assert (endless.outside, endless.deepest) == ({rail: 4}, {})


def test_a_random_bundle_predicts_nothing(tmp_path):
    run = RunFolder.create(tmp_path / "run", Config())
    episode = make_episode(np.zeros((5, 2)), np.zeros((4, 1)))
    manifest = make_manifest(episode=0, random=True)
    summary = summarise_episode(0, episode, make_task("pendulum", 0.2), manifest, None, run)
    assert (summary.predicted_return, summary.fit_s, summary.search_s) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "JSON"),
        ("[]", "expected keys and values"),
        ('{"task": 3}', "task"),
        (None, "No such"),
    ],
)
def test_what_is_no_summary_is_refused_in_one_line(tmp_path, text, named):
    path = tmp_path / "summary.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RunError) as caught:
        read_summary(path)
    message = str(caught.value)
    assert str(path) in message
    assert named in message
    assert "\n" not in message
