"""Every run gets a ROS domain of its own."""

import contextlib
import socket
import subprocess
import sys

import pytest

from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run import session
from hucrl_ros.run.session import LARGEST_DOMAIN, Domain, wished_domain


def test_two_runs_get_different_domains_and_none_is_everybodys(tmp_path):
    with Domain(folder=tmp_path) as one, Domain(folder=tmp_path) as other:
        assert one.number != other.number
        assert 0 not in (one.number, other.number)


def test_a_wished_domain_is_given_even_everybodys(tmp_path):
    with Domain(0, folder=tmp_path) as one:
        assert one.number == 0


def test_a_wished_domain_that_another_run_has_is_replaced(tmp_path):
    with Domain(17, folder=tmp_path), Domain(17, folder=tmp_path) as other:
        assert other.number != 17


def test_a_closed_domain_is_free_again(tmp_path):
    Domain(17, folder=tmp_path).close()
    with Domain(17, folder=tmp_path) as again:
        assert again.number == 17


def test_a_killed_process_frees_its_domain(tmp_path):
    code = (
        "from pathlib import Path; from hucrl_ros.run.session import Domain; import time\n"
        f"Domain(17, folder=Path({str(tmp_path)!r})); print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        with Domain(17, folder=tmp_path) as other:
            assert other.number != 17
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    with Domain(17, folder=tmp_path) as again:
        assert again.number == 17


def test_a_domain_whose_port_somebody_has_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "LARGEST_DOMAIN", 2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as foreign:
        with contextlib.suppress(OSError):  # Somebody else has it already: as good.
            foreign.bind(("", 7400 + 250 * 1 + 10))
        with pytest.raises(RunError, match="in use") as caught:
            while True:
                Domain(folder=tmp_path)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "hucrl_session_1.lock").exists()


@pytest.mark.parametrize(("text", "number"), [(None, None), ("", None), ("0", 0), ("232", 232)])
def test_the_environment_variable_is_read(text, number):
    assert wished_domain(text) == number


@pytest.mark.parametrize("text", ["-1", "233", "abc", "1.5"])
def test_a_wrong_environment_variable_is_named(text):
    with pytest.raises(ConfigError, match=f"ROS_DOMAIN_ID = '{text}': expected 0 to"):
        wished_domain(text)


def test_in_the_largest_domain_twenty_participants_keep_below_the_ephemeral_ports():
    assert 7400 + 250 * LARGEST_DOMAIN + 11 + 2 * 20 < 32768
