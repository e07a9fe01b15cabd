"""What `hucrl up` and `hucrl train` say in the end of an episode that the filter held back."""

from types import SimpleNamespace

import pytest

from hucrl_ros.cli.runs import _held_back
from hucrl_ros.config.schema import ExplorationSettings
from hucrl_ros.run.summary import STOPPABLE

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
