"""Bundles are swapped between two ticks of a running controller, and no command is lost."""

import pytest
from bench import Bench, Process, short_bundle

pytestmark = pytest.mark.ros


@pytest.mark.parametrize("swaps", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_every_command_of_a_run_with_swaps_is_accounted_for(ros_domain, tmp_path, swaps):
    bundles = [
        short_bundle(tmp_path / name, steps=10**6, episode=episode)
        for episode, name in enumerate("ab", start=1)
    ]
    process = Process(
        "controller",
        tmp_path / "controller.log",
        bundle=bundles[1],
        mode="real_time",
        safety__outage_periods=1e6,
    )
    try:
        with Bench(tmp_path) as bench:
            bench.meet(process)
            assert bench.transition("configure")
            assert bench.wait(lambda: len(bench.bundles) == 1)
            bench.bundles.clear()
            assert bench.transition("activate")
            offered = []

            def swapped():
                """Offer the other bundle as soon as the last one offered plays."""
                if bench.bundles == offered:
                    if len(offered) == swaps:
                        return True
                    offered.append(str(bundles[len(offered) % 2]))
                    bench.offer(offered[-1])
                return False

            states = bench.drive(swapped)
            health = bench.health("controller")
            ticks, commands = list(bench.ticks), list(bench.commands)
    finally:
        process.clean_up()
    assert bench.bundles == offered and len(offered) == swaps
    assert len(ticks) + int(health["skipped_joint_states"]) == states
    assert [tick.step for tick in ticks] == list(range(len(ticks)))
    assert int(health["ticks"]) == len(ticks), "counted across all bundles"
    # Each tick's command was sent, in this order; the others are safe ones that are counted.
    sent = iter(effort for _, effort in commands)
    assert all(any(effort == list(tick.action) for effort in sent) for tick in ticks)
    assert len(commands) - len(ticks) <= int(health["stale_commands"])
    assert "Traceback" not in process.text()
