"""What is said of a robot that was moved, and which settings follow; simulated joints, no ROS."""

import dataclasses
import math

import numpy as np
import pushed as pushed_module
import pytest
from own_robots import modelled, resolved
from pushed import pushed

from hucrl_ros.config.files import share_directory
from hucrl_ros.config.schema import Config, DriverSettings
from hucrl_ros.doctor import Level
from hucrl_ros.doctor.identify import identify
from hucrl_ros.doctor.pulses import REVOLUTE, Pulses
from hucrl_ros.doctor.record import Record
from hucrl_ros.doctor.senses import slope_noise
from hucrl_ros.doctor.verdict import examine_motion
from hucrl_ros.robots.resolve import describe

PENDULUM = describe("pendulum")
MODEL = 1 / (0.3 * 0.5**2)  # one over inertia
SWINGS = {"stiffness": 9.81 / 0.5, "damping": 0.067}
GAIN, FRICTION = "gain of pendulum_joint", "friction of pendulum_joint"


def verdict(record=None, velocity="measured", **how):
    record = record or pushed(**{"gain": MODEL, "rate": 500, **SWINGS, **how})
    config = Config(driver=DriverSettings(velocity=velocity))
    findings, suggestions = examine_motion(record, PENDULUM, config)
    return findings, {each.key: each.value for each in suggestions}


def test_of_a_good_robot_nothing_is_said_but_that_it_is():
    findings, settings = verdict(dead_time=0.004, timeout=0.1)
    assert {name: each.level for name, each in findings.items()} == dict.fromkeys(
        findings, Level.OK
    )
    assert not any(each.advice for each in findings.values())
    assert settings == {
        "control.extra_delay": pytest.approx(0.004, abs=1e-3),
        "driver.velocity": "measured",
        "driver.effort": "applied",
    }


@pytest.mark.parametrize(
    ("gain", "level", "advice"),
    [
        (-MODEL, Level.FAULT, "turn the sign of its efforts"),
        (0.4 * MODEL, Level.FAULT, "efforts have another unit"),
        (2.5 * MODEL, Level.FAULT, "efforts have another unit"),
        (0.6 * MODEL, Level.NOTE, "masses, inertia and armature"),
        (1.6 * MODEL, Level.NOTE, "masses, inertia and armature"),
        (1.2 * MODEL, Level.OK, ""),
    ],
)
def test_a_gain_is_compared_with_the_models(gain, level, advice):
    found = verdict(gain=gain)[0][GAIN]
    assert found.level is level
    assert advice in found.advice


def test_a_joint_that_never_moves_gets_one_line():
    findings, settings = verdict(friction=0.5)
    assert list(findings) == [GAIN]
    assert findings[GAIN].level is Level.FAULT
    assert findings[GAIN].found == "it doesn't clearly move with 0.2, 20% of its limit"
    assert settings == {}


def test_a_motion_that_ended_early_is_a_fault():
    findings, settings = verdict(gain=1000.0)
    assert list(findings) == ["motion"]
    assert findings["motion"].level is Level.FAULT
    assert "moves at" in findings["motion"].found
    assert settings == {}


def test_friction_is_told_with_the_effort_that_moved_the_joint():
    found = verdict(friction=0.1)[0][FRICTION]
    assert found.level is Level.NOTE
    assert "frictionloss=0.1" in found.advice
    assert "; pulses of 0.2 N m moved it" in found.found
    assert "; pulses of 0.05 N m moved it" in verdict()[0][FRICTION].found


def test_a_gain_is_rough_where_friction_takes_most_of_the_effort():
    found = verdict(friction=0.15, rate=80)[0][GAIN]
    assert found.level is Level.NOTE
    assert "friction takes" in found.advice
    assert "--effort-cap" in found.advice


def test_friction_behind_a_gear_is_told_as_the_models_joint_has_it(tmp_path):
    model = (share_directory() / "sim" / "pendulum.xml").read_text()
    geared = model.replace('gear="1"', 'gear="20"').replace('"-1 1"', '"-0.05 0.05"')
    described = resolved(tmp_path, modelled(tmp_path, geared, period=0.0125))
    record = pushed(gain=20 * MODEL, rate=500, limit=0.05, friction=0.005, **SWINGS)
    found = examine_motion(record, described, Config())[0][FRICTION]
    told = float(found.found.split()[0])
    assert told == pytest.approx(0.005, rel=0.1)
    assert f"frictionloss={20 * told:.3g} into" in found.advice


@pytest.mark.parametrize(
    ("effort", "meaning"), [("mean", "applied"), ("last", "commanded"), ("none", "ignored")]
)
@pytest.mark.parametrize("dead_time", [0.0, 0.01])
def test_what_effort_means_is_found_out(effort, meaning, dead_time):
    _, settings = verdict(effort=effort, rate=130, dead_time=dead_time)
    assert settings["driver.effort"] == meaning


def test_efforts_of_another_kind_are_ignored():
    record = pushed(gain=MODEL, rate=500, **SWINGS)
    record.efforts = [[1e3 * math.sin(k)] for k in range(len(record.efforts))]
    findings, settings = verdict(record)
    assert findings["efforts"].level is Level.NOTE
    assert settings["driver.effort"] == "ignored"


def test_velocities_are_derived_where_that_is_better():
    count = 2 * math.pi / 4096
    findings, settings = verdict(step=count)
    assert settings["driver.velocity"] == "measured", "exact ones beside a coarse encoder"
    assert "steps of 0.00153 (4096 a turn)" in findings["positions"].found
    record = pushed(gain=MODEL, rate=500, step=count, **SWINGS)
    places = np.array(record.positions)
    record.velocities = (500 * np.diff(places, axis=0, prepend=places[:1])).tolist()
    assert verdict(record)[1]["driver.velocity"] == "derived"
    assert verdict(record)[0]["velocities"].level is Level.NOTE
    assert verdict(record, velocity="derived")[0]["velocities"].level is Level.OK
    record.velocities = [[] for _ in record.velocities]
    findings, settings = verdict(record)
    assert settings["driver.velocity"] == "derived"
    assert findings["velocities"].found.startswith("joint states hold none")


@pytest.mark.parametrize(
    ("rate", "counts", "periods"), [(500, 16384, 1), (500, 4096, 2), (500, 1024, 3), (80, 2000, 3)]
)
def test_velocities_are_derived_over_as_long_as_shows_what_efforts_do(rate, counts, periods):
    record = pushed(gain=MODEL, rate=rate, step=2 * math.pi / counts, **SWINGS)
    record.velocities = [[] for _ in record.velocities]
    window = verdict(record)[1].get("driver.velocity_window", 0.0125)
    assert window == pytest.approx(periods * 0.0125)
    # By hand: uniform steps, independent readings; efforts drawn evenly from -1 to 1 N m.
    change = MODEL * 0.0125 / 3**0.5
    shares = [
        slope_noise(2 * math.pi / counts / 12**0.5, k * 0.0125, 1 / rate) / change
        for k in (1, 2, 3)
    ]
    assert all(share > 0.25 for share in shares[: periods - 1])
    assert shares[periods - 1] <= 0.25 or periods == 3


@pytest.mark.parametrize("count", [2, 3, 8, 21])
def test_the_noise_of_a_slope_is_that_of_least_squares(count):
    times = 0.002 * np.arange(count)
    spread = float(np.sum((times - times.mean()) ** 2))
    found = slope_noise(0.1, times[-1], 0.002)
    assert found == pytest.approx(0.1 / spread**0.5)


@pytest.mark.parametrize(
    ("timeout", "level", "said"),
    [
        (0.1, Level.OK, "lets go"),
        (math.inf, Level.NOTE, "holds the last command"),
    ],
)
def test_the_drivers_timeout_is_told(timeout, level, said):
    found = verdict(timeout=timeout)[0]["timeout"]
    assert found.level is level
    assert said in found.found


def test_a_dead_time_longer_than_the_control_period_asks_for_another():
    findings, settings = verdict(dead_time=0.03)
    assert settings["control.extra_delay"] == pytest.approx(0.03, abs=1e-3)
    found = findings["control period"]
    assert found.level is Level.NOTE
    period = float(found.advice.rpartition(" ")[2])
    assert 0.029 < period < 0.035
    assert period / 0.00125 == pytest.approx(round(period / 0.00125)), "of the physics' steps"


def test_of_a_driver_that_does_not_keep_up_nothing_else_is_said():
    record = pushed(gain=MODEL, rate=500, **SWINGS)
    slow = np.linspace(0, 2e9, len(record.stamps_ns)).astype(int)
    record.stamps_ns = (np.array(record.stamps_ns) - slow).tolist()
    findings, settings = verdict(record)
    assert set(findings) == {"stamps"}
    assert findings["stamps"].level is Level.FAULT
    assert findings["stamps"].found.startswith("they fell 1.5 s behind")
    assert settings == {}


def test_a_pulse_that_nobody_watched_is_played_again():
    record = Record()
    pulses = Pulses(record, [1.0], [0], {"hinge": REVOLUTE}, 0.05, 0.2, [[1.0]], [[0.0]])
    spoilt, begun = 0, []
    for k in range(2000):
        now = k * 5_000_000
        record.stamps_ns.append(now + 1)
        record.received_ns.append(now)
        record.positions.append([0.0])
        segment = pulses.wanted(now)
        if segment is None:
            break
        record.sent_ns.append(now)
        record.commands.append(segment.efforts.tolist())
        if pulses.is_new(now) and segment.efforts.any():
            begun.append(float(segment.efforts[0]))
            if spoilt < 2:
                spoilt += 1
                pulses.spoil(now + 1)
    assert begun[:4] == [0.05, 0.05, 0.05, -0.05]
    assert [trial.effort for trial in record.trials[:2]] == [0.05, -0.05]


def judged(record, described=PENDULUM, **driver):
    findings, settings = examine_motion(record, described, Config(driver=DriverSettings(**driver)))
    return findings, {each.key: each.value for each in settings}


@pytest.mark.parametrize(("friction", "noise"), [(0.05, 3e-4), (0.1, 1e-4)])
def test_noise_of_a_sensor_without_steps_leaves_gain_and_friction(friction, noise):
    record = pushed(gain=MODEL, rate=500, noise=noise, friction=friction, dead_time=0.01, **SWINGS)
    findings, _ = judged(record)
    assert findings["gain of pendulum_joint"].level is not Level.FAULT
    motion = identify(record, 0, 0)
    assert motion.gain == pytest.approx(MODEL, rel=0.2)
    assert motion.friction == pytest.approx(friction, rel=0.25)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_motor_that_turns_the_other_way_has_friction_too(sign):
    motion = identify(pushed(gain=sign * 13.3, friction=0.03, rate=500), 0, 0)
    assert motion.gain == pytest.approx(sign * 13.3, rel=0.06)
    assert motion.friction == pytest.approx(0.03, rel=0.15)
    assert motion.dead_time == pytest.approx(0.0, abs=1.5e-3)


@pytest.mark.parametrize("before", ["measured", "derived"])
def test_velocities_that_are_always_0_are_not_ok(before):
    slow = PENDULUM.robot.model_copy(update={"period": 0.02})
    record = pushed(gain=MODEL, rate=500, **SWINGS)
    record.velocities = [[0.0]] * len(record.velocities)
    found = judged(record, dataclasses.replace(PENDULUM, robot=slow), velocity=before)
    assert found[1]["driver.velocity"] == "derived"


@pytest.mark.parametrize("drift", [0.02, -0.02])
def test_a_clock_that_drifts_a_little_changes_no_dead_time(drift):
    record = pushed(gain=MODEL, rate=500, dead_time=0.01, **SWINGS)
    away = np.linspace(0, drift * 1e9, len(record.stamps_ns)).astype(int)
    record.stamps_ns = (np.array(record.stamps_ns) - away).tolist()
    _, settings = judged(record)
    assert settings["control.extra_delay"] == pytest.approx(0.01, abs=2e-3)


@pytest.mark.parametrize("dead_time", [0.11, 0.15])
def test_a_dead_time_beyond_what_is_looked_for_is_no_ok(dead_time):
    findings, settings = judged(pushed(gain=MODEL, rate=500, dead_time=dead_time, **SWINGS))
    assert "control.extra_delay" not in settings
    if "dead time" in findings:
        assert findings["dead time"].level is Level.FAULT
    else:
        assert "longer than 100 ms" in findings["gain of pendulum_joint"].advice


def test_a_pulse_that_was_spoilt_is_no_noise(monkeypatch):
    class Spoilt(Pulses):
        begun = None

        def wanted(self, now_ns):
            found = super().wanted(now_ns)
            if found is not None and found.efforts.any() and self.begun is None:
                self.begun = now_ns
            if self.begun and now_ns - self.begun > 200_000_000:
                self.begun = 0  # once
                self.spoil(now_ns)
                return super().wanted(now_ns)
            return found

    def window():
        record = pushed(gain=MODEL, rate=500, step=2 * math.pi / 65536, friction=0.02)
        assert record.stopped == ""
        record.velocities = [[]] * len(record.velocities)
        return judged(record)[1].get("driver.velocity_window")

    assert window() is None
    monkeypatch.setattr(pushed_module, "Pulses", Spoilt)
    assert window() is None


def test_a_window_that_is_not_wanted_any_more_is_written_too():
    record = pushed(gain=MODEL, rate=500, step=2 * math.pi / 65536, **SWINGS)
    record.velocities = [[]] * len(record.velocities)
    _, settings = judged(record, velocity="derived", velocity_window=0.1)
    assert settings["driver.velocity"] == "derived"
    assert settings["driver.velocity_window"] == 0.0


def test_efforts_that_are_no_numbers_are_none():
    record = pushed(gain=MODEL, rate=500, **SWINGS)
    record.efforts = [[math.nan]] * len(record.efforts)
    findings, settings = judged(record)
    assert settings["driver.effort"] == "ignored"
    assert findings["efforts"].found == "joint states hold none"
