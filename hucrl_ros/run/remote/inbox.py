"""What the robot's side takes of a learner: the bundle that it waits for, checked as it comes."""

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from hucrl_ros.config.files import to_disk
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.controller.admission import check_robot
from hucrl_ros.controller.bundle import BUNDLE_BYTES
from hucrl_ros.controller.examiner import Examiner
from hucrl_ros.controller.manifest import MANIFEST, MANIFEST_BYTES, Manifest, read_manifest
from hucrl_ros.controller.motors import Motors, limits_under
from hucrl_ros.controller.signature import sign_for_run
from hucrl_ros.controller.trust import Trust
from hucrl_ros.errors import BundleError, HucrlError, shortened
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.remote.contract import CHECKPOINT_BYTES, CHUNK, SHARED, Missing

FREE = 2**28
"""Bytes of the disk that stay free: a bag has to fit."""
HEAR_S = 1.0
"""[s] Between two signs of life of a learner whose bundle is examined."""


class RefusedError(HucrlError):
    """A request that isn't served; says why in one line."""

    def __init__(self, status: HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


class Inbox:
    """A folder in which a bundle waits until it is complete; for the threads of a server."""

    def __init__(
        self, run: RunFolder, config: Config, described: Description, hear: Callable[[], None]
    ) -> None:
        """Begin with nothing on its way: what an earlier session left half-sent is deleted.

        Args:
            run: The run.
            config: Its settings.
            described: The complete description of its task.
            hear: Called with each piece that comes.
        """
        self._run, self._config, self._described, self._hear = run, config, described, hear
        self._lock = threading.Lock()
        self.close()
        run.incoming.mkdir(parents=True)

    def close(self) -> None:
        """Delete what is half-sent."""
        shutil.rmtree(self._run.incoming, ignore_errors=True)

    def take(
        self, index: int, path: str, size: int, sha256: str, read: Callable[[int], bytes]
    ) -> Missing:
        """Take in a file of a bundle, and return what of it is still missing.

        Args:
            index: Number of the bundle.
            path: Where it belongs in the run's folder.
            size: Its length [bytes].
            sha256: Its hash, as the sender says.
            read: Reads up to so many bytes of it.

        Raises:
            RefusedError: nobody waits for it, it is too large, or it is not what it should be.
        """
        staged = self._staged(index)
        target, limit = self._place(path, index)
        if size > limit:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"{path} has {size} bytes, more than the {limit} accepted",
            )
        if shutil.disk_usage(self._run.incoming).free < size + FREE:
            raise RefusedError(HTTPStatus.INSUFFICIENT_STORAGE, "the robot's disk is full")
        descriptor, name = tempfile.mkstemp(dir=self._run.incoming)
        try:
            with os.fdopen(descriptor, "wb") as file:
                found = self._copy(read, file, size)
            if found != sha256:
                raise RefusedError(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    f"{path}: its SHA-256 is {found[:12]}…, the sender says {sha256[:12]}…",
                )
            with self._lock:
                if target == staged / MANIFEST:
                    self._begin_bundle(index, Path(name).read_bytes())
                elif target.parent == staged:
                    self._require_listed(staged, path, found)
                Path(name).replace(target)
                return self._missing(staged)
        finally:
            Path(name).unlink(missing_ok=True)

    def finish(self, index: int) -> None:
        """Check the bundle that was sent, and let it appear.

        Raises:
            RefusedError: it isn't complete, or not what the run needs; it is deleted then.
        """
        with self._lock:
            staged = self._staged(index)
            if missing := self._missing(staged).missing:
                raise RefusedError(HTTPStatus.CONFLICT, f"still missing: {', '.join(missing)}")
            try:
                manifest = self._examined(staged)
                check_robot(staged, manifest.spec, self._described.robot.spec)
                require_ours(manifest, self._config, self._described, index)
                require_promised(manifest, self._described)
                sign_for_run(staged, self._config.control.signing_key)
            except BundleError as error:
                shutil.rmtree(staged, ignore_errors=True)
                line = str(error).replace(str(staged), staged.name)
                raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, line) from None
            weights = self._weights(index)
            kept = [weights] if weights.is_file() else []
            to_disk(*kept, *staged.iterdir())
            if kept:
                weights.replace(self._run.checkpoint(index - 1))
            staged.rename(self._run.bundle(index))

    def _examined(self, staged: Path) -> Manifest:
        """What a bundle says, tried in a process of its own: nobody here has seen it before.

        Raises:
            BundleError: it isn't what it says, or takes too much time or memory.
        """
        config = self._config
        examiner = Examiner(
            Trust(staged, ()), config.control, config.mode == "lockstep", plays=False
        )
        try:
            with ThreadPoolExecutor(1, "examiner") as thread:  # which that process ends with
                found = thread.submit(examiner.examine, staged)
                while not wait([found], HEAR_S).done:
                    self._hear()  # whoever waits for an answer is there
                return found.result()
        finally:
            examiner.close()

    def _staged(self, index: int) -> Path:
        return self._run.incoming / self._run.bundle(index).name

    def _weights(self, index: int) -> Path:
        """Weights after learning from the episode before, or, of bundle 0, from `prior/` alone."""
        return self._run.incoming / self._run.checkpoint(index - 1).name

    def _place(self, path: str, index: int) -> tuple[Path, int]:
        """Where a file waits for its bundle to be complete, and its largest size [bytes]."""
        folder, _, name = path.rpartition("/")
        staged = self._staged(index)
        if SHARED.fullmatch(path):
            if folder == f"{self._run.bundles.name}/{staged.name}":
                if name == MANIFEST:
                    return staged / name, MANIFEST_BYTES
                if name in self._listed(staged):
                    held = sum(p.stat().st_size for p in staged.iterdir() if p.name != name)
                    return staged / name, BUNDLE_BYTES - held
            learns = index > 0 or self._run.prior.is_dir()
            if learns and path == f"{self._run.checkpoints.name}/{self._weights(index).name}":
                return self._weights(index), CHECKPOINT_BYTES
        raise RefusedError(HTTPStatus.NOT_FOUND, "nobody waits for such a file")

    def _copy(self, read: Callable[[int], bytes], file: BinaryIO, size: int) -> str:
        digest = hashlib.sha256()
        while size and (chunk := read(min(size, CHUNK))):
            file.write(chunk)
            digest.update(chunk)
            size -= len(chunk)
            self._hear()
        if size:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"{size} bytes of a file didn't come")
        return digest.hexdigest()

    def _begin_bundle(self, index: int, content: bytes) -> None:
        """Keep what came of the bundle already only where its manifest is the same."""
        staged = self._staged(index)
        if staged.is_dir() and (staged / MANIFEST).read_bytes() == content:
            return
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir()
        try:
            (staged / MANIFEST).write_bytes(content)
            require_ours(read_manifest(staged), self._config, self._described, index)
        except OSError:  # or nothing could begin anew here
            shutil.rmtree(staged, ignore_errors=True)
            raise
        except BundleError as error:
            shutil.rmtree(staged)
            line = str(error).replace(str(staged), staged.name)
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, line) from None

    def _listed(self, staged: Path) -> Mapping[str, str]:
        """Names and hashes of the bundle's files; none before its manifest has come."""
        return read_manifest(staged).files if (staged / MANIFEST).is_file() else {}

    def _require_listed(self, staged: Path, path: str, found: str) -> None:
        listed = self._listed(staged).get(path.rpartition("/")[2])
        if found != listed:
            raise RefusedError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"{path}: its SHA-256 is {found[:12]}…, the manifest says {str(listed)[:12]}…",
            )

    def _missing(self, staged: Path) -> Missing:
        listed = self._listed(staged) or [MANIFEST]
        return Missing(missing=tuple(n for n in listed if not (staged / n).is_file()))


def require_ours(manifest: Manifest, config: Config, described: Description, index: int) -> None:
    """A bundle from elsewhere must be for this episode of this run, with the run's own settings.

    And with the constraints of the run's own description, by their words: without them nothing
    would look ahead for the robot.

    Raises:
        BundleError: names what differs.
    """
    random = index < config.exploration.random_episodes
    for name, ours in {
        "episode": index,
        "task": config.task,
        "steps": described.robot.steps,
        "action_penalty": config.action_penalty,
        # One that flies again was perhaps learned under another strategy that was wished for.
        "strategy": config.strategy if manifest.repeats is None else manifest.strategy,
        "seed": config.seed,
        "random": random,
        "random_share": config.exploration.random_share,
        "random_bandwidth": config.exploration.random_bandwidth,
        "planner": config.planner,
        "safety": config.safety,
        "driver": config.driver,
    }.items():
        theirs = getattr(manifest, name)
        if theirs != ours:
            raise BundleError(
                f"bundle {index}: {name} is {shortened(theirs)}, the run's is {shortened(ours)}"
            )
    for limit in described.constraint_names:
        if limit not in manifest.constraints:
            raise BundleError(
                f"bundle {index}: no constraint {shortened(repr(limit))}, which the run has"
            )


def require_promised(manifest: Manifest, described: Description) -> None:
    """A bundle from elsewhere may count on no stronger brakes than the robot's own model promises.

    By these the braking rule lets efforts through; a bundle that says nothing has no such rule.
    Needs MuJoCo.

    Raises:
        BundleError: names what is said and what is promised.
    """
    if not described.constraints:
        return
    from hucrl_ros.robots.mujoco_robot import MujocoRobot
    from hucrl_ros.robots.stopping import promised

    ours = promised(MujocoRobot(described), limits_under(described.robot.spec, manifest.safety))
    said = Motors(manifest.deceleration, manifest.acceleration, manifest.steady_speed)
    said.refuse_stronger(Motors(*ours), f"bundle {manifest.episode}", "the robot's model promises")
