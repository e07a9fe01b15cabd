"""The table of `hucrl bench tick` as text, JSON, figure and page."""

import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from hucrl_ros.benchmarks.tick import Row
from hucrl_ros.experiments.style import BLUE, GREEN, GREY, headline, save, styled

COLOURS = {"compiled": BLUE, "onnx": GREEN}
HEADER = (
    f"{'system':<26}{'size':>10}  {'engine':<9}{'threads':>7}{'ticks':>7}"
    f"{'p50':>9}{'p99':>9}{'p99.9':>9}{'max ms':>9}{'GFLOP/s':>9}{'yardstick':>10}{'share':>7}"
)


def text_line(row: Row) -> str:
    """One line below `HEADER`."""
    return (
        f"{_system(row):<26}{_size(row):>10}  {row.engine:<9}{row.threads:>7}{row.ticks:>7}"
        f"{row.p50_ms:>9.3f}{row.p99_ms:>9.3f}{row.p999_ms:>9.3f}{row.max_ms:>9.3f}"
        f"{row.gflops:>9.1f}{row.yardstick_gflops:>10.1f}{row.share:>7.0%}"
    )


def write(folder: Path, rows: list[Row], command: str, machine: str) -> None:
    """Write `ticks.json`, `ticks.png` and `README.md` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    table = json.dumps([row._asdict() for row in rows], indent=1)
    (folder / "ticks.json").write_text(table + "\n", encoding="utf-8")
    save(figure(rows), folder / "ticks.png")
    (folder / "README.md").write_text(_page(rows, command, machine), encoding="utf-8")


def figure(rows: list[Row]) -> Figure:
    """Median tick of each system and size: a bar for each engine and number of threads."""
    cases = list(dict.fromkeys((_system(row), _size(row)) for row in rows))
    ways = list(dict.fromkeys((row.engine, row.threads) for row in rows))
    height = 0.8 / len(ways)
    with styled():
        tall = 1.6 + 0.2 * len(cases) * (len(ways) + 1)
        drawing = Figure(figsize=(9.0, tall), layout="constrained")
        axes = drawing.add_subplot()
        for row in rows:
            place = cases.index((_system(row), _size(row)))
            way = ways.index((row.engine, row.threads))
            at = place + (way - (len(ways) - 1) / 2) * height
            colour, pale = COLOURS[row.engine], row.threads > 1
            axes.barh(at, row.p50_ms, 0.9 * height, color=colour, alpha=0.55 if pale else 1.0)
            axes.plot([row.p50_ms, row.p99_ms], [at, at], color=GREY, linewidth=1.0)
            remark = f" {row.p50_ms:.2f} ms, {row.share:.0%}"
            axes.annotate(remark, (max(row.p50_ms, row.p99_ms), at), va="center", fontsize=8.5)
        axes.set_yticks(range(len(cases)), [f"{system}\n{size}" for system, size in cases])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlim(right=3.0 * max(row.p99_ms for row in rows))
        axes.set_xlabel("one planning tick [ms]: bar to the median, line to p99")
        axes.grid(axis="y", visible=False)
        for engine, threads in ways:
            label = f"{engine}, {threads} thread{'s' * (threads > 1)}"
            alpha = 0.55 if threads > 1 else 1.0
            axes.barh([0], [np.nan], color=COLOURS[engine], alpha=alpha, label=label)
        drawing.legend(loc="outside lower center", ncols=3)
        axes.margins(y=0.01)
        headline(axes, "A planning tick", "% of the rate of a 512³ matrix product")
    return drawing


def _page(rows: list[Row], command: str, machine: str) -> str:
    lines = [
        "# How long a planning tick takes",
        "",
        f"Machine: {machine}. Command:",
        "",
        "```sh",
        command,
        "```",
        "",
        "Share: operations of the networks in a tick by its median duration, over the rate of a",
        "512 x 512 x 512 matrix product in float32 (torch), measured between the ticks with as",
        "many threads. Critic, reward, sampling and selection take time in a tick but don't count",
        "as operations. All numbers are in [ticks.json](ticks.json).",
        "",
        "![Median tick of each engine](ticks.png)",
        "",
        "| system | size | engine | threads | p50 [ms] | p99 | p99.9 | max | GFLOP/s | yardstick "
        "| share |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {_system(row)} | {_size(row)} | {row.engine} | {row.threads} | {row.p50_ms:.3f} | "
            f"{row.p99_ms:.3f} | {row.p999_ms:.3f} | {row.max_ms:.3f} | {row.gflops:.1f} | "
            f"{row.yardstick_gflops:.1f} | {row.share:.0%} |"
        )
    return "\n".join(lines) + "\n"


def _system(row: Row) -> str:
    return f"{row.system} {row.heads}x[{','.join(map(str, row.layers))}]"


def _size(row: Row) -> str:
    return f"{row.particles}x{row.horizon}x{row.iterations}"
