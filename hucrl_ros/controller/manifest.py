"""`manifest.yaml`: what a bundle is, for which robot, and how it was learned."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from hucrl_ros.config.files import checked
from hucrl_ros.config.regular_files import read_regular
from hucrl_ros.config.robot import LONGEST_PERIOD, SHORTEST_PERIOD, Command, RobotSpec
from hucrl_ros.config.schema import (
    ActionPenalty,
    Beta,
    Discount,
    DriverSettings,
    Limit,
    PlannerSettings,
    RandomBandwidth,
    RandomShare,
    SafetySettings,
    Seed,
    Settings,
    Steps,
    StrategyName,
)
from hucrl_ros.config.yaml_reader import parse_mapping
from hucrl_ros.errors import BundleError, quoted, shortened

SCHEMA_VERSION = 3
"""Since 3 joints go on at their velocities; older programs would let them stand."""
READABLE = (2, SCHEMA_VERSION)
MANIFEST = "manifest.yaml"
SIGNATURE = "signature.json"
PLAIN_NAME = re.compile(r"\w[\w.-]{,99}")
MANIFEST_BYTES = 2**17
"""Largest `manifest.yaml`; to read as much takes half a second already."""
LARGEST_VALUE = 1e30
"""Of what becomes a float32."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{quoted(text)} has letters that can't be shown")
    return text


Name = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
Words = Annotated[str, Field(max_length=2000), AfterValidator(_printable)]
Names = Annotated[tuple[Name, ...], Field(max_length=200)]
Positive = Annotated[float, Field(gt=0, le=LARGEST_VALUE)]
Value = Annotated[float, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]
Count = Annotated[int, Field(ge=0, lt=2**31)]


class LearningReport(Settings):
    """How learning went; a field is None where there was nothing to learn from."""

    model_config = ConfigDict(populate_by_name=True)

    model_error: float | None = None
    """Root mean squared error on held-out transitions [standard deviations of the targets]."""
    nll: float | None = None
    """Mean negative log-likelihood of a held-out transition."""
    coverage: float | None = None
    """Share of held-out changes of state within two predicted standard deviations [1]."""
    calibration_error: float | None = None
    """Mean |claimed − observed| coverage of held-out changes by intervals of 5% to 95% [1]."""
    uncalibrated_coverage: float | None = None
    """Coverage before recalibration."""
    uncalibrated_error: float | None = None
    """Calibration error before recalibration."""
    epistemic_scale: float | None = None
    """Mean factor on the epistemic deviation from recalibration [1]."""
    surprise: float | None = None
    """Like `model_error`, of the whole last episode under the model from before it."""
    complexity: float | None = None
    """Σ‖σ‖² of the last episode under the model that played it [units of the state, squared]."""
    information_gain: float | None = None
    """I(y; f) of the transitions, for a model with a prior [nats]."""
    predicted_return: float | None = Field(None, alias="promised_return")
    """Return of the imagined episode, not discounted, bonus included; for `opax` nats."""
    judged_return: float | None = None
    """Mean return in episodes imagined by models that the bundle wasn't made with."""
    judged_misses: Count = 0
    """Of these episodes, those that didn't end in the task's success [1]."""
    fit_s: float | None = None
    """Duration of the model's fit [s]."""
    search_s: float | None = None
    """Duration of the policy search [s]."""
    refused: Count = 0
    """Gradient steps of the search that were refused, and imagined trajectories that were left
    out, because something in them was not finite [1]."""


class BundleFields(Settings):
    """What the learner says of a bundle; the exporter knows the rest."""

    strategy: StrategyName
    """Exploration strategy."""
    model: Name = ""
    """Kind of dynamics model; empty: the bundle's version didn't say."""
    seed: Seed
    """Seed of the run."""
    episode: Count
    """Episode that the bundle plays."""
    repeats: Count | None = None
    """Episode that the bundle was made for, where a later one plays it again."""
    random: bool
    """Play random efforts: the networks are untrained."""
    random_share: RandomShare = 1.0
    """Largest of these efforts [shares of the effort limit]."""
    random_bandwidth: RandomBandwidth = 0.0
    """Bandwidth of these efforts; 0: uniform ones, new in each control period [Hz]."""
    beta: Beta
    """Scale of the hallucinated action [1]."""
    planner: PlannerSettings
    """Planning in the control tick."""
    safety: SafetySettings
    """What the guard lets through."""
    driver: DriverSettings = DriverSettings()
    """What the robot's driver tells."""
    report: LearningReport = LearningReport()
    """How learning went."""
    data_hash: Name
    """SHA-256 over the episodes learned from, or empty."""
    versions: dict[Name, Name] = Field(max_length=100)
    """Versions of the libraries that made the bundle."""
    revision: Name
    """Revision of the code that made the bundle, or its version."""
    parity_tolerance: float = Field(1e-3, gt=0, le=0.1)
    """Largest |onnx − torch| / (1 + |torch|) allowed [1]. float32 rounds at 1e-7, which a
    rollout of an unstable robot amplifies; forgotten weights show as 1e-2 and more."""


class Manifest(BundleFields):
    """All of `manifest.yaml`."""

    schema_version: int
    """Version of this schema."""
    task: Name
    """Name of the task."""
    action_penalty: ActionPenalty
    """ρ, weight of the action's cost in the reward [1]."""
    discount: Discount
    """γ, for one control period [1]."""
    steps: Steps
    """Control periods in an episode [1]."""
    robot: Name
    """Name of the robot."""
    joint_names: Names = Field(min_length=1)
    """Joints of the state: positions in this order, then velocities in this order."""
    observed: Names = ()
    """Entries of the state after them that move as well, e.g. `object_x`."""
    context: Names = ()
    """Last entries of the state, which stay as they are for an episode, e.g. `goal_x`."""
    actuated_joints: Names = Field(min_length=1)
    """Joints of the action."""
    effort_limits: tuple[Limit, ...]
    """Largest absolute action of each actuated joint [N m or N; rad/s or m/s; rad or m]."""
    command: Command = "effort"
    """What the robot's driver takes; of positions an action is the way from the joint's."""
    deceleration: tuple[Positive, ...] = ()
    """That the largest effort promises at least, of each actuated joint; none where there are no
    constraints, or commands are no efforts [rad/s^2 or m/s^2]."""
    acceleration: tuple[Positive, ...] = ()
    """The same at most [rad/s^2 or m/s^2]."""
    steady_speed: tuple[Positive, ...] = ()
    """Up to which both hold; none: at any [rad/s or m/s]."""
    period: float = Field(ge=SHORTEST_PERIOD, le=LONGEST_PERIOD)
    """Control period [s]."""
    angles: tuple[int, ...]
    """Entries of the state that are angles."""
    reach: tuple[Value | tuple[Value, Value] | None, ...]
    """How far each predicted entry is imagined [its unit]: largest absolute value, or least and
    largest value; None: any."""
    hallucination_dim: int = Field(ge=0)
    """Length h of the hallucinated action: m, or 0 for a strategy without one."""
    target_std: tuple[Value, ...]
    """Standard deviation of the model's targets, of each predicted entry [its unit]."""
    constraints: tuple[Words, ...] = Field((), max_length=200)
    """What must never happen, in words, in the order of `constraints.onnx`; none: there is no such
    graph."""
    files: dict[str, Name] = Field(max_length=50)
    """SHA-256 of every other file in the folder."""
    _digest: str = ""

    @model_validator(mode="after")
    def _lengths_fit(self) -> "Manifest":
        for name, length in (
            ("effort_limits", self.spec.action_dim),
            ("target_std", self.spec.predicted_dim),
            ("reach", self.spec.predicted_dim),
        ):
            if len(getattr(self, name)) != length:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, not {length}")
        for name in ("deceleration", "acceleration", "steady_speed"):
            if len(getattr(self, name)) not in (0, self.spec.action_dim):
                raise ValueError(f"{name} has {len(getattr(self, name))} entries")
        if bool(self.deceleration) != bool(self.acceleration):
            raise ValueError("deceleration and acceleration: one is missing")
        for name in ("joint_names", "actuated_joints"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} has a name twice")
        for joint in self.actuated_joints:
            if joint not in self.joint_names:
                raise ValueError(f"actuated_joints has {joint!r}, which joint_names lacks")
        known = set(self.angles) <= set(range(self.spec.predicted_dim))
        if not known or len(set(self.angles)) < len(self.angles):
            raise ValueError(f"angles are {self.angles} of {self.spec.predicted_dim} entries")
        if self.hallucination_dim not in (0, self.spec.predicted_dim):
            raise ValueError(
                f"hallucination_dim is {self.hallucination_dim}, "
                f"not 0 or {self.spec.predicted_dim}"
            )
        return self

    @field_validator("files")
    @classmethod
    def _plain_names(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            if not PLAIN_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a plain file name")
            if name in (MANIFEST, SIGNATURE):  # it would be another one once it is signed
                raise ValueError(f"{name!r} can't be listed, as it changes with the list")
        return files

    @property
    def digest(self) -> str:
        """SHA-256 of the file that it was read from, until settings are replaced."""
        return self._digest

    def read_from(self, digest: str) -> "Manifest":
        """The same, read from bytes with this SHA-256."""
        self._digest = digest
        return self

    @property
    def spec(self) -> RobotSpec:
        """The robot it was made for."""
        return RobotSpec(
            name=self.robot,
            joint_names=self.joint_names,
            actuated_joints=self.actuated_joints,
            effort_limits=self.effort_limits,
            period=self.period,
            observed=self.observed,
            context=self.context,
            command=self.command,
        )

    @property
    def bounds(self) -> NDArray[np.float32]:
        """`reach` as least and largest values `(2, m)`, infinite where there are none."""
        largest = [np.inf if x is None else x for x in self.reach]
        pairs = [x if isinstance(x, tuple) else (-x, x) for x in largest]
        return np.array(pairs, np.float32).T.copy()

    @property
    def width(self) -> int:
        """Length q + h of what is planned: efforts and hallucinated actions."""
        return len(self.actuated_joints) + self.hallucination_dim


def dump_manifest(manifest: Manifest) -> str:
    """The YAML that `read_manifest` reads back to an equal manifest."""
    return yaml.safe_dump(manifest.model_dump(mode="json", by_alias=True), sort_keys=False)


def manifest_bytes(folder: Path) -> bytes:
    """What `manifest.yaml` holds.

    Raises:
        BundleError: there is none, or it is no ordinary file.
    """
    path = folder / MANIFEST
    try:
        if not folder.is_dir():
            raise BundleError(f"{shortened(folder)}: not a bundle: no such folder")
        path.lstat()
    except FileNotFoundError:
        raise BundleError(
            f"{shortened(folder)}: not a bundle: it has no {MANIFEST}; those of a run are in its "
            "folder bundles/"
        ) from None
    except OSError as error:
        raise BundleError(f"{shortened(folder)}: {error.strerror}") from None
    return read_regular(path, MANIFEST_BYTES, BundleError, f"{shortened(folder)}: {MANIFEST}")


def read_manifest(folder: Path, approve: Callable[[Path, bytes], None] | None = None) -> Manifest:
    """Read and check `manifest.yaml` alone, not the files that it lists.

    Args:
        folder: The bundle.
        approve: Called with the folder and the file's bytes before anything in them is looked at;
            raises what the bundle is refused for.

    Raises:
        BundleError: it is missing, isn't YAML, has another schema version, or doesn't fit.
    """
    content = manifest_bytes(folder)
    if approve is not None:
        approve(folder, content)
    path = folder / MANIFEST
    document = parse_mapping(content, path, BundleError)
    version = document.get("schema_version")
    if version not in READABLE:
        found = shortened(repr(version))
        raise BundleError(
            f"{shortened(path)}: schema_version is {found}; this program reads "
            + " and ".join(map(str, READABLE))
        )
    manifest = checked(Manifest, document, path, BundleError)
    return manifest.read_from(hashlib.sha256(content).hexdigest())
