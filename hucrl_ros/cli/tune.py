"""`hucrl tune`: the largest planning tick that this machine manages in the control period."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from hucrl_ros.cli.options import Bundle
from hucrl_ros.cli.parsing import above_zero
from hucrl_ros.errors import ConfigError, one_line

if TYPE_CHECKING:
    from ruamel.yaml import YAML


def run(
    bundle: Bundle,
    period: Annotated[
        float | None,
        Option(metavar="S", callback=above_zero, help="control period; default: the bundle's"),
    ] = None,
    headroom: Annotated[
        float, Option(metavar="SHARE", min=0, help="share of the period that ticks leave free")
    ] = 0.3,
    threads: Annotated[int, Option(metavar="N", min=1, help="of the engine")] = 1,
    seconds: Annotated[
        float, Option(metavar="S", callback=above_zero, help="for each size that is tried")
    ] = 3.0,
    out: Annotated[
        Path,
        Option(
            metavar="FILE", help="settings to change, or to make: for --config and params_file:="
        ),
    ] = Path("tuned.yaml"),
) -> None:
    """Fit particles x horizon x iterations to this machine.

    Ticks of a bundle are measured, a line for each size that is tried. The largest
    planner.particles, horizon and iterations whose 99th percentile leaves the headroom free are
    written, and with several --threads their number.
    """
    from hucrl_ros.benchmarks import Size
    from hucrl_ros.benchmarks.tuning import measure_agent, tune
    from hucrl_ros.config.schema import ControlSettings
    from hucrl_ros.controller.examiner import load_examined

    if headroom >= 1:
        raise ConfigError(f"--headroom = {headroom:g}: from 0 to below 1")
    settings = _read(out)
    loaded = load_examined(bundle, threads)
    planner = loaded.manifest.planner
    if planner.algorithm == "policy" or loaded.manifest.random:
        raise ConfigError(f"{bundle}: doesn't plan, so there is nothing to tune")
    period = period or loaded.manifest.period
    target = (1.0 - headroom) * period
    measure = measure_agent(loaded, ControlSettings(threads=threads), period, seconds)
    size = Size(planner.particles, planner.horizon, planner.iterations)
    print(f"period {1e3 * period:.2f} ms, {1e3 * target:.2f} ms of it for a tick", flush=True)
    print(f"{'size':>12} {'p50':>8} {'p99':>8} {'max':>8}  [ms]", flush=True)
    for trial in tune(measure, size, target):
        times = (1e3 * value for value in trial[1:])
        print(f"{trial.size!s:>12}" + "".join(f" {value:8.2f}" for value in times), flush=True)
        size = trial.size
    groups: dict[str, dict[str, int]] = {"planner": size._asdict()}
    # There can't be more elites than particles, whether the bundle's or the file's own.
    if max(planner.elites, _told(settings, "planner", "elites")) > size.particles:
        groups["planner"]["elites"] = min(planner.elites, size.particles)  # as ticks had
    several = threads > 1 or _told(settings, "control", "threads") > 1
    if several:  # With another number a tick would take another time.
        groups["control"] = {"threads": threads}
    _write(out, settings, groups, loaded.manifest.task)
    more = f"; control.threads = {threads}" if several else ""
    print(f"{out}: planner.particles, horizon, iterations = {', '.join(map(str, size))}{more}")


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
        for group in ("planner", "control"):
            document["/**"]["ros__parameters"].get(group, {}).keys()
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"--out {path}: not YAML: {one_line(error)}") from None
    except (TypeError, KeyError, AttributeError):
        raise ConfigError(
            f"--out {path}: holds other things; expected '/**:' with 'ros__parameters:' below it, "
            "or a name that is free"
        ) from None
    return document


def _told(settings: dict[str, Any], group: str, name: str) -> int:
    """What the settings of a file say of a whole number; 0: nothing."""
    found = settings["/**"]["ros__parameters"].get(group, {}).get(name) if settings else None
    return found if isinstance(found, int) else 0


def _write(
    path: Path, settings: dict[str, Any], groups: dict[str, dict[str, int]], task: str
) -> None:
    """Put groups into the settings; nothing else changes, and no half of a file is left."""
    from hucrl_ros.config.files import write_atomically

    settings = settings or {"/**": {"ros__parameters": {"task": task}}}
    for name, values in groups.items():
        settings["/**"]["ros__parameters"].setdefault(name, {}).update(values)
    text = io.StringIO()
    _yaml().dump(settings, text)
    try:
        write_atomically(path, text.getvalue())
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}") from None


def _yaml() -> "YAML":
    """Reads and writes with comments and layout as they are."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
