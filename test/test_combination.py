"""Which search and which planner go with a task."""

from dataclasses import replace

import pytest
from linear_system import PushedMass

from hucrl_ros.config.files import load_config, override, task_config_path
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.errors import ConfigError
from hucrl_ros.planners import PLANNERS
from hucrl_ros.run.combination import check_combination
from hucrl_ros.search import SEARCHES
from hucrl_ros.tasks import make_task

MEMBERS = {"search": SEARCHES, "planner": PLANNERS}
ALL = [(kind, name) for kind, members in MEMBERS.items() for name in members]
BY_GRADIENT = [(kind, name) for kind, name in ALL if MEMBERS[kind][name].needs_gradients]
OTHERS = [choice for choice in ALL if choice not in BY_GRADIENT]


class Jump(PushedMass):
    """Pays in the goal alone; effort costs."""

    def reward(self, state, action):
        return (state[..., 0].abs() < 0.1).float() - 0.1 * (action**2).sum(dim=-1)


class Bang(PushedMass):
    """The cost of an effort jumps."""

    def reward(self, state, action):
        return -state.abs().sum(dim=-1) - action[..., 0].sign()


def chosen(kind, name, task="pendulum"):
    return override(load_config(task_config_path(task)), {f"{kind}.algorithm": name})


def test_what_follows_gradients_is_known():
    assert set(BY_GRADIENT) == {("search", "pathwise"), ("search", "bptt"), ("planner", "ilqr")}


@pytest.mark.parametrize(("kind", "name"), BY_GRADIENT)
@pytest.mark.parametrize(("task", "missing"), [(Jump, "the state"), (Bang, "the action")])
def test_gradients_of_a_reward_that_jumps_are_refused(kind, name, task, missing):
    with pytest.raises(ConfigError) as error:
        check_combination(chosen(kind, name), task(0.0))
    message = str(error.value)
    assert message.startswith(f"{kind}.algorithm = '{name}'")
    assert missing in message and "choose one of: " in message
    assert name not in message.split("choose one of: ")[1]


@pytest.mark.parametrize(("kind", "name"), OTHERS)
def test_the_others_take_a_reward_that_jumps(kind, name):
    check_combination(chosen(kind, name), Jump(0.0))


@pytest.mark.parametrize(("kind", "name"), ALL)
@pytest.mark.parametrize("task", ["pendulum", "reacher"])
def test_everything_fits_rewards_that_slope_but_a_grid_over_many_entries(kind, name, task):
    config, built = chosen(kind, name, task), make_task(task, 0.1)
    if (name, task) == ("exact", "reacher"):
        with pytest.raises(ConfigError, match="two entries of the state, and this one has 14"):
            check_combination(config, built)
    else:
        check_combination(config, built)


@pytest.mark.parametrize("task", known_tasks())
def test_a_tasks_own_settings_fit_it(task):
    config = load_config(task_config_path(task))
    check_combination(config, make_task(task, config.action_penalty))


def test_exact_programming_is_refused_where_there_is_a_goal():
    class Aimed(PushedMass):
        spec = replace(PushedMass().spec, context=("goal_x",))

    task = Aimed()
    config = override(load_config(task_config_path("pendulum")), {"planner.algorithm": "exact"})
    with pytest.raises(ConfigError, match="holds goal_x, too"):
        check_combination(override(config, {"strategy": "greedy"}), task)
    with pytest.raises(ConfigError, match="batch_size >= 2"):
        override(config, {"search.algorithm": "ppo", "search.batch_size": 1})
