"""Rollouts in plain numpy, a step at a time: what the other engines are measured against."""

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.controller.engines.networks import Dense, Networks, Process
from hucrl_ros.controller.engines.program import LEAST_VARIANCE, ROUNDS, TINY
from hucrl_ros.planners import Rollouts
from hucrl_ros.planners.base import Array


class NumpyEngine:
    """The rollout of `planners.Imagine`, written as one would first write it.

    Rewards come from `score.onnx`, as for the compiled engine.
    """

    def __init__(self, networks: Networks, score: onnxruntime.InferenceSession) -> None:
        self._networks = networks
        self._score = score
        self.state: Array = np.zeros(0, np.float32)

    def set_state(self, state: NDArray[np.float64]) -> None:
        """Start of the rollouts from now on: `(p,)`."""
        self.state = state.astype(np.float32)

    def __call__(self, offsets: Array, noise: Array, feedback: float) -> Rollouts:
        """Roll out; see `planners.Imagine`."""
        states = [np.tile(self.state, (len(offsets), 1))]
        actions = []
        for t in range(offsets.shape[1]):
            features = self._features(states[-1])
            applied = offsets[:, t]
            if feedback:
                applied = applied + np.float32(feedback) * self._policies(features)
            applied = np.clip(applied, -1.0, 1.0)
            actions.append(applied)
            states.append(self._step(states[-1], applied, noise[t]))
        every_state, every_action = np.stack(states, axis=1), np.stack(actions, axis=1)
        inputs = {"states": every_state, "actions": every_action}
        return Rollouts(self._score.run(None, inputs)[0], every_state, every_action)

    def _entries(self, state: Array) -> Array:
        angles = list(self._networks.angles)
        others = [i for i in range(state.shape[1]) if i not in angles]
        rest = state[:, others] / self._networks.constants["scales"]
        return np.concatenate([np.cos(state[:, angles]), np.sin(state[:, angles]), rest], axis=1)

    def _features(self, state: Array) -> Array:
        places = state[:, : self._networks.joints]
        vectors = self._vectors(places, state, self._networks.geometry["vectors"])
        return np.concatenate([self._entries(state), vectors], axis=1)

    def _ahead(self, state: Array) -> Array:
        """What the model sees of stops and points."""
        joints, geometry = self._networks.joints, self._networks.geometry
        ahead = state[:, :joints] + self._networks.period * state[:, joints : 2 * joints]
        stops = geometry["stops"]
        stopped, near = stops[:, 0].astype(int), geometry["units"][0]
        lower, upper = np.full((2, joints), ((-np.inf,), (np.inf,)))
        lower[stopped], upper[stopped] = stops[:, 1], stops[:, 2]
        above, below = ahead - lower, upper - ahead
        ramps = [np.maximum(1.0 - room[:, stopped] / near, 0.0) for room in (above, below)]
        moving = geometry["vectors"][:, 2] < len(self._networks.constants["target_mean"])
        held = np.clip(ahead, lower, upper)
        vectors = self._vectors(held, state, geometry["vectors"][moving])
        touched = self._touched(held, state)
        return np.asarray(np.concatenate([*ramps, vectors, touched], axis=1), np.float32)

    def _touched(self, places: Array, state: Array) -> Array:
        """The contact of links with the object, `(N, 3)` or `(N, 0)`."""
        if not len(self._networks.geometry["object"]):
            return state[:, :0]
        (*entries, radius, half, near, flattest) = self._networks.geometry["object"][0]
        sites = [site - state[:, np.array(entries, int)] for site in self._sites(places)]
        pushed = np.zeros((len(state), 3), np.float32)

        def mark(point: Array) -> Array:
            distance = np.sqrt((point[:, :2] ** 2).sum(axis=1) + TINY**2)
            inward = np.minimum(np.float32(radius) / distance, np.float32(1.0))
            up = np.clip(point[:, 2:], -half, half)
            return np.asarray(np.concatenate([inward[:, None] * point[:, :2], up], axis=1))

        for a, b, reach in self._networks.geometry["touches"]:
            first, line = sites[int(a)], sites[int(b)] - sites[int(a)]
            squared = np.maximum((line**2).sum(axis=1), TINY**2)
            share = np.full(len(state), 0.5, np.float32)

            def slope_at(share: Array, first: Array = first, line: Array = line) -> Array:
                point = first + share[:, None] * line
                way = point - mark(point)
                inside = (way == 0.0).all(axis=1)
                way[inside, :2] = point[inside, :2]
                return np.asarray((way * line).sum(axis=1))

            width = np.float32(0.5)
            for _ in range(ROUNDS):
                width *= np.float32(0.5)
                share -= width * np.sign(slope_at(share))
            before, after = slope_at(share - width), slope_at(share + width)
            rising = after > before
            rise = np.where(rising, after - before, np.float32(1.0))
            share -= np.where(rising, width * (after + before) / rise, np.float32(0.0))
            share = np.clip(share, 0.0, 1.0)
            nearest = mark(first + share[:, None] * line)
            share = np.clip(((nearest - first) * line).sum(axis=1) / squared, 0.0, 1.0)
            nearest = first + share[:, None] * line
            distance = np.sqrt((nearest[:, :2] ** 2).sum(axis=1) + TINY**2)
            above = np.maximum(np.abs(nearest[:, 2]) - half, 0.0)
            outside = np.maximum(distance - radius, 0.0)
            corner = np.sqrt(outside**2 + above**2 + TINY**2)
            level = above <= 0.0
            gap = np.where(level, distance - radius, corner) - reach
            slope = np.where(level, 1.0, outside / corner)
            rise = np.where(level, 0.0, -np.sign(nearest[:, 2]) * above / corner)
            ramp = np.maximum(1.0 - gap / near, 0.0)
            sideways = ramp * slope
            if flattest:
                ramp_level = np.maximum(1.0 - gap / (near * np.maximum(slope, flattest)), 0.0)
                sideways = ramp_level * np.minimum(slope / flattest, 1.0)
            flat = (-sideways / distance)[:, None] * nearest[:, :2]
            pushed += np.concatenate([flat, (ramp * rise)[:, None]], axis=1)
        return pushed

    def _sites(self, places: Array) -> list[Array]:
        """World coordinates `(N, 3)` of each site."""
        geometry = self._networks.geometry
        sites = [np.tile(tip, (len(places), 1)) for tip in geometry["tips"]]
        for link in geometry["links"]:
            site, joint, slides, axis = int(link[0]), int(link[1]), link[2], link[3:6]
            transform = link[6:].reshape(3, 4)
            point, place = sites[site], places[:, joint, None]
            if slides:
                point = point + place * axis
            else:
                along = (point @ axis)[:, None] * axis * (1.0 - np.cos(place))
                point = point * np.cos(place) + np.cross(axis, point) * np.sin(place) + along
            sites[site] = point @ transform[:, :3].T + transform[:, 3]
        return sites

    def _vectors(self, places: Array, state: Array, vectors: Array) -> Array:
        geometry, sites = self._networks.geometry, self._sites(places)
        columns = [
            (sites[int(site)][:, int(axis)] - state[:, int(entry)]) / geometry["units"][1]
            for site, axis, entry in vectors
        ]
        return np.asarray(np.stack(columns, axis=1) if columns else state[:, :0], np.float32)

    def _policies(self, features: Array) -> Array:
        networks = [self._networks.policy, self._networks.hallucination]
        outputs = [np.tanh(_network(layers, features, "silu")) for layers in networks if layers]
        return np.concatenate(outputs, axis=1)

    def _step(self, state: Array, applied: Array, noise: Array) -> Array:
        constants = self._networks.constants
        predicted, actions = len(constants["target_mean"]), len(constants["limits"])
        efforts = applied[:, :actions] * constants["limits"]
        entries = self._entries(state)
        known = entries[:, : entries.shape[1] - (state.shape[1] - predicted)]
        inputs = np.concatenate([known, self._ahead(state), efforts], axis=1)
        inputs = (inputs - constants["input_mean"]) / constants["input_std"]
        if self._networks.process is not None:
            every = _conditioned(self._networks.process, inputs)
            return self._following(state, applied, noise, every[0], every[1])
        outputs = [
            _network(
                [Dense(w[head], b[head]) for w, b in self._networks.model], inputs, self._inner
            )
            for head in range(len(constants["choice"]))
        ]
        every = np.stack(outputs)
        means, raw = every[..., :predicted], every[..., predicted:]
        return self._following(state, applied, noise, means, np.logaddexp(raw, 0))

    def _following(
        self, state: Array, applied: Array, noise: Array, means: Array, noisy: Array
    ) -> Array:
        """The next state from each head's mean and noise `(heads, N, m)`."""
        constants = self._networks.constants
        predicted, actions = len(constants["target_mean"]), len(constants["limits"])
        variances = (constants["min_aleatoric"] + noisy) ** 2
        aleatoric = np.tensordot(constants["choice"], variances, axes=1)
        epistemic = means.var(axis=0) * constants["epistemic_scale"] ** 2
        chosen, noisy = epistemic, aleatoric + constants["unchosen"] * epistemic
        if constants["total"] and self._networks.hallucination:
            chosen, noisy = epistemic + aleatoric, np.zeros_like(aleatoric)
        away = np.tensordot(constants["choice"], means, axes=1) - means.mean(axis=0)
        change = means.mean(axis=0) + constants["epistemic_scale"] * away
        if self._networks.hallucination:
            change += constants["beta"] * np.sqrt(chosen) * applied[:, actions:]
        change += np.sqrt(noisy) * noise
        following = state.copy()
        joints = self._networks.joints
        following[:, :joints] += constants["coast"] * state[:, joints : 2 * joints]
        following[:, :predicted] += constants["target_mean"] + change * constants["target_std"]
        following[:, :predicted] = np.clip(following[:, :predicted], *constants["reach"])
        return following

    @property
    def _inner(self) -> str:
        return self._networks.activation


def _conditioned(process: Process, inputs: Array) -> tuple[Array, Array]:
    """Heads one deviation above and below the mean of a Gaussian process, and their noise."""
    means, away = [], []
    for output, scales in enumerate(process.lengthscales):
        apart = (inputs[:, None] - process.points) / scales
        covariance = np.exp(-0.5 * (apart**2).sum(axis=-1))
        explained = ((covariance @ process.whitener[output].T) ** 2).sum(axis=-1)
        means.append(covariance @ process.weights[output])
        away.append(np.sqrt(np.maximum(1.0 - explained, LEAST_VARIANCE)))
    mean, deviation = np.stack(means, axis=-1), np.stack(away, axis=-1)
    heads = np.stack([mean + deviation, mean - deviation])
    return heads, np.broadcast_to(process.noise, heads.shape)


def _network(layers: list[Dense], x: Array, activation: str) -> Array:
    for index, (weights, biases) in enumerate(layers):
        x = x @ weights + biases
        if index < len(layers) - 1:
            if activation == "silu":
                x = np.asarray(x / (1.0 + np.exp(-x)), np.float32)
            elif activation == "tanh":
                x = np.asarray(np.tanh(x), np.float32)
            else:
                x = np.maximum(x, 0.0)
    return x
