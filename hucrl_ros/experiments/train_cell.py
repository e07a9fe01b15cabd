"""One training of a sweep in a process of its own.

`python -m hucrl_ros.experiments.train_cell RUN`
"""

import sys
from pathlib import Path

from hucrl_ros.errors import HucrlError
from hucrl_ros.run.folder import RunFolder


def main(folder: Path) -> int:
    """Train with the settings in the run's folder; returns the exit code."""
    from hucrl_ros.experiments.train import train

    try:
        run = RunFolder.open(folder)
        train(run.config, run)
    except HucrlError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
