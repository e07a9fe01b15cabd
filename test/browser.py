"""A Chromium without a screen, driven by Playwright, and which addresses it asked."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlparse

import pytest
from waiting import wait_until

ARGUMENTS = (
    "--no-sandbox",  # a test runs as root, too, and opens a page of ours only
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 240_000
"""Software draws the scene, on a loaded machine."""
SCREENSHOTS = "HUCRL_SCREENSHOTS"
"""Variable: 1 has the tests write the documentation's pictures, in docs/images."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here; `apt-get install chromium` brings one"
)


class Browser:
    """One window."""

    def __init__(self, context) -> None:
        self.context = context
        self.asked: list[str] = []
        """Every address that it asked for anything."""
        context.set_default_timeout(PATIENCE_MS)
        self.page = context.new_page()
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("websocket", lambda socket: self.asked.append(socket.url))

    def open(self, address: str) -> None:
        """Show a page, coarsely drawn where nobody keeps the pictures: software draws it."""
        coarse = "" if os.environ.get(SCREENSHOTS) else "?fixedDpr=0.2"
        self.page.goto(address + coarse)

    def foreign(self) -> list[str]:
        """Addresses that aren't on this machine."""
        return [
            url
            for url in self.asked
            if urlparse(url).scheme not in ("data", "blob")
            and urlparse(url).hostname not in ("127.0.0.1", "localhost")
        ]

    def picture(self) -> bytes:
        """The window as a PNG."""
        return self.page.screenshot(timeout=PATIENCE_MS)

    def keep(self, name: str) -> None:
        """Write the window to docs/images, where that is wanted."""
        if os.environ.get(SCREENSHOTS):
            folder = Path(__file__).parents[1] / "docs" / "images"
            (folder / f"{name}.png").write_bytes(self.picture())

    def click(self, words: str) -> None:
        """Click the button with these words, without waiting for the scene's next picture."""
        self.page.get_by_role("button", name=words).dispatch_event("click")

    def fill(self, label: str, text: str) -> None:
        """Type into the field beside a label, again where it was not yet listening."""

        def filled():
            self._field(label).fill(text, force=True)
            self.page.wait_for_timeout(200)  # viser's client keeps the newest change of 50 ms
            return self._field(label).input_value() == text

        wait_until(filled)

    def choose(self, label: str, option: str) -> None:
        """One of those that drop down beside a label."""
        field = self._field(label)
        field.evaluate("field => field.scrollIntoView({block: 'center'})")  # or nothing drops
        field.dispatch_event("click")
        options = self.page.get_by_role("option", name=option, exact=True)
        options.last.dispatch_event("click")

    def press(self, key: str) -> None:
        """A key, for the page and for none of its fields."""
        self.page.evaluate("document.activeElement.blur()")
        self.page.keyboard.press(key)

    def is_checked(self, label: str) -> bool:
        """Whether the box beside a label is ticked."""
        return self._field(label).is_checked()

    def check(self, label: str, wanted: bool) -> None:
        """Tick it, or not; again where it was not yet listening."""

        def done():
            if self.is_checked(label) != wanted:
                self._field(label).dispatch_event("click")
                self.page.wait_for_timeout(300)
            return self.is_checked(label) == wanted

        wait_until(done)

    def _field(self, label: str):
        return self.page.locator(
            f"//label[text()='{label}']/following::input[not(@type='hidden')][1]"
        )

    def note_rows(self) -> None:
        """From now on, when each row of the table of episodes was seen first."""
        self.page.evaluate(
            """() => { window.rows = {}; setInterval(() => {
                for (const row of document.querySelectorAll("tbody tr"))
                    window.rows[row.cells[0].innerText] ??= Date.now() / 1000;
            }, 10) }"""
        )

    def row_seen(self, index: int) -> float:
        """When it was [s since the epoch]; waits for it."""
        self.page.wait_for_function("k => window.rows[k]", arg=str(index), polling=50)
        return self.page.evaluate("k => window.rows[k]", str(index))


@contextmanager
def window(folder: Path, width: int = 500, height: int = 400) -> Iterator[Browser]:
    """A browser that knows nothing of others; `folder` is its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(folder),
            executable_path=CHROMIUM,
            headless=True,
            viewport={"width": width, "height": height},
            args=list(ARGUMENTS),
            timeout=PATIENCE_MS,
        )
        try:
            yield Browser(context)
        finally:
            context.close()
