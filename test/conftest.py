"""What all tests share: a thread for torch, a ROS domain, a run's folder, time for fuzzers."""

import functools
import os
import time

# Before anything imports torch or numpy; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import compiling
import hypothesis
import long_tests
import pytest

from hucrl_ros.config.schema import Config
from hucrl_ros.controller import bundle as loading
from hucrl_ros.controller.graph_check import checked_graph
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.session import Domain

# A loaded machine must not fail a test, and every run must try the same examples.
hypothesis.settings.register_profile("hucrl_ros", deadline=None, derandomize=True)
# With FUZZ_SECONDS, tests marked `fuzz` try new examples in each run; what failed is kept in
# .hypothesis/ and tried first next time.
hypothesis.settings.register_profile(
    "fuzz", deadline=None, suppress_health_check=list(hypothesis.HealthCheck), print_blob=True
)
FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
hypothesis.settings.load_profile("fuzz" if FUZZ_SECONDS else "hucrl_ros")


@functools.lru_cache(maxsize=256)
def _judged(content, loop, *mappings):
    return checked_graph(content, *map(dict, mappings), loop=loop)


def checked_once(content, *mappings, loop):
    """Takes the place of `checked_graph` where bundles are loaded: a test judges new graphs only.

    It depends on its arguments alone, and most bundles of the tests hold the same graphs.
    """
    return _judged(content, loop, *(tuple(mapping.items()) for mapping in mappings))


loading.checked_graph = checked_once


def pytest_configure(config):
    if config.getoption("numprocesses", None):  # The first process of several, which has time.
        config.add_cleanup(compiling.begin().wait)


def pytest_collection_modifyitems(config, items):
    # First those that wait most: others fill the time, and no long file is left for the end.
    waiting = {item.path for item in items if item.get_closest_marker("ros")}
    items.sort(key=lambda item: item.path not in waiting)
    long = long_tests.known()
    again = config.pluginmanager.hasplugin("rerunfailures") and not FUZZ_SECONDS
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.long)
        if again and item.get_closest_marker("ros"):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if FUZZ_SECONDS and item.get_closest_marker("fuzz"):
            item.add_marker(pytest.mark.timeout(FUZZ_SECONDS + 600), append=False)


def pytest_terminal_summary(terminalreporter):
    """Show why tests of real processes had to be tried again: nobody may get used to it."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed, then tried again: {report.nodeid}")
        terminalreporter.line(report.longreprtext)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Hypothesis counts examples; here a test marked `fuzz` is called until its time is over."""
    if not (FUZZ_SECONDS and pyfuncitem.get_closest_marker("fuzz")):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    end = time.monotonic() + FUZZ_SECONDS
    while time.monotonic() < end:
        pyfuncitem.obj(**arguments)
    return True


@pytest.fixture(scope="session", autouse=True)
def kernel():
    """Compiled before the first test."""
    compiling.wait()


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


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A small optimistic one of the pendulum, loaded; many modules have another."""
    from bundle_factory import learned, shake, write_bundle  # torch: not every test needs it

    shake(learned("optimistic"), seed=1)
    return loading.load_bundle(write_bundle(tmp_path_factory.mktemp("bundles") / "bundle"))


@pytest.fixture
def run_folder(tmp_path):
    """The folder of a new run with the schema's default settings."""
    return RunFolder.create(tmp_path / "run", Config())
