"""The page in a real browser, beside real runs over real DDS: what is clicked there is done."""

import logging
import re
from contextlib import contextmanager

import numpy as np
import pytest
from browser import needs_chromium, window
from person import Person
from quick_run import Up, Watch, quick_arguments
from ros_harness import Harness
from waiting import PATIENCE, wait_until

from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.nodes.controller_topics import to_pose
from hucrl_ros.page import stage
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.robots import describe
from hucrl_ros.run.progress import Phase
from hucrl_ros.run.summary import read_summary

pytestmark = [
    pytest.mark.ros,
    pytest.mark.browser,
    pytest.mark.timeout(600),
    needs_chromium,
]
logger = logging.getLogger(__name__)
WIDTH, HEIGHT = 800, 360
"""Of the window [pixels]."""


@contextmanager
def watched(tmp_path, monkeypatch, task, **settings):
    """A run of many quick episodes, its page, a browser, and somebody with ROS."""
    arguments = (task, "--episodes", "1000", "--no-figures", *quick_arguments(**settings))
    with Up(*arguments, out=tmp_path / "run") as up:
        wait_until(lambda: up.run.player is not None, PATIENCE)
        monkeypatch.setenv("ROS_DOMAIN_ID", str(up.run.player.domain))
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        with (
            Harness(tmp_path) as harness,
            Watch(up.run.root) as watch,
            window(tmp_path / "browser", WIDTH, HEIGHT) as browser,
        ):
            browser.open(watch.address)
            browser.page.get_by_text("Learning").wait_for()
            yield up, watch, browser, Person(harness)
            assert browser.foreign() == []
            assert browser.asked
    assert up.remaining() == []


def enter(browser, token):
    """Type a token."""
    browser.fill("token", token)
    browser.click("Enter")


def bundle_name(number):
    return f"bundle_{number:03d}"


def episodes(run):
    """Rows of the summary."""
    return read_summary(run.summary).episodes if run.summary.is_file() else ()


def test_a_run_is_watched_and_stopped(tmp_path, ros_domain, monkeypatch):
    with watched(tmp_path, monkeypatch, "pendulum") as (up, watch, browser, _):
        page = browser.page
        page.get_by_text(re.compile(r"step \d+")).first.wait_for()
        before = browser.picture()
        wait_until(lambda: browser.picture() != before)
        assert page.title() == "pendulum - hucrl"
        see_an_end(browser, up.run)
        page.get_by_text("Controls").dispatch_event("click")
        enter(browser, "not the token, but as long as it")
        page.get_by_text("wrong token").wait_for()
        assert page.get_by_role("button", name="Stop").count() == 0
        page.wait_for_timeout(1500)
        enter(browser, watch.token)
        page.get_by_role("button", name="Stop").wait_for()
        browser.click("Stop")
        page.get_by_text("asked to stop").wait_for()
        up.wait_for_line("stopped on the topic stop")
        browser.click("Let it go on")
        up.wait_for_line("running")


def see_an_end(browser, run):
    """Of an episode."""
    wait_until(lambda: episodes(run))
    done = len(episodes(run))
    browser.note_rows()
    wait_until(lambda: len(episodes(run)) > done)
    written = run.summary.stat().st_mtime
    late = browser.row_seen(done) - written
    logger.info("the page showed the row %.2f s after the summary had it", late)


@pytest.mark.slow
def test_a_run_is_steered(tmp_path, ros_domain, monkeypatch):
    with watched(tmp_path, monkeypatch, "pendulum") as (up, watch, browser, person):
        page, run = browser.page, up.run
        page.get_by_text("Controls").dispatch_event("click")
        enter(browser, watch.token)
        page.get_by_role("button", name="Stop").wait_for()
        wait_until(lambda: len(episodes(run)) > 1)  # one of them learned
        browser.check("pause after this episode", True)
        person.wait_for(Phase.PAUSED)
        assert person.supervisor.value("pause") is True
        page.get_by_text(Phase.PAUSED.value).wait_for()
        look_back(browser)
        steer(browser, run, person)
        browser.press("s")
        up.wait_for_line("stopped on the topic stop")


@pytest.mark.slow
def test_a_goal_is_dragged(tmp_path, ros_domain, monkeypatch):
    with watched(tmp_path, monkeypatch, "reacher") as (up, watch, browser, person):
        page, kinematics = browser.page, Kinematics(describe("reacher"))
        page.get_by_text("Controls").dispatch_event("click")
        enter(browser, watch.token)
        page.get_by_role("button", name="Stop").wait_for()
        wait_until(lambda: episodes(up.run))
        browser.check("pause after this episode", True)
        person.wait_for(Phase.PAUSED)
        page.reload()  # the handle is where the goal is when a browser comes
        page.get_by_text("Controls").dispatch_event("click")
        enter(browser, watch.token)
        page.get_by_role("button", name="Goal: as it is drawn").wait_for()
        goal = np.array(to_pose(person.goals[-1]).position)
        along = 0.18 * float(kinematics.model.stat.extent) * np.array([1.0, 0.0, 0.0])
        camera = stage.view(*kinematics.reach(), stage.BESIDE)
        page.wait_for_timeout(3000)
        arrow = goal + 0.7 * along
        drag(page, *(pixel(place, *camera) for place in (arrow, arrow + 2.0 * along)))
        page.get_by_text("the task's goals are within").wait_for()
        assert person.simulator.value("next.goal") == []
        page.wait_for_timeout(2000)  # the handle goes back
        wanted = -0.4 * np.sign(goal[0]) * along
        drag(page, *(pixel(place, *camera) for place in (arrow, arrow + wanted)))
        page.get_by_text("the task's goals are within").wait_for(state="detached")
        moved = np.array(person.simulator.value("next.goal")) - goal
        assert moved == pytest.approx(wanted, abs=0.03)
        browser.click("Goal: as it is drawn")
        wait_until(lambda: not person.simulator.value("next.goal"))


def pixel(place, camera, look_at):
    """Where the window shows a place `(3,)`."""
    toward = (look_at - camera) / np.linalg.norm(look_at - camera)
    right = np.cross(toward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    x, y, depth = (axis @ (place - camera) for axis in (right, np.cross(right, toward), toward))
    scale = HEIGHT / 2 / np.tan(stage.FIELD / 2) / depth
    return WIDTH / 2 + scale * x, HEIGHT / 2 - scale * y


def drag(page, begin, end):
    """With the mouse, slowly enough for software that draws the scene."""
    page.mouse.move(*begin)
    page.wait_for_timeout(1000)
    page.mouse.down()
    for share in np.linspace(0.1, 1.0, 10):
        page.mouse.move(*(1 - share) * np.array(begin) + share * np.array(end))
        page.wait_for_timeout(200)
    page.mouse.up()


def look_back(browser):
    """Every control of the time line."""
    page = browser.page
    browser.choose("episode", "episode 1")
    page.get_by_text(re.compile(r"policy · tick")).wait_for()
    browser.check("play", False)
    browser.fill("step", "40")
    page.get_by_text(re.compile(r"^0\.50 s · .*\|η\|")).wait_for()
    browser.fill("step", "396")
    browser.check("play", True)
    page.get_by_text(re.compile(r"^5\.00 s")).wait_for()
    wait_until(lambda: not browser.is_checked("play"))  # it has come to the end
    browser.press("p")
    wait_until(lambda: browser.is_checked("play"))
    browser.choose("episode", "episode 0")
    page.get_by_text("random actions: nothing was believed").wait_for()
    browser.press("l")
    page.get_by_text("random actions: nothing was believed").wait_for(state="detached")
    browser.choose("episode", "episode 1")
    page.get_by_text(re.compile(r"policy · tick")).wait_for()
    browser.choose("episode", "live")
    page.get_by_text(re.compile(r"policy · tick")).wait_for(state="detached")


def steer(browser, run, person):
    """What flies next, how it explores, and when: the run is paused, and goes on."""
    page, done = browser.page, len(episodes(run))
    browser.choose("next bundle", "bundle_000")
    page.get_by_text("supervisor next.bundle: bundle_000").wait_for()
    assert person.supervisor.value("next.bundle") == "bundle_000"
    used = page.get_by_text(re.compile(r"^bundle_\d+$")).first.inner_text()
    before = bundle_name(int(used.removeprefix("bundle_")) - 1)
    browser.click("Roll back by one")
    page.get_by_text(f"supervisor next.bundle: {before}").wait_for()
    assert person.supervisor.value("next.bundle") == before
    browser.choose("next strategy", "thompson")
    page.get_by_text("learner strategy: thompson").wait_for()
    assert person.learner.value("strategy") == "thompson"
    assert len(episodes(run)) == done, "paused"
    browser.check("pause after this episode", False)
    wait_until(lambda: len(episodes(run)) > done)
    assert bundle_name(episodes(run)[done].flown) == before
    wait_until(lambda: run.bundle(done + 1).is_dir())
    assert read_manifest(run.bundle(done + 1)).strategy == "thompson"
    browser.choose("next bundle", "bundle_000")
    wait_until(lambda: episodes(run)[-1].flown == 0)
    browser.choose("next bundle", "newest")
    wait_until(lambda: episodes(run)[-1].flown == episodes(run)[-1].index)
