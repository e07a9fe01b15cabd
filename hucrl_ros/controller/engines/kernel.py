"""The planning kernel: rollouts of small networks, compiled when it is first used.

numba keeps the compiled code on disk, so that takes some seconds once on a machine. It is one file
because numba compiles a kept function anew when its own file changes, not when another one does.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from hucrl_ros.controller.engines.networks import Floats
from hucrl_ros.controller.engines.program import (
    FOURIER,
    LEAST_VARIANCE,
    NONE,
    RELU,
    ROUNDS,
    SILU,
    TANH,
    TINY,
    Program,
    Scratch,
)
from hucrl_ros.controller.engines.simd import (
    BLOCK,
    PAIR,
    ROW_BYTES,
    VECTOR,
    bell,
    dense_block_1,
    dense_block_2,
    dense_pair_1,
    dense_pair_2,
    distance_block,
    double_block,
    relu,
    silu,
    softplus,
    tanh,
    waves,
)


@njit(nogil=True, error_model="numpy")
def _layer(
    x: int, weights: int, biases: int, y: int, inputs: int, outputs: int, vectors: int
) -> None:
    row = 0
    while row < outputs:
        w, b, out = weights + 4 * row * inputs, biases + 4 * row, y + row * ROW_BYTES
        if outputs + outputs % PAIR - row >= BLOCK:
            if vectors == 2:
                dense_block_2(x, w, b, out, inputs)
            else:
                dense_block_1(x, w, b, out, inputs)
            row += BLOCK
        else:
            if vectors == 2:
                dense_pair_2(x, w, b, out, inputs)
            else:
                dense_pair_1(x, w, b, out, inputs)
            row += PAIR


@njit(nogil=True, error_model="numpy")
def _activate(y: int, rows: int, vectors: int, activation: int) -> None:
    for row in range(rows):
        for v in range(vectors):
            at = y + row * ROW_BYTES + 4 * VECTOR * v
            if activation == SILU:
                silu(at)
            elif activation == TANH:
                tanh(at)
            elif activation == RELU:
                relu(at)
            elif activation == FOURIER:
                waves(at, at + rows * ROW_BYTES)


@njit(nogil=True, error_model="numpy")
def _network(
    program: Program, first: int, count: int, x: int, hidden: Floats, vectors: int
) -> int:
    """Run `count` layers on the rows at address `x`; returns the half of `hidden` filled last."""
    base = program.weights.ctypes.data
    side = 0
    for index in range(first, first + count):
        weights, biases, inputs, outputs, activation = program.layers[index]
        y = hidden[side].ctypes.data
        _layer(x, base + 4 * weights, base + 4 * biases, y, inputs, outputs, vectors)
        if activation != NONE:
            _activate(y, outputs, vectors, activation)
        x, side = y, 1 - side
    return 1 - side


@njit(nogil=True, error_model="numpy")
def _locate(program: Program, scratch: Scratch, count: int, lanes: int) -> None:
    """The first sites into `sites`, with the joints at `joints[0]`; see `tasks.kinematics`."""
    joints, sites = scratch.joints, scratch.sites
    for joint in range(joints.shape[1]):
        for lane in range(lanes):
            joints[1, joint, lane] = math.cos(joints[0, joint, lane])
            joints[2, joint, lane] = math.sin(joints[0, joint, lane])
    for site in range(count):
        for axis in range(3):
            for lane in range(lanes):
                sites[3 * site + axis, lane] = program.tips[site, axis]
    for row in range(len(program.links)):
        site, joint, slides = program.links[row]
        if site >= count:
            break
        (ax, ay, az), frame = program.placements[row, 0], program.placements[row, 1:]
        for lane in range(lanes):
            x, y, z = sites[3 * site, lane], sites[3 * site + 1, lane], sites[3 * site + 2, lane]
            if slides:
                way = joints[0, joint, lane]
                x, y, z = x + way * ax, y + way * ay, z + way * az
            else:  # Rodrigues' rotation
                cosine, sine = joints[1, joint, lane], joints[2, joint, lane]
                along = (np.float32(1.0) - cosine) * (ax * x + ay * y + az * z)
                x, y, z = (
                    x * cosine + (ay * z - az * y) * sine + along * ax,
                    y * cosine + (az * x - ax * z) * sine + along * ay,
                    z * cosine + (ax * y - ay * x) * sine + along * az,
                )
            for axis in range(3):
                sites[3 * site + axis, lane] = (
                    frame[axis, 0] * x + frame[axis, 1] * y + frame[axis, 2] * z + frame[3, axis]
                )


@njit(nogil=True, error_model="numpy")
def _vector(program: Program, scratch: Scratch, vector: int, lane: int) -> np.float32:
    """From an entry of the state to a coordinate of a site."""
    site, axis, entry = program.vectors[vector]
    away = scratch.sites[3 * site + axis, lane] - scratch.state[entry, lane]
    return np.float32(away / program.vector_unit)


@njit(nogil=True, error_model="numpy")
def _see(program: Program, scratch: Scratch, vectors: int) -> None:
    """The features of `state` into `features`."""
    state, features = scratch.state, scratch.features
    lanes, angles = vectors * VECTOR, len(program.angles)
    for i in range(angles):
        for lane in range(lanes):
            angle = state[program.angles[i], lane]
            features[i, lane] = math.cos(angle)
            features[angles + i, lane] = math.sin(angle)
    for i in range(len(program.others)):
        for lane in range(lanes):
            features[2 * angles + i, lane] = state[program.others[i], lane] / program.scales[i]
    if len(program.vectors):
        for joint in range(len(program.lower)):
            for lane in range(lanes):
                scratch.joints[0, joint, lane] = state[joint, lane]
        _locate(program, scratch, program.seen_sites, lanes)
        first = 2 * angles + len(program.others)
        for i in range(len(program.vectors)):
            for lane in range(lanes):
                features[first + i, lane] = _vector(program, scratch, i, lane)


@njit(nogil=True, error_model="numpy", inline="always")
def _slope(
    at: tuple[Any, Any, Any], line: tuple[Any, Any, Any], radius: float, half: float
) -> "np.floating[Any]":
    """Slope of half the squared distance to an object along a line; see `tasks.contact`."""
    x, y, z = at
    one, tiny = np.float32(1.0), np.float32(TINY * TINY)
    inward = min(radius / np.sqrt(x * x + y * y + tiny), one)
    rest = z - min(max(z, -half), half)
    out = one if inward == one and rest == np.float32(0.0) else one - inward
    return out * (x * line[0] + y * line[1]) + rest * line[2]


@njit(nogil=True, error_model="numpy")
def _touch(program: Program, scratch: Scratch, row: int, lane: int) -> None:
    """The contact with the object into three rows of `inputs`; see `tasks.contact`."""
    sites, inputs = scratch.sites, scratch.inputs
    radius, half, near, flattest = program.shape
    zero, one, tiny = np.float32(0.0), np.float32(1.0), np.float32(TINY * TINY)
    ox, oy, oz = (
        scratch.state[program.pushed[0], lane],
        scratch.state[program.pushed[1], lane],
        scratch.state[program.pushed[2], lane],
    )
    for axis in range(3):
        inputs[row + axis, lane] = zero
    for link in range(len(program.touches)):
        a, b = 3 * program.touches[link, 0], 3 * program.touches[link, 1]
        # From here on seen from the object's centre.
        ax, ay, az = sites[a, lane] - ox, sites[a + 1, lane] - oy, sites[a + 2, lane] - oz
        dx, dy, dz = (
            sites[b, lane] - ox - ax,
            sites[b + 1, lane] - oy - ay,
            sites[b + 2, lane] - oz - az,
        )
        squared = max(dx * dx + dy * dy + dz * dz, tiny)
        # Of most links all points are too far away.
        share = min(max(-(ax * dx + ay * dy + az * dz) / squared, zero), one)
        x, y, z = ax + share * dx, ay + share * dy, az + share * dz
        farthest = np.sqrt(radius * radius + half * half) + program.reach_of[link] + near
        if x * x + y * y + z * z > farthest * farthest:
            continue
        share = width = np.float32(0.5)
        for _ in range(ROUNDS):
            width *= np.float32(0.5)
            at = ax + share * dx, ay + share * dy, az + share * dz
            share -= width * np.sign(_slope(at, (dx, dy, dz), radius, half))
        low, high = share - width, share + width
        at = ax + low * dx, ay + low * dy, az + low * dz
        before = _slope(at, (dx, dy, dz), radius, half)
        at = ax + high * dx, ay + high * dy, az + high * dz
        after = _slope(at, (dx, dy, dz), radius, half)
        if after > before:
            share -= width * (after + before) / (after - before)
        share = min(max(share, zero), one)
        x, y, z = ax + share * dx, ay + share * dy, az + share * dz
        inward = min(radius / np.sqrt(x * x + y * y + tiny), one)
        mx, my, mz = inward * x, inward * y, min(max(z, -half), half)
        share = ((mx - ax) * dx + (my - ay) * dy + (mz - az) * dz) / squared
        share = min(max(share, zero), one)
        x, y, z = ax + share * dx, ay + share * dy, az + share * dz
        distance = np.sqrt(x * x + y * y + tiny)
        beside = distance - radius
        above, outside = max(abs(z) - half, zero), max(beside, zero)
        gap, slope, rise = beside, one, zero
        if above > zero:
            gap = np.sqrt(outside * outside + above * above + tiny)
            slope = outside / gap
            rise = above / gap if z < zero else -above / gap
        gap -= program.reach_of[link]
        ramp = max(one - gap / near, zero)
        sideways = ramp * slope
        if flattest > zero:
            level = max(one - gap / (near * max(slope, flattest)), zero)
            sideways = level * min(slope / flattest, one)
        inputs[row, lane] -= sideways * x / distance
        inputs[row + 1, lane] -= sideways * y / distance
        inputs[row + 2, lane] += ramp * rise


@njit(nogil=True, error_model="numpy")
def _look_ahead(program: Program, scratch: Scratch, row: int, vectors: int) -> int:
    """What the model sees besides into `inputs` from `row` on; returns the row behind it.

    They are taken where the joints would be after a period at their present speeds.
    """
    ahead, inputs, lanes = scratch.joints[0], scratch.inputs, vectors * VECTOR
    joints, stopped = len(program.lower), len(program.stopped)
    for joint in range(joints):
        for lane in range(lanes):
            speed = scratch.state[joints + joint, lane]
            ahead[joint, lane] = scratch.state[joint, lane] + program.period * speed
    for i in range(stopped):
        joint = program.stopped[i]
        for lane in range(lanes):
            above = (ahead[joint, lane] - program.lower[joint]) / program.near_stop
            below = (program.upper[joint] - ahead[joint, lane]) / program.near_stop
            inputs[row + i, lane] = max(np.float32(1.0) - above, np.float32(0.0))
            inputs[row + stopped + i, lane] = max(np.float32(1.0) - below, np.float32(0.0))
    row += 2 * stopped
    if not len(program.moving) and not len(program.pushed):
        return row
    for joint in range(joints):
        for lane in range(lanes):
            held = max(ahead[joint, lane], program.lower[joint])
            ahead[joint, lane] = min(held, program.upper[joint])
    _locate(program, scratch, len(program.tips), lanes)
    for vector in program.moving:
        for lane in range(lanes):
            inputs[row, lane] = _vector(program, scratch, vector, lane)
        row += 1
    if len(program.pushed):
        for lane in range(lanes):
            _touch(program, scratch, row, lane)
        row += 3
    return row


@njit(nogil=True, error_model="numpy")
def _act(
    program: Program,
    scratch: Scratch,
    offsets: Floats,
    actions: Floats,
    feedback: float,
    first: int,
    count: int,
    t: int,
    vectors: int,
) -> None:
    """clip(feedback · (π, η) + offsets, −1, 1) into `applied`; fills `features`, `inputs` too.

    Actions are no further than `rate` from those of the step before, which are in `actions`.
    """
    _see(program, scratch, vectors)
    features, applied = scratch.features, scratch.applied
    lanes, width = vectors * VECTOR, offsets.shape[2]
    for d in range(width):
        for lane in range(lanes):
            applied[d, lane] = offsets[first + lane, t, d] if lane < count else np.float32(0.0)
    if feedback != 0.0:
        row = 0
        for network in range(2):
            layers = program.hallucination_layers if network else program.policy_layers
            if layers == 0:
                continue
            at = program.policy_layers if network else 0
            side = _network(program, at, layers, features.ctypes.data, scratch.hidden, vectors)
            for d in range(program.layers[at + layers - 1, 3]):
                for lane in range(lanes):
                    applied[row, lane] += feedback * scratch.hidden[side, d, lane]
                row += 1
    for d in range(width):
        for lane in range(lanes):
            applied[d, lane] = min(max(applied[d, lane], np.float32(-1.0)), np.float32(1.0))
    inputs, efforts = scratch.inputs, len(program.limits)
    if t > 0 and program.rate < np.inf:
        for d in range(efforts):
            for lane in range(count):
                before = actions[first + lane, t - 1, d]
                held = max(applied[d, lane], before - program.rate)
                applied[d, lane] = min(held, before + program.rate)
    # The first features are the state's entries, the context last.
    known = 2 * len(program.angles) + len(program.others) - program.context
    for i in range(known):
        for lane in range(lanes):
            inputs[i, lane] = features[i, lane]
    row = known
    if len(program.stopped) or len(program.vectors) or len(program.pushed):
        row = _look_ahead(program, scratch, row, vectors)
    for i in range(efforts):
        for lane in range(lanes):
            inputs[row + i, lane] = applied[i, lane] * program.limits[i]
    for i in range(row + efforts):
        for lane in range(lanes):
            inputs[i, lane] = (inputs[i, lane] - program.input_mean[i]) / program.input_std[i]


@njit(nogil=True, error_model="numpy")
def _whiten(program: Program, scratch: Scratch, depth: int, side: int, vectors: int) -> None:
    """‖Wφ‖ of the `depth` features φ in half `side` of `hidden`, into the other half's row 0."""
    zeros = program.whitener.ctypes.data
    x, found = scratch.hidden[side].ctypes.data, scratch.hidden[1 - side]
    weights = zeros + 4 * BLOCK
    for row in range(0, depth, BLOCK):
        used = min(row + BLOCK, depth)
        if vectors == 2:
            dense_block_2(x, weights, zeros, found[row].ctypes.data, used)
        else:
            dense_block_1(x, weights, zeros, found[row].ctypes.data, used)
        weights += 4 * BLOCK * used
    for lane in range(vectors * VECTOR):
        found[0, lane] *= found[0, lane]
    for row in range(1, depth):
        for lane in range(vectors * VECTOR):
            found[0, lane] += found[row, lane] * found[row, lane]
    for lane in range(vectors * VECTOR):
        found[0, lane] = np.sqrt(found[0, lane])


@njit(nogil=True, error_model="numpy")
def _condition(program: Program, scratch: Scratch, output: int, vectors: int) -> None:
    """A Gaussian process's mean of `output`, one deviation up and down, into `heads`.

    Of a function that was drawn from it, its value into the only head.
    """
    lanes, count, dim = vectors * VECTOR, program.alphas.shape[1], len(program.target_mean)
    covariances, found = scratch.covariances[0], scratch.covariances[1]
    inputs, zeros = len(scratch.scaled), program.triangles[output].ctypes.data
    for i in range(inputs):
        for lane in range(lanes):
            scratch.scaled[i, lane] = scratch.inputs[i, lane] * program.inverses[output, i]
    x, base = scratch.scaled.ctypes.data, program.points[output].ctypes.data
    for row in range(0, count, BLOCK):
        points, at = base + 8 * row * inputs, covariances[row].ctypes.data
        for v in range(vectors):
            distance_block(x + 8 * VECTOR * v, points, zeros, at + 8 * VECTOR * v, inputs)
    for row in range(count):
        for v in range(vectors):
            bell(covariances[row].ctypes.data + 8 * VECTOR * v)
    for lane in range(lanes):
        scratch.scaled[0, lane], scratch.scaled[1, lane] = 0.0, 1.0
    for row in range(count):
        for lane in range(lanes):
            scratch.scaled[0, lane] += program.alphas[output, row] * covariances[row, lane]
    if len(program.choice) == 1:
        at = program.policy_layers + program.hallucination_layers + output * program.head_layers
        x = scratch.inputs.ctypes.data
        side = _network(program, at, program.head_layers, x, scratch.hidden, vectors)
        for lane in range(lanes):
            drawn = scratch.scaled[0, lane] + scratch.hidden[side, 0, lane]
            scratch.heads[0, output, lane] = drawn
            scratch.heads[0, dim + output, lane] = program.noise[output]
        return
    x, weights = covariances.ctypes.data, zeros + 8 * BLOCK
    for row in range(0, count, BLOCK):
        used, at = min(row + BLOCK, count), found[row].ctypes.data
        for v in range(vectors):
            double_block(x + 8 * VECTOR * v, weights, zeros, at + 8 * VECTOR * v, used)
        weights += 8 * BLOCK * used
    above, below = scratch.heads[0], scratch.heads[1]
    for row in range(count):
        for lane in range(lanes):
            scratch.scaled[1, lane] -= found[row, lane] * found[row, lane]
    for lane in range(lanes):
        mean, variance = scratch.scaled[0, lane], scratch.scaled[1, lane]
        away = math.sqrt(max(variance, LEAST_VARIANCE))
        above[output, lane], below[output, lane] = mean + away, mean - away
        above[dim + output, lane] = below[dim + output, lane] = program.noise[output]


@njit(nogil=True, error_model="numpy")
def _believe(program: Program, scratch: Scratch, vectors: int) -> None:
    """Each head's normalised mean and deviation into `heads`.

    Of a model with a prior, two heads a posterior deviation above and below the mean.
    """
    if len(program.points):
        for output in range(len(program.target_mean)):
            _condition(program, scratch, output, vectors)
        return
    first = program.policy_layers + program.hallucination_layers
    dim, lanes, whitened = len(program.target_mean), vectors * VECTOR, len(program.whitener) > 0
    heads = 1 if whitened else len(program.choice)
    for head in range(heads):
        at = first + head * program.head_layers
        x = scratch.inputs.ctypes.data
        side = _network(program, at, program.head_layers, x, scratch.hidden, vectors)
        for row in range(2 * dim):
            for lane in range(lanes):
                scratch.heads[head, row, lane] = scratch.hidden[side, row, lane]
        for row in range(dim, 2 * dim):
            for v in range(vectors):
                softplus(scratch.heads[head, row].ctypes.data + 4 * VECTOR * v)
        if whitened:
            depth = program.layers[at + program.head_layers - 1, 2]
            _whiten(program, scratch, depth, 1 - side, vectors)
            above, below = scratch.heads[0], scratch.heads[1]
            for row in range(2 * dim):
                for lane in range(lanes):
                    away = scratch.hidden[side, 0, lane] if row < dim else np.float32(0.0)
                    below[row, lane] = above[row, lane] - away
                    above[row, lane] += away


@njit(nogil=True, error_model="numpy")
def _imagine(
    program: Program, scratch: Scratch, noise: Floats, first: int, t: int, vectors: int
) -> None:
    """The strategy's next state, from `heads` and `applied` into `state`."""
    count, dim, lanes = len(program.choice), len(program.target_mean), vectors * VECTOR
    actions, hallucinated = len(program.limits), program.hallucination_layers > 0
    heads, share, joints = scratch.heads, np.float32(1.0 / count), len(program.lower)
    for i in range(dim):
        for lane in range(lanes):
            mean = chosen = aleatoric = epistemic = np.float32(0.0)
            for head in range(count):
                mean += heads[head, i, lane]
                chosen += program.choice[head] * heads[head, i, lane]
                deviation = program.min_aleatoric + heads[head, dim + i, lane]
                aleatoric += program.choice[head] * deviation * deviation
            mean *= share
            for head in range(count):
                away = heads[head, i, lane] - mean
                epistemic += away * away
            epistemic *= share * program.epistemic_scale[i] * program.epistemic_scale[i]
            if program.total and hallucinated:
                epistemic += aleatoric
                aleatoric = np.float32(0.0)
            aleatoric += program.unchosen * epistemic
            # What one head says in place of all is as far away as the scale says.
            chosen += (program.epistemic_scale[i] - np.float32(1.0)) * (chosen - mean)
            change = chosen + np.sqrt(aleatoric) * noise[t, i, first + lane]
            if hallucinated:
                eta = scratch.applied[actions + i, lane]
                change += program.beta * np.sqrt(epistemic) * eta
            value = (
                scratch.state[i, lane] + program.target_mean[i] + change * program.target_std[i]
            )
            if i < joints:  # Their velocities are behind them, so these are still the old ones.
                value += program.coast * scratch.state[joints + i, lane]
            scratch.state[i, lane] = min(max(value, program.reach[0, i]), program.reach[1, i])


@njit(nogil=True, error_model="numpy")
def _begin(scratch: Scratch, starts: Floats, first: int, count: int, vectors: int) -> None:
    """The states of `count` particles into `state`."""
    for lane in range(vectors * VECTOR):
        for i in range(starts.shape[1]):
            scratch.state[i, lane] = starts[first + min(lane, count - 1), i]


@njit(nogil=True, cache=True, error_model="numpy")
def evaluate(
    program: Program, scratch: Scratch, states: Floats, first: int, last: int, values: Floats
) -> None:
    """The critic's answers to `states` `(N, p)` into `values` `(N,)`, from `first` to `last`."""
    at = len(program.layers) - program.critic_layers
    while first < last:
        vectors = 2 if last - first > VECTOR else 1
        count = min(last - first, vectors * VECTOR)
        _begin(scratch, states, first, count, vectors)
        _see(program, scratch, vectors)
        x = scratch.features.ctypes.data
        side = _network(program, at, program.critic_layers, x, scratch.hidden, vectors)
        for lane in range(count):
            values[first + lane] = scratch.hidden[side, 0, lane]
        first += count


@njit(nogil=True, cache=True, error_model="numpy")
def roll_out(
    program: Program,
    scratch: Scratch,
    starts: Floats,
    offsets: Floats,
    noise: Floats,
    feedback: float,
    first: int,
    last: int,
    states: Floats,
    actions: Floats,
) -> None:
    """Imagine the particles `first` to `last`, at multiples of `VECTOR`; see `planners.Imagine`.

    Args:
        program: The bundle.
        scratch: Memory of this thread.
        starts: `(N, p)` float32.
        offsets: `(N, H, q + h)` float32.
        noise: `(H, m, N)` float32; N rounded up by `padded`.
        feedback: 1 adds the policies, 0 plans open loop.
        first: First particle.
        last: One behind the last particle.
        states: `(N, H + 1, p)`, filled.
        actions: `(N, H, q + h)`, filled.
    """
    while first < last:
        vectors = 2 if last - first > VECTOR else 1
        count = min(last - first, vectors * VECTOR)
        _begin(scratch, starts, first, count, vectors)
        for t in range(offsets.shape[1] + 1):
            for lane in range(count):
                for i in range(starts.shape[1]):
                    states[first + lane, t, i] = scratch.state[i, lane]
            if t == offsets.shape[1]:
                break
            _act(program, scratch, offsets, actions, feedback, first, count, t, vectors)
            for lane in range(count):
                for d in range(offsets.shape[2]):
                    actions[first + lane, t, d] = scratch.applied[d, lane]
            _believe(program, scratch, vectors)
            _imagine(program, scratch, noise, first, t, vectors)
        first += count
