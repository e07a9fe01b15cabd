"""What a robot's motors promise: how fast they stop its joints at least."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.errors import BundleError, shortened

SAME = 1e-3
"""Share by which two machines may reckon differently what motors promise."""
LEFT = 0.1
"""Share of the largest effort that is left for braking at least, see `robots.stopping`."""


class Motors(NamedTuple):
    """What a robot's efforts can do, `(q,)` each; empty where it takes no efforts.

    See `robots.stopping.Promised`.
    """

    deceleration: Sequence[float] = ()
    """The least under the largest effort [rad/s^2 or m/s^2]."""
    acceleration: Sequence[float] = ()
    """The most under it [rad/s^2 or m/s^2]."""
    speed: Sequence[float] = ()
    """Up to which both hold; empty: any [rad/s or m/s]."""

    def under(self, largest: Sequence[float], limits: Sequence[float]) -> "Motors":
        """What is promised of less effort at least, without knowing what gravity takes.

        A joint's inertia is at least that which the acceleration tells of, so so much of the
        deceleration is lost; but no more than what was left of all effort at least.

        Args:
            largest: `(q,)` efforts that this is promised of.
            limits: `(q,)` largest efforts; more than those promise no stronger brakes, but speed
                joints up by more.
        """
        ratio = np.asarray(limits, float) / np.asarray(largest, float)
        if not self.deceleration or np.all(ratio == 1.0):
            return self
        share = np.minimum(ratio, 1.0)
        most, least = np.asarray(self.acceleration), np.asarray(self.deceleration)
        left = np.maximum(least - (1.0 - share) * most, LEFT * share * least)
        slower = np.sqrt(share.min()) * np.asarray(self.speed, float)
        return Motors(tuple(left), tuple(ratio * most), tuple(slower))

    def refuse_stronger(self, known: "Motors", source: Path | str, whose: str) -> None:
        """Refuse to count on stronger brakes than those that are known.

        Args:
            known: Promised of the same efforts.
            source: Who says these, for the message.
            whose: Whose those are, for the message.

        Raises:
            BundleError: names what is said and what is known.
        """
        names = "deceleration", "acceleration", "steady_speed"
        for name, said, own in zip(names, self, known, strict=True):
            # The more an effort speeds a joint up, the sooner the rule brakes.
            sign = -1.0 if name == "acceleration" else 1.0
            if len(said) != len(own) or np.any(sign * np.subtract(said, own) > SAME * np.abs(own)):
                raise BundleError(
                    f"{source}: {name} is {shortened(said)}, {whose} {shortened(own)}"
                )


def keeping_promise(manifest: Manifest, before: Manifest) -> Manifest:
    """`manifest`, which is `before` with other settings, promising what its motors can do so."""
    found = motors_under(before, manifest.safety)
    told = {
        "deceleration": tuple(found.deceleration),
        "acceleration": tuple(found.acceleration),
        "steady_speed": tuple(found.speed),
    }
    return manifest.model_copy(update=told)


def motors_under(manifest: Manifest, safety: SafetySettings) -> Motors:
    """What a bundle promises of its robot's motors, under the settings in force."""
    motors = Motors(manifest.deceleration, manifest.acceleration, manifest.steady_speed)
    promised_of = limits_under(manifest.spec, manifest.safety)
    return motors.under(promised_of, limits_under(manifest.spec, safety))


def limits_under(spec: RobotSpec, safety: SafetySettings) -> tuple[float, ...]:
    """`(q,)` largest actions of a robot under what is in force."""
    limits = tuple(map(min, spec.effort_limits, safety.effort_limits or spec.effort_limits))
    if spec.command == "effort" or not safety.velocity_limits:
        return limits
    # A speed's way in a period, or the speed.
    share = spec.period if spec.command == "position" else 1.0
    speeds = dict(zip(spec.joint_names, safety.velocity_limits, strict=True))
    return tuple(
        min(limit, share * speeds[name])
        for name, limit in zip(spec.actuated_joints, limits, strict=True)
    )
