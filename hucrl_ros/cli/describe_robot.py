"""A user's own robot as tables: what its description says, and what was derived from the model."""

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hucrl_ros.cli.describe_bundle import pairs
from hucrl_ros.config.robot import Draw, Reach
from hucrl_ros.config.robot_spec import sources
from hucrl_ros.config.task_file import Description, dump_description
from hucrl_ros.robots import describe
from hucrl_ros.run.prepare import RunOptions, asked_run
from hucrl_ros.tasks.described import DescribedTask
from hucrl_ros.tasks.terms import TERMS


def describe_robot(path: Path) -> RenderableType:
    """Check a description as the start of a run does, and say all that it means.

    Raises:
        ConfigError: something in it is wrong.
    """
    config, described = asked_run(RunOptions(str(path)))
    described = described or describe(config.task)
    robot, task = described.robot, DescribedTask(described, config.action_penalty)
    substeps = (
        "" if robot.timestep is None else f", physics in steps of {1e3 * robot.timestep:g} ms"
    )
    facts = {
        "model": str(described.model),
        "control": f"{robot.steps} steps of {1e3 * robot.period:g} ms{substeps}",
        "efforts": ", ".join(
            f"{joint} ±{limit:g}"
            for joint, limit in zip(robot.actuated, robot.effort_limits, strict=True)
        ),
        **_reward(described),
        **_geometry(task),
        **{f"topic {name}": other for name, other in robot.topics.items()},
    }
    return Group(
        Text(f"Robot {described.name}", style="bold"),
        Text("checked: model, joints, reward and its export to ONNX", style="green"),
        "",
        pairs(facts),
        "",
        _entries(described, task),
        "",
        Text("All of it, as a run keeps it", style="italic"),
        Text(dump_description(described)),
    )


def _reward(described: Description) -> dict[str, str]:
    reward = described.reward
    lines = {"reward": reward.function}
    if reward.terms:
        lines = {}
        for number, term in enumerate(reward.terms):
            summary = ((TERMS.get(term.term) or type(term)).__doc__ or "").partition("\n")[0]
            lines[f"reward {number}"] = f"{term.weight:g} x {term.term}: {summary}"
    if reward.success is not None:
        success = reward.success
        lines["success"] = f"{success.of} within {100 * success.within:g} cm of {success.to}"
    return lines


def _geometry(task: DescribedTask) -> dict[str, str]:
    vectors = task.geometry.vectors if task.geometry else ()
    seen = ", ".join(f"{site} from {body}" for site, body in vectors)
    found = {"vectors": seen} if seen else {}
    links = len(task.geometry.touches) if task.geometry else 0
    if links:
        found["contact"] = f"of {links} link{'s' * (links > 1)} with {sources(task.spec).object}"
    return found


def _entries(described: Description, task: DescribedTask) -> Table:
    robot = described.robot
    table = Table(
        "state", "starts at", "networks see", "imagined up to", box=None, title_justify="left"
    )
    stopped = {stop.joint for stop in task.geometry.stops} if task.geometry else set()
    for index, entry in enumerate(robot.entries):
        angle = entry in (robot.angles or ())
        seen = "cosine, sine" if angle else f"in units of {robot.scales[entry]:g}"
        seen += ", stops" if index in stopped else ""
        up_to = _reach(robot.reach.get(entry))
        context = entry in robot.context
        table.add_row(entry, _draw(robot.start[entry]), seen, "stays" if context else up_to)
    return table


def _reach(reach: Reach) -> str:
    if isinstance(reach, tuple):
        return f"{reach[0]:g} … {reach[1]:g}"
    return "any" if reach is None else f"±{reach:g}"


def _draw(draw: Draw) -> str:
    first = draw.origin + draw.first
    if draw.is_uniform:
        return f"{first:g} … {first + draw.spread:g}"
    return f"{first:g}" + (f" + N(0, {draw.std:g}²)" if draw.std else "")
