"""What all tests share: one thread for torch, a ROS domain of one's own, a run's folder."""

import os

# Before anything imports torch or numpy; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis
import pytest

from hucrl_ros.config.schema import Config
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.session import Domain

# A loaded machine must not fail a test, and every run must try the same examples.
hypothesis.settings.register_profile("hucrl_ros", deadline=None, derandomize=True)
hypothesis.settings.load_profile("hucrl_ros")


@pytest.fixture
def ros_domain(monkeypatch, tmp_path_factory):
    """A ROS domain that nobody else on this machine has, in this process's environment.

    Processes that the test starts with this environment meet each other and nobody else.
    """
    with Domain() as domain:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(domain.number))
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        monkeypatch.setenv("ROS_LOG_DIR", str(tmp_path_factory.mktemp("ros_log")))
        monkeypatch.delenv("ROS_LOCALHOST_ONLY", raising=False)
        yield domain.number


@pytest.fixture
def run_folder(tmp_path):
    """The folder of a new run with the schema's default settings."""
    return RunFolder.create(tmp_path / "run", Config())
