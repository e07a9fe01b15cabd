"""A simulated joint that `Pulses` moves without ROS: what a driver would tell of it, in ns."""

import math

import numpy as np

from hucrl_ros.doctor.pulses import REVOLUTE, Pulses
from hucrl_ros.doctor.record import Record

DT = 0.5e-3
SHIFT = 7_000_000_000  # of the driver's clock


def pushed(
    gain=13.3,
    dead_time=0.0,
    friction=0.0,
    stiffness=0.0,
    damping=0.0,
    noise=0.0,
    step=0.0,
    rate=200.0,
    jitter=0.0,
    timeout=math.inf,
    limit=1.0,
    share=0.05,
    most=0.2,
    period=0.0125,
    start=(0.0, 0.0),
    effort="mean",
    creep=0.0,
    transport=0.0,
    bounds=REVOLUTE,
):
    """The record of all pulses on q'' = gain (u - friction) - stiffness q - damping q'."""
    rng = np.random.default_rng(0)
    record = Record()
    pulses = Pulses(record, [limit], [0], {"hinge": bounds}, share, most, [[1.0]], [[0.0]])
    position, speed = start
    coming, acting, heard = [], 0.0, -math.inf
    sums, now, told = [], 0.0, []
    next_told, next_sent, finished = 0.0, 0.0, False
    while not finished:
        now += DT
        while coming and coming[0][0] <= now:
            heard, acting = coming.pop(0)
        effect = acting if now - heard < timeout else 0.0
        sums.append(effect)
        passive = -stiffness * position - damping * speed
        force = gain * effect + passive
        held = abs(gain) * friction
        if creep:
            force -= held * math.tanh(speed / creep)
            held = 0.0
        if speed == 0.0 and abs(force) <= held:
            pass
        else:
            along = math.copysign(1.0, speed or force)
            changed = speed + DT * (force - held * along)
            speed = 0.0 if held and changed * along < 0 else changed
        position += DT * speed
        if now >= next_told:
            next_told += 1 / rate
            seen = position + noise * rng.standard_normal()
            seen = math.floor(seen / step) * step if step else seen
            told.append(
                (now + transport + rng.uniform(0, jitter), now, seen, np.mean(sums), acting)
            )
            sums = []
        while told and told[0][0] <= now:
            came, stamp, seen, mean, last = told.pop(0)
            record.stamps_ns.append(round(1e9 * stamp) + SHIFT)
            record.received_ns.append(round(1e9 * came))
            record.positions.append([seen])
            record.velocities.append([speed])
            record.efforts.append({"mean": [mean], "last": [last], "none": []}[effort])
            if record.stopped or pulses.problem([seen], [speed]):
                record.stopped = record.stopped or pulses.problem([seen], [speed])
                return record
        if now >= next_sent and len(record.positions) > 20:
            next_sent += period
            now_ns = round(1e9 * now)
            wanted = pulses.wanted(now_ns)
            finished = wanted is None
            if not finished and (pulses.is_new(now_ns) or not wanted.silent):
                record.sent_ns.append(now_ns)
                record.commands.append(wanted.efforts.tolist())
                coming.append((now + dead_time, float(wanted.efforts[0])))
    return record


def pushed_arm(
    mass, limits=(2.0, 1.0), friction=(0.0, 0.0), dead_time=0.005, rate=200.0, step=0.0, most=0.2
):
    """The record of all pulses on two joints: mass (2, 2) q'' = u - friction - damping q'.

    One with infinite friction stays where it is.
    """
    damping, moves = np.array([0.1, 0.05]), np.isfinite(friction)
    inverse = np.zeros((2, 2))
    inverse[np.ix_(moves, moves)] = np.linalg.inv(mass[np.ix_(moves, moves)])
    held = np.where(moves, friction, 0.0)
    record, coupling = Record(), mass / np.diag(mass)[:, None] - np.eye(2)
    bounds = {"shoulder": REVOLUTE, "elbow": REVOLUTE}
    pulses = Pulses(record, limits, [0, 1], bounds, 0.05, most, np.linalg.inv(mass), coupling)
    position, speed, acting = np.zeros(2), np.zeros(2), np.zeros(2)
    coming = []
    for tick in range(round(90 / DT)):
        now = tick * DT
        now_ns = round(1e9 * now)
        while coming and coming[0][0] <= now:
            acting = coming.pop(0)[1]
        speed = speed + DT * inverse @ (acting - held * np.tanh(speed / 0.005) - damping * speed)
        position = position + DT * speed
        if tick % round(1 / rate / DT) == 0:
            seen = np.floor(position / step) * step if step else position
            record.stamps_ns.append(now_ns + SHIFT)
            record.received_ns.append(now_ns)
            record.positions.append(seen.tolist())
            record.velocities.append(speed.tolist())
            record.efforts.append([])
            record.stopped = pulses.problem(seen.tolist(), speed.tolist())
            if record.stopped:
                return record
        if tick % round(0.02 / DT) == 0 and len(record.positions) > 20:
            wanted = pulses.wanted(now_ns)
            if wanted is None:
                return record
            if pulses.is_new(now_ns) or not wanted.silent:
                record.sent_ns.append(now_ns)
                record.commands.append(wanted.efforts.tolist())
                coming.append((now + dead_time, wanted.efforts))
    raise AssertionError("the pulses never end")
