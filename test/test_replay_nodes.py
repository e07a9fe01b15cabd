"""`hucrl replay` of what real processes played over real DDS."""

import pytest
from quick_run import Up, quick_arguments

from hucrl_ros.bags.played import read_played
from hucrl_ros.run.replay import replay

pytestmark = [pytest.mark.ros, pytest.mark.slow]
PLANNER = {
    "planner__algorithm": "icem",
    "planner__particles": 16,
    "planner__elites": 4,
    "planner__iterations": 3,
}


@pytest.mark.parametrize("mode", ["lockstep", "real-time"])
def test_every_command_of_a_run_is_found_again(tmp_path, mode):
    arguments = quick_arguments(
        **PLANNER, control__extra_delay=0.015, driver__velocity="derived", episodes=2
    )
    if mode == "lockstep":
        arguments = quick_arguments(**PLANNER, episodes=2)
    with Up("pendulum", f"--{mode}", "--no-figures", *arguments, out=tmp_path / "run") as process:
        assert process.end() == 0, process.stderr
    run = process.run
    for index in range(2):
        found = replay(run.bag(index))
        assert (found.notes, found.first) == ([], None)
        assert found.equal == found.ticks == 400
    decided = [tick.decided for tick in read_played(run.bag(1)).ticks]
    assert any(decided) == (mode == "real-time")
