"""What was believed in past episodes: recomputed from their bags, in the background."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.reader import Episode
from hucrl_ros.controller.examiner import load_examined
from hucrl_ros.controller.ticks import NANOSECONDS, Source
from hucrl_ros.errors import HucrlError
from hucrl_ros.page.belief import Belief, Believer, believed
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.page.past import Past
from hucrl_ros.page.rhythm import Rhythm
from hucrl_ros.run.replay import Recalled, recall

Array = NDArray[np.float64]
KEPT = 4
"""Episodes whose plans are remembered, or those that somebody looks at, if they are more."""


class Moment(NamedTuple):
    """A step of a past episode."""

    state: Array
    """`(p,)`"""
    untold: Array
    """`(k,)` positions that it doesn't tell, see `Kinematics.way`."""
    belief: Belief | None
    """Of the bundle that played; None: it was random, or hasn't been recomputed yet."""
    way: Array
    """`(T, 3)` of the tip, from then on, for as long as the plan reached [m]."""
    told: str
    """One line."""


class Remembered:
    """A past episode, and the plans of its ticks as far as they are recomputed."""

    def __init__(self, episode: Episode, kinematics: Kinematics, period: float) -> None:
        self.episode = episode
        self.untold = kinematics.way(episode.states)
        """`(T + 1, k)` positions that the states don't tell."""
        self.answers = answers(episode, period)
        """Tick of each state, `T + 1` of them; None: it has none."""
        self.tips = kinematics.tips(episode.states)
        """`(T + 1, 3)` way of the tip [m]."""
        self.plans: dict[int, Recalled] = {}
        """By step."""
        self.believer: Believer | None = None
        """Plans anew, where the bag doesn't tell how its ticks were computed."""
        self.progress = "recomputing what was believed"
        """Empty when that is done."""

    @property
    def steps(self) -> int:
        """Transitions."""
        return len(self.episode.actions)


class Memory:
    """Recalls episodes of a run, one after another."""

    def __init__(
        self,
        past: Past,
        kinematics: Kinematics,
        rhythm: Rhythm,
        watched: Callable[[], Collection[int]] = lambda: (),
    ) -> None:
        """Nothing is read yet.

        Args:
            past: Has the episodes.
            kinematics: Used by the threads that call `moment`.
            rhythm: When there is time.
            watched: Tells which episodes somebody looks at now.
        """
        self._past, self._kinematics, self._rhythm = past, kinematics, rhythm
        self._watched = watched
        self.period = past.period
        """Of control [s]."""
        self._known: OrderedDict[int, Remembered] = OrderedDict()
        self._worker = ThreadPoolExecutor(1, "recall")
        self._closed = threading.Event()

    def close(self) -> None:
        """Recall nothing more."""
        self._closed.set()
        self._worker.shutdown(wait=True, cancel_futures=True)

    def episode(self, index: int) -> Remembered:
        """A finished episode; what was believed follows in the background.

        Raises:
            BagError: its bag can't be read.
        """
        if index not in self._known:
            found = self._past.episode(index)
            remembered = Remembered(found, self._kinematics, self.period)
            self._known[index] = remembered
            self._worker.submit(self._recall, index, weakref.ref(remembered))
            # One that is looked at would be read again at once.
            watched = (*self._watched(), index)
            spare = [each for each in self._known if each not in watched]
            for oldest in spare[: max(len(self._known) - KEPT, 0)]:
                del self._known[oldest]
        self._known.move_to_end(index)
        return self._known[index]

    def moment(self, index: int, step: int) -> Moment:
        """What was, and what was believed, at a step.

        Raises:
            BagError: the bag can't be read.
        """
        known = self.episode(index)
        step = min(max(step, 0), known.steps)
        state, untold, belief = known.episode.states[step], known.untold[step], None
        answer = known.answers[step]
        recalled = None if answer is None else known.plans.get(int(answer["step"]))
        if recalled is not None and recalled.plan is not None:
            begin = recalled.plan.states[0].astype(np.float64)
            belief = believed(recalled.bundle, begin, untold, recalled.plan, self._kinematics)
        elif recalled is None and known.believer is not None and step < known.steps:
            believer = known.believer
            belief = believer.from_state(state, untold, self._kinematics, self._rhythm)
        ahead = len(belief.expected) if belief is not None else 2
        way = known.tips[step : step + ahead]
        return Moment(state, untold, belief, way, self._told(known, step))

    def _told(self, known: Remembered, step: int) -> str:
        stamps_ns, said = known.episode.stamps_ns, known.answers[step]
        parts = [f"{(stamps_ns[step] - stamps_ns[0]) / NANOSECONDS:.2f} s"]
        if said is not None:
            parts += [
                Source(int(said["source"])).name.lower(),
                f"tick {said['tick_ms']:.1f} ms",
                f"|η| {said['hallucination']:.2f}",
            ]
        if known.progress:
            parts.append(known.progress)
        return " · ".join(parts)

    def _recall(self, index: int, asked: "weakref.ref[Remembered]") -> None:
        remembered = asked()
        if remembered is None:  # forgotten while it waited for others
            return
        flown = self._past.run.flown(index, remembered.episode.bundle)
        manifest = self._past.manifest(flown)
        if manifest is not None and manifest.random:
            remembered.progress = "random actions: nothing was believed"
            return
        recalled: Recalled | None = None
        try:
            for recalled in recall(self._past.bag(index)):
                step = recalled.step
                remembered.plans[step] = recalled
                forgotten = self._known.get(index) is not remembered
                if forgotten or self._closed.wait(self._rhythm.wait()):
                    return
                if step % 10 == 0:
                    share = step / max(remembered.steps, 1)
                    remembered.progress = f"recomputing what was believed: {share:.0%}"
            remembered.progress = ""
        except HucrlError:
            # The bag doesn't tell all that plans depended on, or not from some step on.
            try:
                path, since = self._past.run.bundle(flown), ""
                if recalled is not None:
                    since = f" from step {recalled.step + 1} on"
                bundle = load_examined(path) if recalled is None else recalled.bundle
                remembered.believer = Believer(bundle)
                remembered.progress = f"planned anew{since}: the bag doesn't tell how it was"
            except HucrlError as error:
                remembered.progress = str(error)


def answers(episode: Episode, period: float) -> list[np.void | None]:
    """The tick that answered each state; None: none did.

    Ticks are counted, and of states some are missing or unanswered: stamps alone tell. States of
    a driver faster than control lie on multiples of the period [s], ticks beside them.
    """
    states_ns, ticks_ns = episode.stamps_ns, episode.ticks["stamp_ns"]
    after = np.searchsorted(ticks_ns, states_ns).clip(max=len(ticks_ns) - 1)
    before = (after - 1).clip(min=0)
    later = np.abs(ticks_ns[after] - states_ns) <= np.abs(ticks_ns[before] - states_ns)
    nearest = np.where(later, after, before)
    near = np.abs(ticks_ns[nearest] - states_ns) < period * NANOSECONDS / 2
    return [episode.ticks[k] if n else None for k, n in zip(nearest, near, strict=True)]
