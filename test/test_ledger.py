"""The ledger: the summary follows the bags and bundles, whatever session wrote them."""

import dataclasses
import resource
import shutil
import subprocess
import sys

import psutil
import pytest
from damaged_bags import damaged
from fabricated_run import fabricate_run
from hostile import harmless
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as some
from manifest_factory import write_manifest

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.controller.manifest import LearningReport
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run import summary_writer
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import episode_return, read_summary
from hucrl_ros.run.summary_writer import MAX_BAG_EVENTS, Ledger, catch_up, siblings_cpu_s
from hucrl_ros.tasks import make_task

REPORT = LearningReport(predicted_return=250.0, fit_s=0.5, search_s=1.5)


@pytest.fixture
def run(tmp_path):
    """Two episodes and the bundles 0 and 1, of which only 1 was learned."""
    run = fabricate_run(tmp_path / "run", noises=(0.0,))
    shutil.rmtree(run.bundles)
    write_manifest(run.bundle(0), 0)
    write_manifest(run.bundle(1), 1, REPORT)
    run.summary.unlink()
    return run


def open_ledger(run):
    return Ledger(run, run.config, make_task("pendulum", 0.2))


def test_all_finished_episodes_are_summarised_from_their_bags(run):
    task = make_task("pendulum", 0.2)
    first, second = open_ledger(run).episodes
    for index, episode in enumerate((first, second)):
        bag = read_episode(run.bag(index), task.spec, task.steps)
        assert episode.index == index
        assert episode.return_ == episode_return(bag, task)
    assert (first.predicted_return, second.predicted_return) == (None, 250.0)


@pytest.mark.parametrize("wrong", [float("nan"), float("-inf")])
def test_a_reward_that_is_no_number_is_one_line_that_says_where(run, wrong):
    """A function of a user's may leave its domain where nobody tried it."""
    task = make_task("pendulum", 0.2)
    rewards = task.rewards

    def spoilt(states, actions):
        found = rewards(states, actions)
        found[7] = wrong
        return found

    task.rewards = spoilt
    with pytest.raises(RunError, match=rf"episode 0: the reward of step 7 is {wrong:g}, in the"):
        Ledger(run, run.config, task)


def test_another_session_knows_the_models_errors(run):
    assert open_ledger(run).model_errors() == {}, "that report has none"
    shutil.rmtree(run.bundle(1))
    write_manifest(run.bundle(1), 1, REPORT.model_copy(update={"model_error": 0.25}))
    assert open_ledger(run).model_errors() == {0: 0.25}


def test_learning_times_belong_to_the_episode_before(run):
    first, second = open_ledger(run).episodes
    assert (first.fit_s, first.search_s) == (0.5, 1.5)
    assert (second.fit_s, second.search_s) == (None, None)


def test_learning_that_ends_later_is_added(run):
    opened = open_ledger(run)
    write_manifest(run.bundle(2), 2, LearningReport(fit_s=7.0, search_s=8.0))
    opened.close_learning()
    assert read_summary(run.summary).episodes[1].fit_s == 7.0


def test_an_episode_is_added_when_its_bag_is_closed(run):
    shutil.move(run.bag(1), run.root / "aside")
    opened = open_ledger(run)
    assert len(opened.episodes) == 1
    shutil.move(run.root / "aside", run.bag(1))
    assert opened.close_episode().index == 1
    assert len(read_summary(run.summary).episodes) == 2


def test_events_and_times_of_earlier_sessions_stay(run):
    opened = open_ledger(run)
    opened.note("episode 0, step 3: the roof fell in")
    before = read_summary(run.summary)
    again = open_ledger(run)
    again.note("stopped on request")
    after = read_summary(run.summary)
    assert after.events == (*before.events, "stopped on request")
    assert after.wall_s >= before.wall_s
    assert after.cpu_s > before.cpu_s


def test_what_a_bag_tells_is_an_event_once(run):
    def events():
        return [e for e in read_summary(run.summary).events if e.startswith("episode 1: ")]

    bag = run.bag(1)
    text = (bag / "metadata.yaml").read_text()
    (bag / "metadata.yaml").write_text(text.replace("finished", "interrupted"))
    for _ in range(2):
        open_ledger(run).write()
        assert events() == ["episode 1: the recording was interrupted"]


def test_a_bag_that_tells_much_is_cut_short(run, monkeypatch):
    read = summary_writer.read_episode

    def talkative(*asked):
        return dataclasses.replace(read(*asked), events=[f"gap {i}" for i in range(50)])

    monkeypatch.setattr(summary_writer, "read_episode", talkative)
    open_ledger(run).write()
    events = [e for e in read_summary(run.summary).events if e.startswith("episode 0: ")]
    assert len(events) == MAX_BAG_EVENTS + 1
    assert events[-1] == "episode 0: 45 more, see `hucrl inspect`"


def test_processor_time_counts_what_the_parent_started():
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", "sum(range(10**7)); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        child.stdout.readline()
        spent = sum(psutil.Process(child.pid).cpu_times()[:2])
        assert spent > 0.05
        assert siblings_cpu_s(psutil.Process()) >= spent
    finally:
        child.communicate(b"\n")


def test_processor_time_without_a_parent_is_ones_own():
    ended = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    parent = psutil.Process(ended.pid)
    ended.communicate(b"\n")
    own = sum(psutil.Process().cpu_times()[:2])
    assert siblings_cpu_s(parent) == pytest.approx(own, abs=0.5)


def test_a_kill_between_the_last_bundle_and_the_summary_leaves_no_gap(run):
    open_ledger(run).write()
    report = LearningReport(fit_s=7.0, search_s=8.0, complexity=9.0)
    write_manifest(run.bundle(2), 2, report)
    assert read_summary(run.summary).episodes[1].complexity is None
    catch_up(run)
    found = read_summary(run.summary)
    last = found.episodes[1]
    assert (last.fit_s, last.search_s, last.complexity) == (7.0, 8.0, 9.0)
    assert found.model_dump() == open_ledger_summary(run, found).model_dump()
    catch_up(run)
    assert read_summary(run.summary).episodes == found.episodes


def open_ledger_summary(run, found):
    """What the ledger makes of the bags and bundles, at the same times."""
    ledger = open_ledger(run)
    ledger.write()
    fresh = read_summary(run.summary)
    return fresh.model_copy(update={"wall_s": found.wall_s, "cpu_s": found.cpu_s})


@pytest.mark.parametrize("size", [0, 100])
def test_a_full_disk_leaves_the_old_summary_and_nothing_half_written(run, size):
    open_ledger(run).write()
    before = run.summary.read_bytes()
    files = sorted(run.root.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(RunError, match=r"summary\.json: can't be written: File too large"):
            open_ledger(run).note("something")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert run.summary.read_bytes() == before
    assert sorted(run.root.iterdir()) == files


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"task": 1}', "\x00", "[" * 10_000, '{"task": "' + "x" * 9999]
)
def test_a_damaged_or_half_written_summary_is_one_line(run, text):
    open_ledger(run).write()
    run.summary.write_text(text)
    with pytest.raises(RunError, match=r"summary\.json: not a summary") as refused:
        open_ledger(run)
    assert str(refused.value).isprintable()


@pytest.mark.fuzz
@examples(max_examples=60)
@given(seed=some.integers(0, 2**32))
def test_a_damaged_summary_or_settings_end_in_a_line(whole_run, seed):
    root, contents = whole_run
    for name, content in contents.items():
        (root / name).write_bytes(damaged(content, seed))
        with harmless(RunError, ConfigError):
            read_summary(root / "summary.json")
        with harmless(RunError, ConfigError):
            RunFolder.open(root).config  # noqa: B018
        (root / name).write_bytes(content)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    run = fabricate_run(tmp_path_factory.mktemp("whole") / "run", noises=(), steps=20)
    names = ("summary.json", "config.yaml")
    return run.root, {name: (run.root / name).read_bytes() for name in names}
