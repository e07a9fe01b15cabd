"""What `hucrl up` and `hucrl train` say in the end of an episode that the filter held back."""

from types import SimpleNamespace

import pytest
from bundle_factory import write_bundle
from own_robots import ARM, changed, resolved

from hucrl_ros.cli.runs import COLUMNS, _finish, _held_back, _report
from hucrl_ros.config.schema import Config, ExplorationSettings
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import STOPPABLE, EpisodeSummary, Summary, TickStatistics, write_summary

PRICED = ExplorationSettings(outside_penalty=0.5)


def episode(index, **filtered):
    changed = sum(filtered.values())
    return SimpleNamespace(index=index, steps=60, changed=changed, filtered=filtered)


@pytest.mark.parametrize(
    ("episodes", "settings", "said"),
    [
        ([episode(0, rail=10), episode(1, rail=30)], ExplorationSettings(), None),
        ([episode(0, rail=60), episode(1, rail=3)], ExplorationSettings(), None),
        ([episode(0), episode(1, rail=40, tip=10)], ExplorationSettings(), "outside_penalty=0.5"),
        ([episode(0), episode(1, rail=40, tip=10)], PRICED, "little can be proved"),
        ([episode(0), episode(1, rail=60), episode(2, rail=30)], PRICED, None),
        ([episode(0), episode(1, rail=60), episode(2)], ExplorationSettings(), "being outside"),
        ([episode(0, **{STOPPABLE: 60}), episode(1)], PRICED, "smaller robot.effort_limits"),
        ([], PRICED, None),
    ],
)
def test_why_most_actions_were_changed_and_what_helps(episodes, settings, said):
    line = _held_back(episodes, settings)
    if said is None:
        assert line is None
    else:
        assert said in line and "of 60 actions of episode" in line and "\n" not in line


@pytest.mark.parametrize(
    ("joint", "said"),
    [("elbow", "for 'position of elbow -2.6 … 2.6': no motor moves it, "), ("shoulder", "pays")],
)
def test_a_limit_of_a_joint_that_no_motor_moves_is_the_reason(joint, said, tmp_path, capsys):
    described = resolved(
        tmp_path, changed(ARM, actuated=["shoulder"], limits={"shoulder": [-3, 3]})
    )
    limits = {limit.joint: limit.name for limit in described.constraints}
    config = Config(task=described.name)
    run = RunFolder.create(tmp_path / "run", config, described)
    write_bundle(run.bundle(0))
    episode = EpisodeSummary(index=1, return_=0.0, steps=60, filtered={limits[joint]: 60})
    episodes = [EpisodeSummary(index=0, return_=0.0, steps=60), episode]
    write_summary(
        run.summary, Summary.of(config, optimum=None, episodes=episodes, wall_s=1, cpu_s=1)
    )
    _finish(run, figures=False)
    assert said in capsys.readouterr().out


def test_its_table_is_no_wider_than_a_terminal(capsys):
    ticks = TickStatistics(p50=20.49, p99=36.56, p999=40.0, max=44.7)
    values = {"fit_s": 12.3, "search_s": 1234.5, "clamps": 400, "filtered": {"rail": 400}}
    _report(EpisodeSummary(index=9, return_=-1229.6, steps=400, tick_ms=ticks, **values))
    row = capsys.readouterr().out.rstrip()
    assert len(row) <= 80 and len(row.split()) == len(COLUMNS)
