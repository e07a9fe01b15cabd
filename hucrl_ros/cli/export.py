"""`hucrl export`: a run's episodes in the formats of other people's tools."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    from hucrl_ros.datasets.trajectories import Trajectories


def run(
    folder: Annotated[Path, Argument(metavar="RUN", help="its folder")],
    lerobot: Annotated[
        Path | None, Option(metavar="FOLDER", help="for a LeRobotDataset, version 3.0")
    ] = None,
    hdf5: Annotated[
        Path | None, Option(metavar="FILE", help="for one HDF5 file, with arrays as D4RL's")
    ] = None,
    minari: Annotated[
        str | None,
        Option(
            metavar="NAME|FOLDER",
            help="of a Minari dataset, with a version at the end: pendulum/mine-v0 lies where "
            "MINARI_DATASETS_PATH says, ./mine-v0 here",
        ),
    ] = None,
    rerun: Annotated[
        Path | None, Option(metavar="FILE.rrd", help="for a recording that Rerun's viewer opens")
    ] = None,
) -> None:
    """Write a run's finished episodes for other programs.

    States, actions and rewards are those that the run's own learner sees. Left out are
    interrupted attempts, transitions over a gap, and episodes that came with --from. Nothing is
    overwritten. Each format has an extra: pip install -e '.[lerobot]', hdf5, minari, rerun, or
    all of them: export. The Python functions that the YAML of the run's robot names are run,
    which is said before.
    """
    from hucrl_ros.cli.functions import say_functions
    from hucrl_ros.datasets import hdf5 as hdf5_file
    from hucrl_ros.datasets import lerobot as lerobot_dataset
    from hucrl_ros.datasets import minari as minari_dataset
    from hucrl_ros.datasets import rerun as rerun_file
    from hucrl_ros.datasets.target import require_free
    from hucrl_ros.datasets.trajectories import read_trajectories
    from hucrl_ros.run.folder import RunFolder

    writers: list[tuple[Path, Callable[[Trajectories], None]]] = []
    if lerobot is not None:
        writers += [(lerobot, lambda data: lerobot_dataset.write_lerobot(data, lerobot))]
    if hdf5 is not None:
        writers += [(hdf5, lambda data: hdf5_file.write_hdf5(data, hdf5))]
    if minari is not None:
        place = minari_dataset.place_of(minari)
        writers += [(place.folder, lambda data: minari_dataset.write_minari(data, place))]
    if rerun is not None:
        writers += [(rerun, lambda data: rerun_file.write_rerun(data, rerun))]
    if not writers:
        raise ConfigError("no format: expected --lerobot, --hdf5, --minari or --rerun")
    places = [target.absolute() for target, _ in writers]
    for target, _ in writers:
        require_free(target)
        if places.count(target.absolute()) > 1:
            raise ConfigError(f"{target}: two formats can't be written to one place")
    source = RunFolder.open(folder)
    say_functions("export", source.config.task, source.robot)
    data = read_trajectories(source)
    for line in data.left_out:
        print(f"left out: {line}")
    for target, write in writers:
        write(data)
        print(f"{target}: {data.length} transitions of {len(data.parts)} trajectories", flush=True)
