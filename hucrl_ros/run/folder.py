"""The folder of a run: the only place that knows its file names."""

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.config.files import dump_config, load_config, write_atomically
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import ROBOT, Description, store_description
from hucrl_ros.errors import RunError

_HELD = ExitStack()
"""Locks that this process keeps until it ends."""


class Player(NamedTuple):
    """The process that plays a run."""

    pid: int
    domain: int | None
    """ROS domain of its nodes; None: it has none."""


class RunFolder:
    """Paths inside `runs/<name>/`, see `docs/contracts.md`."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.config_path = self.root / "config.yaml"
        """Settings of the run, in ROS parameter form."""
        self.robot = self.root / ROBOT
        """Folder of the description of the run's task; older runs of the paper's have none."""
        self.prior = self.root / "prior"
        """Folder of what the run began with: settings, bags, weights of another run, if any."""
        self.on_robot = self.root / ".on_robot"
        """Exists where the episodes are played by a robot and not by our simulator."""
        self.summary = self.root / "summary.json"
        """`summary.json`."""
        self.episodes = self.root / "episodes"
        """Folder of the bags."""
        self.bundles = self.root / "bundles"
        """Folder of the bundles."""
        self.checkpoints = self.root / "checkpoints"
        """Folder of the learner's weights."""
        self.logs = self.root / "logs"
        """Folder of the nodes' logs."""
        self.figures = self.root / "figures"
        """Folder of the pictures."""
        self.videos = self.root / "videos"
        """Folder of the videos."""
        self.incoming = self.root / ".incoming"
        """Folder of what is on its way from another machine, and not complete or not checked."""
        self.lock = self.root / ".lock"
        """Held by the process that plays the run: its id, then the ROS domain of its nodes."""
        self.token = self.root / ".token"
        """Secret that a learner on another machine has to know."""

    @classmethod
    def create(
        cls,
        root: Path,
        config: Config,
        described: Description | None = None,
        fill: Callable[["RunFolder"], None] = lambda run: None,
    ) -> "RunFolder":
        """Make a new run's folder and store its settings, which make it a run, last.

        Args:
            root: The folder.
            config: The settings.
            described: The complete description of its task, which the run keeps a copy of.
            fill: Puts into it what it can't go on without.

        Raises:
            RunError: a run lies there already.
        """
        run = cls(root)
        if run.config_path.exists():
            raise RunError(
                f"{root}: a run lies there already; `hucrl up` and `hucrl train` continue it with "
                "--resume; or take another --out DIR"
            )
        left = (run.episodes, run.bundles, run.checkpoints, run.robot)
        if run.prior.exists() or run.summary.exists() or any(any(x.glob("*")) for x in left):
            raise RunError(
                f"{root}: holds what is left of a run (episodes, bundles, checkpoints, robot, "
                "prior or summary.json, but no config.yaml); remove the folder, or take another "
                "--out DIR"
            )
        for folder in (run.episodes, run.bundles, run.checkpoints, run.logs):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            if described is not None:
                store_description(described, run.robot)
            fill(run)
            write_atomically(run.config_path, dump_config(config))
        except BaseException:
            run.unmake()
            raise
        return run

    def unmake(self) -> None:
        """Take back what a run is made of; what else lies in its folder stays, and the folder."""
        self.config_path.unlink(missing_ok=True)  # from here on it is none
        # What is in these is ours: they were empty.
        for folder in (self.episodes, self.bundles, self.checkpoints, self.prior, self.robot):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.summary, self.on_robot, self.lock):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # logs of something else lie there
            self.logs.rmdir()

    @classmethod
    def open(cls, root: Path) -> "RunFolder":
        """An existing run.

        Raises:
            RunError: none lies there.
        """
        run = cls(root)
        if not run.config_path.is_file():
            raise RunError(f"{root}: no run lies there (no config.yaml)")
        return run

    @property
    def config(self) -> Config:
        """Settings of the run."""
        return load_config(self.config_path)

    def change(self, config: Config) -> None:
        """Let the run go on with other settings: those of `config`.

        Raises:
            RunError: a process plays it.
        """
        with self.locked(on_robot=self.on_robot.exists()):
            write_atomically(self.config_path, dump_config(config))

    def bag(self, episode: int) -> Path:
        """rosbag2 folder of an episode."""
        return self.episodes / f"episode_{episode:03d}"

    def bundle(self, episode: int) -> Path:
        """Bundle that plays an episode."""
        return self.bundles / f"bundle_{episode:03d}"

    def flown(self, episode: int, named: str) -> int:
        """Number of the bundle that played an episode, `named` in its bag.

        It is the episode's own where the bag doesn't say (older ones), or names none of this run.
        """
        found = re.fullmatch(r"bundle_(\d{3,6})", named)
        return int(found[1]) if found and int(found[1]) <= episode else episode

    def checkpoint(self, episode: int) -> Path:
        """Learner's weights after learning from an episode; -1: from the other run alone."""
        if episode == -1:
            return self.checkpoints / "prior.safetensors"
        return self.checkpoints / f"episode_{episode:03d}.safetensors"

    @property
    def taught(self) -> bool:
        """Whether `hucrl teach` made it: none of its bundles played its episodes."""
        count = self.finished_episodes()
        return count > 0 and self.bundle(count).is_dir() and not self.bundle(0).is_dir()

    def finished_episodes(self) -> int:
        """Number of episodes, from 0 without a gap, whose bag was closed properly."""
        count = 0
        while (self.bag(count) / "metadata.yaml").is_file():
            count += 1
        return count

    def newest_checkpoint(self) -> int | None:
        """Last finished episode whose learner's weights were kept; None: there are none."""
        kept = [k for k in range(-1, self.finished_episodes()) if self.checkpoint(k).is_file()]
        return kept[-1] if kept else None

    @property
    def player(self) -> Player | None:
        """Who plays the run now; None: nobody, or a process that doesn't say so."""
        try:
            told = [int(word) for word in self.lock.read_text().split()]
            pid, domain = told[0], told[1] if len(told) > 1 else None
            os.kill(pid, 0)  # is it there?
        except PermissionError:  # another user's process
            pass
        except (OSError, ValueError, IndexError):
            return None
        return Player(pid, domain)

    def played_in(self, domain: int) -> bool:
        """Whether a process of this user plays the run in a ROS domain, whatever its files say.

        That process has the lock open; whoever only made the folder can't bring that about.
        """
        try:
            lock, owner = self.lock.lstat(), self.root.stat().st_uid
        except (OSError, ValueError):  # not there, or no name of a folder
            return False
        if not stat.S_ISREG(lock.st_mode) or owner not in (0, os.geteuid()):
            return False
        found = self.player
        return (
            found is not None
            and found.domain == domain
            and any(os.path.samestat(lock, opened) for opened in _opened_by(found.pid))
        )

    @contextmanager
    def locked(
        self, on_robot: bool = False, domain: int | None = None, ordered: bool = True
    ) -> Iterator[None]:
        """Keep other processes from playing the same run.

        Args:
            on_robot: A robot plays it, not our simulator.
            domain: ROS domain in which it is played, for whoever wants to watch.
            ordered: Its episodes follow each other, so none may be missing.

        Raises:
            RunError: another process plays it, an episode is missing that others follow, or
                episodes of a robot would get mixed with those of a simulator.
        """
        with self.lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                pid = file.readline().strip()
                raise RunError(f"{self.root}: process {pid} is playing this run") from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n" + ("" if domain is None else f"{domain}\n"))
            file.flush()
            try:
                if ordered:
                    self.require_order()
                self._note_who_plays(on_robot)
                yield
            finally:
                file.truncate(0)

    def lock_until_exit(
        self, on_robot: bool = False, domain: int | None = None, ordered: bool = True
    ) -> None:
        """Take the lock of `locked` for the rest of this process, on behalf of its children.

        Args:
            on_robot: As for `locked`, and
            domain: the same, and
            ordered: the same.

        Raises:
            RunError: as `locked` does.
        """
        _HELD.enter_context(self.locked(on_robot, domain, ordered))

    def require_order(self) -> None:
        """Look whether anything came after an episode that isn't there any more.

        Raises:
            RunError: so it is.
        """
        finished = self.finished_episodes()
        for folder in (self.episodes, self.bundles):
            for path in sorted(folder.glob("*")):
                numbered = re.fullmatch(r"(?:episode|bundle)_(\d+)", path.name)
                if numbered and int(numbered[1]) > finished:
                    raise RunError(
                        f"{self.bag(finished)}: there is no finished bag, but {path.name} came "
                        "after it; put the bag back, or delete all that followed"
                    )

    def require_player(self, on_robot: bool, begun: bool = False) -> None:
        """Nobody may learn for a robot from simulated episodes by mistake, or the reverse.

        Raises:
            RunError: the run's episodes are of the other kind.
        """
        if (begun or self.finished_episodes()) and self.on_robot.exists() != on_robot:
            played, advice = (
                ("in simulation", "leave out --no-simulator")
                if on_robot
                else ("on a robot", "go on with `hucrl up --no-simulator`")
            )
            raise RunError(f"{self.root}: was played {played}; {advice}, or start a new run")

    def _note_who_plays(self, on_robot: bool) -> None:
        self.require_player(on_robot)
        if on_robot:
            self.on_robot.touch()
        else:
            self.on_robot.unlink(missing_ok=True)

    def next_unfinished_name(self, episode: int) -> Path:
        """Where the bag of an interrupted attempt is kept: `episode_003_interrupted_1`."""
        number = max(self._attempts(episode), default=0) + 1
        return self.episodes / f"episode_{episode:03d}_interrupted_{number}"

    def interrupted(self, episode: int) -> list[Path]:
        """rosbag2 folders of the interrupted attempts at an episode, in their order.

        Once the episode is finished no other comes.
        """
        return [path for _, path in sorted(self._attempts(episode).items())]

    def _attempts(self, episode: int) -> dict[int, Path]:
        name = re.compile(rf"episode_{episode:03d}_interrupted_(\d+)")
        found = ((name.fullmatch(path.name), path) for path in self.episodes.iterdir())
        return {int(match[1]): path for match, path in found if match}


def numbered(name: str) -> tuple[int, str]:
    """Sorts names of bundles or bags by their numbers: `bundle_1000` comes after `bundle_999`."""
    return len(name), name


def _opened_by(pid: int) -> Iterator[os.stat_result]:
    """The files that a process of this user has open; of others' processes none."""
    with suppress(OSError):
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                yield opened.stat()
