"""`hucrl tune`: the largest planning tick that this machine manages in the control period."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hucrl_ros.benchmarks.tick import Size
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from ruamel.yaml import YAML


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "tune",
        help="fit particles x horizon x iterations to this machine",
        description="Measure ticks of a bundle and write the largest planner.particles, horizon "
        "and iterations whose 99th percentile leaves the headroom free.",
    )
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="its folder")
    parser.add_argument(
        "--period", type=float, metavar="S", help="control period [s]; default: the bundle's"
    )
    parser.add_argument(
        "--headroom",
        type=float,
        default=0.3,
        metavar="SHARE",
        help="share of the period that ticks leave free [0.3]",
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of the engine [1]")
    parser.add_argument(
        "--seconds", type=float, default=3.0, metavar="S", help="for each size that is tried [3]"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("tuned.yaml"),
        metavar="FILE",
        help="settings to change, or to make: for --config and params_file:= [tuned.yaml]",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Try sizes, a line each, and write the last one."""
    from hucrl_ros.benchmarks.tuning import measure_agent, tune
    from hucrl_ros.config.schema import ControlSettings
    from hucrl_ros.controller.bundle import load_bundle

    if args.period is not None and not args.period > 0:
        raise ConfigError(f"--period = {args.period:g}: more than 0")
    if not 0 <= args.headroom < 1:
        raise ConfigError(f"--headroom = {args.headroom:g}: from 0 to below 1")
    if args.threads < 1:
        raise ConfigError(f"--threads = {args.threads}: at least 1")
    if not args.seconds > 0:
        raise ConfigError(f"--seconds = {args.seconds:g}: more than 0")
    settings = _read(args.out)
    bundle = load_bundle(args.bundle, threads=args.threads)
    planner = bundle.manifest.planner
    if planner.algorithm == "policy" or bundle.manifest.random:
        raise ConfigError(f"{args.bundle}: doesn't plan, so there is nothing to tune")
    period = args.period or bundle.manifest.period
    target = (1.0 - args.headroom) * period
    control = ControlSettings(threads=args.threads)
    measure = measure_agent(bundle, control, period, args.seconds)
    size = Size(planner.particles, planner.horizon, planner.iterations)
    print(f"period {1e3 * period:.2f} ms, {1e3 * target:.2f} ms of it for a tick", flush=True)
    print(f"{'size':>12} {'p50':>8} {'p99':>8} {'max':>8}  [ms]", flush=True)
    for trial in tune(measure, size, target):
        times = (1e3 * value for value in trial[1:])
        print(f"{trial.size!s:>12}" + "".join(f" {value:8.2f}" for value in times), flush=True)
        size = trial.size
    _write(args.out, settings, size, bundle.manifest.task)
    print(f"{args.out}: planner.particles, horizon, iterations = {', '.join(map(str, size))}")
    return 0


def _read(path: Path) -> dict[str, Any]:
    """The settings in a file, with its comments; none if there is no such file.

    Raises:
        ConfigError: it is something else.
    """
    from ruamel.yaml.error import YAMLError

    if not path.exists():
        return {}
    try:
        document: dict[str, Any] = _yaml().load(path.read_text(encoding="utf-8"))
        document["/**"]["ros__parameters"].get("planner", {}).keys()
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--out {path}: not YAML: {' '.join(str(error).split())}") from None
    except (TypeError, KeyError, AttributeError):
        raise ConfigError(
            f"--out {path}: holds other things; expected '/**:' with 'ros__parameters:' below it, "
            "or a name that is free"
        ) from None
    return document


def _write(path: Path, settings: dict[str, Any], size: Size, task: str) -> None:
    """Put the size into the settings; nothing else changes, and no half of a file is left."""
    settings = settings or {"/**": {"ros__parameters": {"task": task}}}
    settings["/**"]["ros__parameters"].setdefault("planner", {}).update(size._asdict())
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            _yaml().dump(settings, file)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ConfigError(f"--out {path}: {error.strerror}") from None


def _yaml() -> "YAML":
    """Reads and writes with comments and layout as they are."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
