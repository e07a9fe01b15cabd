"""What `hucrl sweep` and `hucrl experiment` print while they train."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hucrl_ros.experiments.cells import Cell
    from hucrl_ros.experiments.sweep import Sweep
    from hucrl_ros.processes import Exit


def train(sweep: "Sweep", workers: int) -> list[str]:
    """Run what isn't finished, a line for each; returns a line for each that failed."""
    from hucrl_ros.summary import read_summary

    finished = f"{len(sweep.finished)} of {len(sweep.cells)}"
    print(f"{finished} runs are finished already", flush=True)

    def report(cell: "Cell", failure: "Exit | None") -> None:
        if failure is None:
            summary = read_summary(sweep.run_of(cell).summary)
            best = "no episode" if summary.best_return is None else f"{summary.best_return:.1f}"
            result = f"best return {best}, {summary.wall_s:.0f} s"
        else:
            result = f"failed: {failure.description}"
        done = f"{len(sweep.finished)}/{len(sweep.cells)}"
        print(f"[{done}] {cell.name}: {result}", flush=True)

    return [failure.description for failure in sweep.run(workers, report)]
