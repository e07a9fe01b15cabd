"""Every term of a composed reward against its closed form."""

import math

import numpy as np
import pytest
import torch
from own_robots import ARM, changed, task_of

from hucrl_ros.tasks.terms import TERMS

RHO = 0.3
# shoulder, elbow, their speeds, goal_x, goal_y
STATE = (math.pi / 2, -math.pi / 2, 0.5, -2.0, 0.3, 0.1)
"""The upper arm points along y, the forearm along x: the hand is at (0.3, 0.3, 0)."""
ACTION = (0.5, -1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("arm")


def value(folder, *terms):
    described = changed(ARM, "reward", function=None, success=None, terms=list(terms))
    task = task_of(folder, described, RHO)
    state = torch.tensor([STATE], dtype=torch.float64)
    return float(task.reward(state, torch.tensor([ACTION], dtype=torch.float64)))


@pytest.mark.parametrize(
    ("term", "settings", "expected"),
    [
        ("distance", {"of": "hand", "to": "goal"}, -(0.2**2)),
        ("distance", {"of": "hand", "to": [0.3, 0.3, 1.0]}, -1.0),
        ("near", {"of": "hand", "to": "goal", "length": 0.2}, math.exp(-1.0)),
        ("near", {"of": "goal", "to": [0.3, 0.1, 0.0], "length": 0.2}, 1.0),
        ("height", {"of": "hand"}, 0.0),
        ("upright", {"joint": "shoulder", "target": math.pi / 2}, 1.0),
        ("upright", {"joint": "shoulder", "target": 5 * math.pi / 2}, 1.0),  # turns ignored
        ("upright", {"joint": "shoulder", "cosine": 0.5, "margin": 0.5}, 0.1),
        ("position", {"joint": "elbow", "target": 1.0}, -((math.pi / 2 + 1.0) ** 2)),
        ("within", {"joint": "elbow", "low": -2.0, "high": -1.0, "margin": 0.1}, 1.0),
        (
            "within",
            {"joint": "elbow", "low": 1.0, "high": 2.0, "margin": 1.0 + math.pi / 2},
            0.1,
        ),
        ("slow", {"joint": "shoulder", "band": 0.5, "margin": 1.0}, 1.0),
        ("slow", {"joint": "elbow", "band": 1.5, "margin": 0.5}, 0.1),
        ("speed", {"joint": "shoulder"}, 0.5),
        ("speed", {"joint": "shoulder", "cap": 0.2}, 0.2),
        ("speed", {"joint": "elbow", "cap": 0.2}, -2.0),
        ("velocity", {}, -(0.5**2 + 2.0**2)),
        ("velocity", {"joints": ["elbow"]}, -4.0),
        ("effort", {}, -RHO * 1.25),
        ("effort", {"scale": 0.5}, -RHO * 5.0),
        ("gentle", {"band": 0.5, "margin": 0.5}, RHO * ((1.0 + 0.1) / 2 - 1.0)),
        ("bounded_effort", {}, RHO * (math.exp(-1.25) - 1.0)),
        ("bounded_effort", {"scale": 0.5}, RHO * (math.exp(-5.0) - 1.0)),
        (
            "product",
            {
                "factors": [
                    {"term": "speed", "joint": "shoulder"},
                    {"term": "speed", "joint": "elbow", "weight": 3.0},
                ]
            },
            0.5 * 3.0 * -2.0,
        ),
    ],
)
def test_a_term_has_its_closed_form(folder, term, settings, expected):
    one = {"term": term, **settings}
    assert value(folder, one) == pytest.approx(expected, abs=1e-9)
    assert value(folder, {**one, "weight": -2.0}) == pytest.approx(-2.0 * expected, abs=1e-9)


def test_every_term_has_a_closed_form_above():
    tried = {
        mark.args[1][k][0]
        for mark in test_a_term_has_its_closed_form.pytestmark
        for k in range(len(mark.args[1]))
    }
    assert tried == set(TERMS)


def test_terms_are_summed(folder):
    both = value(folder, {"term": "speed", "joint": "elbow"}, {"term": "effort"})
    assert both == pytest.approx(-2.0 - RHO * 1.25)


def test_a_function_gets_the_named_parts_of_states_and_actions(tmp_path):
    described = changed(ARM, "reward", function="parts.py:reward", success=None)
    (tmp_path / "parts.py").write_text(
        "def reward(state, action, robot):\n"
        "    return (robot.position(state, 'shoulder') + 10 * robot.velocity(state, 'elbow')\n"
        "        + 100 * robot.entry(state, 'goal_y') + 1000 * robot.effort(action, 'elbow')\n"
        "        + 10000 * robot.site(state, 'hand')[..., 0] + robot.action_penalty\n"
        "        + robot.body(state, 'goal')[..., 2])\n"
    )
    task = task_of(tmp_path, described, RHO)
    found = task.rewards(np.array([STATE]), np.array([ACTION]))
    expected = math.pi / 2 - 20.0 + 10.0 - 1000.0 + 3000.0 + RHO
    np.testing.assert_allclose(found, [expected], rtol=1e-12)
