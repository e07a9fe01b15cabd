"""The documentation's pictures of the page, taken in a browser where they are wished for.

`HUCRL_SCREENSHOTS=1 pytest test/test_page_pictures.py` plays the runs that are shown, below
build/pictures, where there are none yet.
"""

import os
import re
from io import BytesIO

import pytest
from browser import SCREENSHOTS, needs_chromium, window
from PIL import Image
from quick_run import Up, Watch

from hucrl_ros.config.files import share_directory
from hucrl_ros.run.folder import RunFolder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ros,
    pytest.mark.browser,
    needs_chromium,
    pytest.mark.skipif(not os.environ.get(SCREENSHOTS), reason=f"{SCREENSHOTS} is not set"),
]
ROOT = share_directory()
IMAGES = ROOT / "docs" / "images"
DESK, PHONE, FILM = (1280, 800), (390, 844), (960, 600)
"""Of windows [pixels]; the film has three quarters of it."""
SMALL = (720, 450)
"""Of each of two that stand side by side."""
STEP = 78
"""On its way up."""
FILMED, PICTURE_MS = range(0, 161, 4), 150
"""Steps that the film shows, and for how long each [ms]."""
COLOURS = 255
DRAWN_MS = 3000
"""For software to draw what has changed."""


def run_of(name, task, episodes):
    """A finished run, played now if there is none."""
    run = RunFolder(ROOT / "build" / "pictures" / name / "first")
    if not run.summary.is_file():
        run.root.parent.mkdir(parents=True, exist_ok=True)
        with Up(task, "--episodes", str(episodes), "--no-figures", out=run.root) as up:
            assert up.end() == 0, up.stderr
    return run.root


def look(browser, step):
    """At a step of the newest episode, once all of what was believed is known."""
    browser.page.add_style_tag(content=".mantine-Notifications-root { display: none }")
    # A browser begins with the newest episode, played.
    browser.page.get_by_text("play", exact=True).wait_for()
    browser.check("play", False)
    browser.page.get_by_text(re.compile("recomputing")).wait_for(state="detached")
    browser.fill("step", str(step))
    browser.page.get_by_text(re.compile(r"\|η\| [\d.]+$")).wait_for()
    assert not browser.is_checked("play")
    browser.page.wait_for_timeout(DRAWN_MS)


def test_the_pendulum_in_its_first_learned_episode(tmp_path):
    run = run_of("pendulum", "pendulum", 2)
    with Watch(run) as watch, window(tmp_path / "desk", *DESK) as browser:
        browser.open(watch.address)
        look(browser, STEP)
        browser.keep("watch")
        browser.check("dark", True)
        browser.page.wait_for_timeout(DRAWN_MS)
        browser.keep("watch_dark")
        browser.check("dark", False)
        browser.page.set_viewport_size({"width": FILM[0], "height": FILM[1]})
        browser.page.wait_for_timeout(DRAWN_MS)
        film(browser)
    with Watch(run) as watch, window(tmp_path / "phone", *PHONE) as browser:
        browser.open(watch.address)
        look(browser, STEP)
        browser.keep("watch_phone")


def test_arms_on_their_way(tmp_path):
    own = ROOT / "config" / "examples" / "planar_arm" / "planar_arm.yaml"
    pictures = []
    for name, task, step in (("reacher", "reacher", 12), ("planar_arm", str(own), 20)):
        run = run_of(name, task, 4)
        with Watch(run) as watch, window(tmp_path / name, *DESK) as browser:
            browser.open(watch.address)
            look(browser, step)
            pictures.append(reduced(browser.picture(), SMALL))
    both = Image.new("RGB", (2 * SMALL[0], SMALL[1]))
    for column, picture in enumerate(pictures):
        both.paste(picture, (column * SMALL[0], 0))
    both.save(IMAGES / "watch_arms.png", optimize=True)


def reduced(picture, size):
    """A window's picture, smaller."""
    shown = Image.open(BytesIO(picture)).convert("RGB")
    return shown.resize(size, Image.Resampling.LANCZOS)


def film(browser):
    """Write the newest episode as a film."""
    size = (FILM[0] * 3 // 4, FILM[1] * 3 // 4)
    frames = []
    for step in FILMED:
        browser.fill("step", str(step))
        browser.page.get_by_text(re.compile(f"^{step / 80:.2f} s")).wait_for()
        browser.page.wait_for_timeout(300)
        frames.append(reduced(browser.picture(), size))
    # One palette for all: what stands still is the same in each picture, and costs nothing. It
    # covers the colours of small things as well, which most pixels don't have.
    palette = frames[STEP // 4].quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
    first, *others = [x.quantize(palette=palette, dither=Image.Dither.NONE) for x in frames]
    path = IMAGES / "watch.gif"
    first.save(path, save_all=True, append_images=others, duration=PICTURE_MS, loop=0)
    assert path.stat().st_size < 1_500_000
