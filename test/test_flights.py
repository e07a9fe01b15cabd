"""What each bundle of a run has earned."""

import pytest
from manifest_factory import write_manifest

from hucrl_ros.cli.runs import _finish
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import MANIFEST, LearningReport, dump_manifest, read_manifest
from hucrl_ros.run.flights import Steady, flights, steadiest
from hucrl_ros.run.summary import EpisodeSummary, Summary, write_summary

SAME = {k: k for k in range(6)}


def flew(run, judged, repeats=None):
    """Bundles of a run by their numbers, as another model judged them; some are copies."""
    for number, value in judged.items():
        path = write_manifest(run.bundle(number), number, LearningReport(judged_return=value))
        manifest = read_manifest(path).model_copy(update={"repeats": (repeats or {}).get(number)})
        (run.bundle(number) / MANIFEST).write_text(dump_manifest(manifest))
    return run


def summary_of(*returns, cut=()):
    episodes = [
        EpisodeSummary(index=i, return_=value, steps=400, cut=i in cut)
        for i, value in enumerate(returns)
    ]
    return Summary.of(Config(), optimum=None, episodes=episodes, wall_s=1.0, cpu_s=1.0)


def test_copies_are_flights_of_the_bundle_that_they_are_of_and_the_last_is_last(run_folder):
    flew(run_folder, dict.fromkeys([0, 1, 2, 3], None), repeats={3: 1})
    found = flights(run_folder, 1, {0: 9.0, 1: 1.0, 2: 2.0, 3: 3.0, 5: 5.0}, SAME)
    assert found == {2: {2: 2.0}, 1: {1: 1.0, 3: 3.0}}, "random ones and missing ones don't count"
    assert list(found)[-1] == 1
    chosen_again = flights(run_folder, 1, {2: 2.0, 4: 4.0}, {2: 2, 4: 2})
    assert chosen_again == {2: {2: 2.0, 4: 4.0}}


def test_one_lucky_episode_makes_no_steady_bundle(run_folder):
    """Bundle 1 earned most, once; what flew most often and was judged last is no worse for it."""
    flew(run_folder, {0: None, 1: 100.0, 2: 200.0, 3: 240.0, 4: 245.0}, repeats={4: 2})
    summary = summary_of(0.0, 290.0, 250.0, 230.0, 240.0)
    assert steadiest(run_folder, summary) == Steady(2, 245.0, 245.0)
    assert steadiest(run_folder, summary).score == 245.0


@pytest.mark.parametrize(("copied", "told"), [({4: 2}, False), ({}, True)])
def test_a_copy_that_earned_most_is_no_other_bundle_than_the_steadiest(
    run_folder, copied, told, capsys
):
    flew(run_folder, {0: None, 1: 100.0, 2: 245.0, 3: 240.0, 4: 230.0}, repeats=copied)
    write_summary(run_folder.summary, summary_of(0.0, 230.0, 255.0, 230.0, 260.0))
    _finish(run_folder, figures=False)
    lines = capsys.readouterr().out.splitlines()
    assert "best return 260.0, in episode 4" in lines[-1]
    assert any(line.startswith("steady") for line in lines) == told


def test_who_misses_the_goal_is_not_steady_whatever_it_earned(run_folder):
    flew(run_folder, {0: None, 2: -8.0})
    report = LearningReport(judged_return=-6.0, judged_misses=2)
    write_manifest(run_folder.bundle(1), 1, report)
    assert steadiest(run_folder, summary_of(-90.0, -5.0, -9.0)) == Steady(2, -9.0, -8.0)


def test_what_was_cut_or_never_judged_is_not_steady(run_folder):
    flew(run_folder, {0: None, 1: None, 2: 200.0, 3: 300.0})
    summary = summary_of(0.0, 290.0, 250.0, 500.0, cut={3})
    assert steadiest(run_folder, summary) == Steady(2, 250.0, 200.0)
    assert steadiest(run_folder, summary_of(0.0, 290.0)) is None
