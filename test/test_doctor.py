"""`hucrl doctor` finds what is there, says what to do about what is not, and its exit code."""

import importlib.util
import os
import resource
import sys
from collections import namedtuple

import pytest

from hucrl_ros.cli import main
from hucrl_ros.cli.doctor import checks as all_checks
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.doctor import Finding, Level, examine, machine, software

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def checks(monkeypatch):
    """Replaces all checks."""

    def replace(**findings: Finding) -> None:
        made = {name: lambda finding=finding: finding for name, finding in findings.items()}
        monkeypatch.setattr("hucrl_ros.cli.doctor.checks", lambda: made)

    return replace


def test_all_well_is_exit_code_0(checks, capsys):
    checks(Python=Finding.ok("3.11"), ros2=Finding.note("not found", "install it"))
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "note ros2: install it" in printed
    assert "everything required works" in printed


def test_a_fault_is_exit_code_1_and_is_named_with_its_advice(checks, capsys):
    checks(Python=Finding.ok("3.11"), DDS=Finding.fault("no answer [x]", "open the firewall"))
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "no answer [x]" in printed
    assert "fault DDS: open the firewall" in printed
    assert "1 required check(s) failed: DDS" in printed


def test_a_check_that_breaks_is_a_fault():
    finding = examine(lambda: 1 / 0)
    assert finding.level is Level.FAULT
    assert "ZeroDivisionError" in finding.found


@pytest.mark.parametrize(
    "name", [name for name in all_checks() if name not in ("DDS", "rendering")]
)
def test_every_check_finds_something_and_advises_where_it_is_not_well(name):
    level, found, advice = examine(all_checks()[name])
    assert found
    assert bool(advice) == (level is not Level.OK)
    assert "\n" not in found + advice


@pytest.mark.ros
def test_two_processes_hear_each_other_through_dds():
    finding = software.check_dds()
    assert finding.level is Level.OK, finding
    assert "round trip" in finding.found


@pytest.mark.ros
def test_a_middleware_that_is_not_there_is_a_fault(monkeypatch):
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_of_nobody_cpp")
    finding = software.check_dds()
    assert finding.level is Level.FAULT
    assert "RMW_IMPLEMENTATION" in finding.advice


def test_rendering_without_a_driver_is_only_a_note(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "nothing")
    finding = machine.check_rendering()
    assert finding.level is Level.NOTE
    assert finding.found.startswith("MUJOCO_GL=nothing: ")


def test_an_old_python_is_a_fault(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    assert software.check_python().level is Level.FAULT


def test_a_library_that_is_missing_is_a_fault():
    finding = software.check_library("no_such_library")
    assert finding.level is Level.FAULT
    assert "no_such_library" in finding.found


def test_missing_messages_are_named(monkeypatch):
    monkeypatch.setattr(software, "MESSAGES", ("std_msgs", "no_such_msgs"))
    assert software.check_messages().found == "missing: no_such_msgs"


@pytest.mark.parametrize(("sourced", "level"), [("ros-rclpy", Level.NOTE), (None, Level.OK)])
def test_a_sourced_ros_2_is_told_from_wheels(sourced, level, monkeypatch, tmp_path):
    origin = tmp_path / "lib" / "rclpy" / "__init__.py"
    spec = importlib.util.spec_from_file_location("rclpy", origin)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(software.metadata, "version", lambda name: "9.1.2")
    monkeypatch.setattr(software, "_is_in_this_environment", lambda name: name == sourced)
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/somewhere{os.pathsep}{tmp_path}")
    monkeypatch.setenv("ROS_DISTRO", "kilted")
    finding = software.check_rclpy()
    assert finding.level is level
    assert finding.found.startswith("9.1.2, from ROS 2 kilted")


def test_a_wrong_domain_id_is_a_fault(monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "many")
    finding = software.check_environment()
    assert finding.level is Level.FAULT
    assert "'many'" in finding.advice


def test_little_space_is_a_note(monkeypatch):
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: Usage(2**30, 2**30, 2**20))
    assert machine.check_disk().level is Level.NOTE


def test_a_busy_machine_is_a_note(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (1e3, 1e3, 1e3))
    assert machine.check_cores().level is Level.NOTE


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (machine.check_realtime_priority, "rtprio 90"),
        (machine.check_memory_lock, "memlock unlimited"),
    ],
)
def test_a_refused_right_is_a_note_that_says_how_to_get_it(check, word, monkeypatch):
    monkeypatch.setattr(machine, "_in_child", lambda attempt: "Operation not permitted")
    finding = check()
    assert finding.level is Level.NOTE
    assert "Operation not permitted" in finding.found
    assert word in finding.advice


def test_isolated_processors_are_named(monkeypatch, tmp_path):
    listed = tmp_path / "isolated"
    monkeypatch.setattr(machine, "ISOLATED", listed)
    assert "none isolated" in machine.check_processors().found
    listed.write_text("2-3\n")
    assert (
        "isolated: 2-3, for the controller with control.cpus" in machine.check_processors().found
    )


@pytest.mark.parametrize(
    "setting",
    ["realtime_priority", "lock_memory", "cpus", "pause_garbage_collection"],
)
def test_what_a_setting_of_the_control_loop_needs_is_looked_at(monkeypatch, setting):
    monkeypatch.setattr(machine, "_in_child", lambda attempt: "")
    assert setting in ControlSettings.model_fields
    findings = [check().found for check in machine.MACHINE.values()]
    assert [f"control.{setting}" in found for found in findings].count(True) == 1


def test_trying_for_rights_changes_nothing_here():
    before = os.sched_getscheduler(0), resource.getrlimit(resource.RLIMIT_MEMLOCK)
    machine.check_realtime_priority()
    machine.check_memory_lock()
    assert (os.sched_getscheduler(0), resource.getrlimit(resource.RLIMIT_MEMLOCK)) == before
