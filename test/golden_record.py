# ruff: noqa: T201
"""What must stay as it is while the program is rebuilt: records of it in `golden/`.

    python test/golden_record.py write [RECORD...]     makes them anew
    python test/golden_record.py compare [RECORD...]   prints what differs, and exits with 1

What a record holds is taken from the commands and from the files that they leave, not from
modules; the few that are needed are imported in this file's first functions and nowhere else.
"""

import argparse
import contextlib
import difflib
import io
import json
import os
import re
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as conftest.py does, before numpy is imported

FOLDER = Path(__file__).with_name("golden")
CONFIG = Path(__file__).resolve().parents[1] / "config"
TASKS = ("pendulum", "cartpole", "reacher", "sparse_reacher", "pusher", "half_cheetah")
EXAMPLES = ("furuta", "planar_arm")
COMMANDS = (
    *("", "up", "train", "evaluate", "inspect", "sweep", "experiment", "figure", "optimum"),
    "teach",
    *("bench", "bench tick", "bench loop", "bench delay", "bench planners", "bench learning"),
    *("tune", "list", "doctor"),
)


def hucrl(*arguments: str) -> str:
    """Run a command in this process; what it prints."""
    from hucrl_ros.cli import main

    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            code = main(arguments)
    except SystemExit as end:  # after --help
        code = end.code
    assert not code, f"hucrl {' '.join(arguments)}: exit code {code}"
    return output.getvalue()


def parsed_settings(task: str) -> dict:
    """The settings of a task, by name or path, with every default filled in."""
    from hucrl_ros.run.asked import RunOptions, asked_config

    return asked_config(RunOptions(task)).model_dump(mode="json")


def parsed_robot(path: Path) -> dict:
    """Robot and reward of a description."""
    from hucrl_ros.config.task_file import read_description

    described = read_description(path)
    return {
        "robot": described.robot.model_dump(mode="json"),
        "reward": described.reward.model_dump(mode="json"),
    }


def parsed_experiment(path: Path) -> dict[str, dict]:
    """The settings of each training of an experiment, by the name of its folder."""
    from hucrl_ros.experiments.grid import read_grid

    return {cell.name: cell.config.model_dump(mode="json") for cell in read_grid(path).cells()}


def bases_of(path: Path) -> dict[str, dict]:
    """The settings of each task of an experiment, as they are without it."""
    from hucrl_ros.config.task_file import task_name
    from hucrl_ros.experiments.grid import read_grid

    return {task_name(name): parsed_settings(name) for name in read_grid(path).tasks}


def example(name: str) -> Path:
    """The YAML of a robot that comes as an example."""
    return CONFIG / "examples" / name / f"{name}.yaml"


def settings() -> dict:
    """The settings in every file of `config/`; of an experiment what differs from its task's."""
    record = {name: parsed_settings(name) for name in TASKS}
    for name in EXAMPLES:
        record[name] = {**parsed_robot(example(name)), **parsed_settings(str(example(name)))}
    for path in sorted((CONFIG / "experiments").glob("*.yaml")):
        cells, bases = parsed_experiment(path), bases_of(path)
        record[f"experiments/{path.stem}"] = {
            name: _changes(bases[cell["task"]], cell) for name, cell in cells.items()
        }
    return record


def _changes(base: dict, other: dict) -> dict:
    before, after = _flat(base), _flat(other)
    assert before.keys() == after.keys()
    return {key: value for key, value in after.items() if value != before[key]}


def _flat(values: dict, prefix: str = "") -> dict:
    flat = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def help_text(command: str) -> str:
    """The help of a command, so wide that no line is broken."""
    before = dict(os.environ)
    os.environ |= {"COLUMNS": "400", "TERMINAL_WIDTH": "400", "TERM": "dumb", "NO_COLOR": "1"}
    try:
        return hucrl(*command.split(), "--help")
    finally:
        os.environ.clear()
        os.environ |= before


def commands() -> dict:
    """Options and arguments of each command, read out of its help."""
    return {f"hucrl {name}".strip(): offered(help_text(name)) for name in COMMANDS}


def offered(text: str) -> dict[str, list[str]]:
    """What a help text offers, with the choices of each; argparse's form or typer's."""
    found: dict[str, set[str]] = {}
    arguments = False
    for line in text.splitlines():
        tokens = re.sub(r"[│╭╰─╮╯*]", " ", line).replace(",-", " -").split()
        names: list[str] = []
        choices: set[str] = set()
        for token in tokens:
            if token.startswith("-"):
                names.append(token.rstrip(","))
            elif arguments and not names and (len(tokens) > 1 or token.startswith("{")):
                names.append(token.lower())
            elif not names or not re.match(r"[\[{(<]|[A-Z_]+\b", token):
                break  # nothing that one types, or where its explanation begins
            if listed := re.search(r"[{\[<]([\w-]+(?:[,|][\w-]+)+)[}\]>]", token):
                choices |= set(re.split("[,|]", listed[1]))
        if arguments and choices:
            names = [*choices]  # argparse doesn't print the argument's name
        heading = bool(tokens) and tokens[-1].lower().rstrip(":") in ("arguments", "commands")
        arguments = heading or (arguments and bool(tokens))
        for name in names:
            found.setdefault(name, set()).update(choices if name.startswith("-") else ())
    return {name: sorted(choices) for name, choices in sorted(found.items())}


def runs() -> dict:
    """Short runs of all kinds."""
    import golden_runs

    return golden_runs.record(tuple(golden_runs.RUNS))


def graph() -> dict:
    """The running graph of `hucrl up pendulum`."""
    import golden_graph

    return golden_graph.record()


RECORDS = {"settings": settings, "commands": commands, "graph": graph, "runs": runs}


def stored(name: str) -> dict:
    """A record as it was written."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def as_text(record: object) -> str:
    """A record as it is written."""
    text = json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False)
    # Lists of numbers and words on one line each.
    return re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def difference(before: object, now: object) -> str:
    """A unified diff of two records; empty: they are the same."""
    texts = [as_text(record).splitlines() for record in (before, now)]
    return "\n".join(difflib.unified_diff(*texts, "golden", "now", lineterm=""))


def commands_difference(before: dict, now: dict) -> str:
    """What commands don't offer any more; more options are welcome."""
    kept = {
        command: {name: now[command][name] for name in names if name in now[command]}
        for command, names in before.items()
    }
    return difference(before, kept)


def runs_difference(before: dict, now: dict) -> str:
    """What runs did otherwise; their numbers count on the same processor only."""
    runs = [before["runs"], now["runs"]]
    if before["processor"] != now["processor"]:
        print("another processor or other versions: numbers of runs are not compared")
        runs = [{name: run.get("files") for name, run in part.items()} for part in runs]
    return difference(*runs)


COMPARISONS = {"commands": commands_difference, "runs": runs_difference}


def main() -> int:
    """Write or compare records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("records", nargs="*", choices=[*RECORDS, []], default=[])
    args = parser.parse_args()
    same = True
    for name in args.records or RECORDS:
        begin = time.monotonic()
        record = RECORDS[name]()
        if args.action == "write":
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / f"{name}.json").write_text(as_text(record))
            changes = "written"
        else:
            changes = COMPARISONS.get(name, difference)(stored(name), record)
        same = same and not changes
        print(f"{name}: {changes or 'the same'} ({time.monotonic() - begin:.0f} s)")
    return 0 if same or args.action == "write" else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
