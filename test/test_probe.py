"""The round trip that `hucrl doctor` measures, by a clock of the test's, without ROS."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="the probe is a node of ROS 2")

from lone_node import alone
from std_msgs.msg import UInt32

from hucrl_ros.doctor.nodes import probe


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=5.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(probe, "time", clock)
    return clock


def test_answers_are_matched_with_their_questions_in_whatever_order_they_come(clock, capsys):
    with alone(probe.Asker) as node:
        for _ in range(probe.ROUND_TRIPS):
            node.ring(probe.PERIOD_S)
            clock.now += probe.PERIOD_S
        assert [m.data for m in node.sent["doctor/question"]] == list(range(probe.ROUND_TRIPS))
        clock.now += 1.0
        for number in reversed(range(probe.ROUND_TRIPS)):
            assert node.exit_code is None
            node.heard["doctor/answer"](UInt32(data=number))
        assert node.exit_code == 0
    found = json.loads(capsys.readouterr().out)
    last = probe.ROUND_TRIPS * probe.PERIOD_S + 1.0
    assert found["discovery_s"] == pytest.approx(last)
    assert found["max_ms"] == pytest.approx(1e3 * last)
    middle = last - (probe.ROUND_TRIPS - 1) / 2 * probe.PERIOD_S
    assert found["p50_ms"] == pytest.approx(1e3 * middle)


def test_patience_has_an_end(clock, capsys):
    with alone(probe.Asker) as node:
        clock.now += probe.PATIENCE_S + 0.1
        node.ring(probe.PERIOD_S)
        assert node.exit_code == 1
    assert capsys.readouterr().err == "no answer through DDS within 30 s\n"


def test_a_question_comes_back_as_it_was(clock):
    with alone(probe.Answerer) as node:
        node.heard["doctor/question"](UInt32(data=7))
        assert [m.data for m in node.sent["doctor/answer"]] == [7]


def test_a_role_that_is_not_known_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(probe.sys, "argv", ["probe", "listen"])
    assert probe.main() == 2
    assert capsys.readouterr().err == "probe: expected one of ask, answer\n"
