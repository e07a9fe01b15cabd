"""What was learned in simulation helps a robot that is heavier and has more friction."""

import copy

import pytest
import yaml
from own_robots import PENDULUM

from hucrl_ros.cli import main
from hucrl_ros.config.files import share_directory
from hucrl_ros.run.summary import read_summary

GOOD = 250.0
"""Return of an episode in which the pendulum swings up and stays."""


def pendulum(folder, mass="0.3", friction="0.005"):
    """The pendulum as one's own robot, with another mass [kg] and friction [N m s/rad]."""
    folder.mkdir()
    text = (share_directory() / "sim" / "pendulum.xml").read_text()
    changed = text.replace('mass="0.3"', f'mass="{mass}"')
    changed = changed.replace('damping="0.005"', f'damping="{friction}"')
    (folder / "pendulum.xml").write_text(changed)
    document = copy.deepcopy(PENDULUM)
    document["robot"]["model"] = "pendulum.xml"
    (folder / "stick.yaml").write_text(yaml.safe_dump(document))
    return str(folder / "stick.yaml")


def episodes_until_good(out, *arguments):
    """Episodes of the robot up to the first good one; one more than there are if none is."""
    assert main(["train", *arguments, "--no-figures", "--out", str(out)]) == 0
    returns = [episode.return_ for episode in read_summary(out / "summary.json").episodes]
    good = [k + 1 for k, earned in enumerate(returns) if earned >= GOOD]
    return good[0] if good else len(returns) + 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("seed", "simulated_episodes"), [("0", "4"), ("1", "4"), ("2", "3")])
def test_a_heavier_pendulum_swings_up_sooner_after_simulation(
    seed, simulated_episodes, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    simulated, real = pendulum(tmp_path / "sim"), pendulum(tmp_path / "real", "0.36", "0.015")
    first, seeded = tmp_path / "r_sim", ("--seed", seed)
    count = int(simulated_episodes)
    assert episodes_until_good(first, simulated, "--episodes", str(count), *seeded) <= count
    begun = episodes_until_good(
        tmp_path / "r_from", real, "--episodes", "2", "--from", str(first), *seeded
    )
    anew = episodes_until_good(tmp_path / "r_anew", real, "--episodes", "3", *seeded)
    assert begun < anew
