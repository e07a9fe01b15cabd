"""What the page holds doesn't grow with pictures and with browsers that come and go."""

import gc

import pytest
import viser
from waiting import wait_until
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from hucrl_ros.benchmarks.page import CAMERA
from hucrl_ros.controller.state_reader import JointReading
from hucrl_ros.page.page import Page
from hucrl_ros.page.visitors import Visitor

PICTURES, VISITS = 10, 3


@pytest.fixture
def page(run_folder):
    page = Page(run_folder, "127.0.0.1", 0, "token-of-32-letters-abcdefghijkl")
    page.panel.close()  # here it is shown when the test says so
    yield page
    page.close()


def draw(page):
    """Some pictures, each of another joint state."""
    for _ in range(PICTURES):
        stamp = page.heard.now.stamp_ns + 1
        page.heard.joint_state(JointReading(("pendulum_joint",), (1e-3 * stamp,), (0.0,), stamp))
        wait_until(lambda: page._live._drawn[1] == stamp)  # noqa: B023 - called at once
        page.panel.show()


def visit(page):
    """A browser comes, is welcome, and goes."""
    address = f"ws://127.0.0.1:{page._server.get_port()}"
    with connect(address, subprotocols=[Subprotocol(f"viser-v{viser.__version__}")]) as browser:
        browser.send(CAMERA)
        wait_until(lambda: len(page._visitors._known) == 1)
    wait_until(lambda: not page._visitors._known)


def held(page):
    """Messages for browsers to come, and what is left of those that have gone."""
    gc.collect()
    kinds = (Visitor, viser.ClientHandle)
    left = sum(type(each) in kinds for each in gc.get_objects())
    return len(page._server._websock_server.get_message_buffer().message_from_id), left


def test_pictures_and_browsers_leave_nothing_behind(page):
    draw(page)
    visit(page)
    wait_until(lambda: held(page)[1] == 0)
    before = held(page)
    draw(page)
    for _ in range(VISITS):
        visit(page)
    wait_until(lambda: held(page)[1] == 0)
    assert held(page) == before
