"""What somebody who knows the token may do; without it none of this exists in their browser."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from viser import ClientHandle, GuiEvent, Icon, TransformControlsEvent, TransformControlsHandle

from hucrl_ros.config.schema import StrategyName
from hucrl_ros.page.door import Door
from hucrl_ros.page.inputs import put, say
from hucrl_ros.page.look import VERMILION
from hucrl_ros.page.wishes import (
    NEXT_BUNDLE,
    NEXT_GOAL,
    PAUSE,
    STRATEGY,
    Control,
    Setting,
    Stop,
    Value,
    Wishes,
)
from hucrl_ros.run.folder import numbered

NEWEST = "newest"
DRAWN = "as it is drawn"
NOBODY = "this run has no nodes now"


class Controls:
    """Of one browser: a door, and what is behind it."""

    def __init__(
        self,
        client: ClientHandle,
        wishes: Wishes,
        token: str,
        goal: NDArray[np.float64] | None,
        size: float,
    ) -> None:
        """Ask for the token.

        Args:
            client: The browser.
            wishes: Where to leave what is wanted.
            token: To be entered.
            goal: `(3,)` where the model has the goal [m]; None: the robot has none.
            size: Of the robot [m].
        """
        self._client, self._wishes = client, wishes
        self._door = Door(token)
        self._goal, self._size = goal, size
        self._inside: _Inside | None = None
        gui = client.gui
        self._ask = gui.add_folder("Controls", order=0.8, expand_by_default=False)
        with self._ask:
            self._text = gui.add_text("token", "", hint="printed where the page was started")
            enter = gui.add_button("Enter", icon=Icon.KEY)
            self._answer = gui.add_html("")
        enter.on_click(lambda _: self._knock())

    def advance(self, bundles: Sequence[str], used: str) -> None:
        """Show what can be had now.

        Args:
            bundles: Folder names of the run's.
            used: The one in use; empty: unknown.
        """
        if self._inside is not None:
            self._inside.advance(bundles, used)

    def _knock(self) -> None:
        given = self._text.value
        if self._inside is not None or not given:
            return
        put(self._text, "")
        early = self._door.shut_for > 0.0  # it isn't compared then
        if not self._door.opens(given):
            why, wait = "too early" if early else "wrong token", math.ceil(self._door.shut_for)
            say(self._answer, f"{why}; the next one counts in {wait} s")
            return
        with self._client.atomic():  # nothing can be clicked that isn't listened to yet
            self._ask.remove()
            self._inside = _Inside(self._client, self._wishes, self._goal, self._size)


class _Inside:
    """The controls themselves."""

    def __init__(
        self,
        client: ClientHandle,
        wishes: Wishes,
        goal: NDArray[np.float64] | None,
        size: float,
    ) -> None:
        self._wishes, self._used, self._goal = wishes, "", goal
        gui = client.gui
        with gui.add_folder("Controls", order=0.8):
            stop = gui.add_button("Stop", color=VERMILION, icon=Icon.HAND_STOP, hint="key S")
            again = gui.add_button("Let it go on", icon=Icon.PLAYER_PLAY)
            self._pause = gui.add_checkbox("pause after this episode", False)
            self._bundle = gui.add_dropdown("next bundle", (NEWEST,))
            self._back = gui.add_button("Roll back by one", icon=Icon.ARROW_BACK_UP)
            self._strategy = gui.add_dropdown("next strategy", get_args(StrategyName))
            self._drawn = gui.add_button(f"Goal: {DRAWN}", visible=goal is not None)
            self._answer = gui.add_html("")
        self._inputs = {
            PAUSE: (self._pause,),
            NEXT_BUNDLE: (self._bundle, self._back),
            STRATEGY: (self._strategy,),
            NEXT_GOAL: (self._drawn,),
        }
        self._shown: dict[Control, Value | None] = {}
        self._handle = _goal_handle(client, goal, size)
        stop.on_click(lambda _: self._stop(True))
        again.on_click(lambda _: self._stop(False))
        gui.add_command("Stop the robot", hotkey="S").on_trigger(lambda _: self._stop(True))
        self._pause.on_update(lambda by: self._choose(by, PAUSE, self._pause.value))
        self._bundle.on_update(
            lambda by: self._choose(by, NEXT_BUNDLE, _bundle_of(self._bundle.value))
        )
        self._back.on_click(lambda _: self._roll_back())
        self._strategy.on_update(lambda by: self._choose(by, STRATEGY, self._strategy.value))
        self._drawn.on_click(lambda _: self._set(NEXT_GOAL, ()))
        if self._handle is not None:
            self._handle.on_update(self._dragged)

    def advance(self, bundles: Sequence[str], used: str) -> None:
        """As of `Controls`."""
        self._used = used
        wished = self._wishes.standing(NEXT_BUNDLE)
        # It may be newer than the last look at the folder.
        newer = [wished] if isinstance(wished, str) and wished not in ("", *bundles) else []
        options = (NEWEST, *newer, *reversed(bundles))
        if self._bundle.options != options:
            kept = self._bundle.value
            self._bundle.options = options
            put(self._bundle, kept if kept in options else NEWEST)
        for control, inputs in self._inputs.items():
            standing = self._wishes.standing(control)
            if control in self._shown and self._shown[control] == standing:
                continue
            self._shown[control] = standing
            for each in inputs:
                each.disabled = standing is None
            self._follow(control, standing)
        missing = [c for c in self._inputs if self._wishes.standing(c) is None]
        if self._handle is not None:
            self._handle.visible = NEXT_GOAL not in missing

    def _follow(self, control: Control, standing: Value | None) -> None:
        """Show what a node's parameter stands at: somebody else may have set it."""
        if control == PAUSE and isinstance(standing, bool):
            put(self._pause, standing)
        elif control == NEXT_BUNDLE and isinstance(standing, str):
            put(self._bundle, standing if standing in self._bundle.options else NEWEST)
        elif control == STRATEGY and standing in self._strategy.options:
            put(self._strategy, str(standing))
        elif self._handle is not None and self._goal is not None and isinstance(standing, tuple):
            self._handle.position = np.array(standing) if standing else self._goal

    def _stop(self, stopped: bool) -> None:
        done = "asked to stop" if stopped else "it may go on, after a reset"

        def answer(reason: str) -> None:
            self._tell(f"in vain: {reason}" if reason else done)

        if not self._wishes.add(Stop(stopped, answer)):
            self._tell(NOBODY)

    def _choose(self, by: GuiEvent[Any], control: Control, value: Value) -> None:
        if by.client is not None:  # else the page has shown what somebody else chose
            self._set(control, value)

    def _set(self, control: Control, value: Value) -> None:
        name = f"{control.node} {control.parameter}"

        def answer(reason: str) -> None:
            shown = ", ".join(map(str, value)) or DRAWN if isinstance(value, tuple) else value
            told = f"refused: {reason}" if reason else f"{shown if shown != '' else NEWEST}"
            self._shown.pop(control, None)  # where it was refused, it is shown as before
            self._tell(f"{name}: {told}")

        if not self._wishes.add(Setting(control, value, answer)):
            self._tell(NOBODY)

    def _roll_back(self) -> None:
        """Fly the bundle before the one in use."""
        known = [name for name in reversed(self._bundle.options) if name != NEWEST]
        earlier = [name for name in known if numbered(name) < numbered(self._used)]
        if not earlier:
            self._tell("there is no earlier bundle")
            return
        self._set(NEXT_BUNDLE, earlier[-1])

    def _dragged(self, event: TransformControlsEvent) -> None:
        if event.phase == "end" and self._handle is not None:
            place = tuple(round(float(x), 4) for x in self._handle.position)
            self._set(NEXT_GOAL, place)

    def _tell(self, line: str) -> None:
        say(self._answer, line)


def _goal_handle(
    client: ClientHandle, goal: NDArray[np.float64] | None, size: float
) -> TransformControlsHandle | None:
    if goal is None:
        return None
    return client.scene.add_transform_controls(
        "/next_goal", scale=0.18 * size, disable_rotations=True, position=goal, depth_test=False
    )


def _bundle_of(shown: str) -> str:
    return "" if shown == NEWEST else shown
