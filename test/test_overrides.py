import pytest

from hucrl_ros.config.schema import PlannerSettings, SafetySettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.nodes.overrides import given_settings, override


class Node:
    """Has parameters."""

    def get_parameters_by_prefix(self, prefix):
        return {"safety": {"damping": "a parameter"}}.get(prefix, {})


def test_only_what_the_node_was_given_replaces_the_bundles_settings():
    checked = SafetySettings(damping=0.5)
    given = given_settings(Node(), "safety", checked)
    assert given == {"damping": 0.5}
    bundle = SafetySettings(safe_command="damping", damping=0.1, effort_rate=0.2)
    assert override(bundle, given) == SafetySettings(
        safe_command="damping", damping=0.5, effort_rate=0.2
    )
    assert given_settings(Node(), "planner", PlannerSettings()) == {}


def test_settings_that_do_not_go_together_are_refused_in_one_line():
    with pytest.raises(ConfigError, match=r"elites = 40 don't fit.*must not exceed particles"):
        override(PlannerSettings(particles=16, elites=4), {"elites": 40})
