"""Plays a bundle: one state in, one action out."""

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.braking import BrakingRule, braking_rule
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.engines.engine import OnnxEngine, make_engine
from hucrl_ros.controller.model_bias import ModelBias
from hucrl_ros.controller.passage import Transition
from hucrl_ros.controller.random_efforts import RandomEfforts
from hucrl_ros.controller.safety_filter import SafetyFilter, make_safety_filter
from hucrl_ros.controller.surprise import Surprise
from hucrl_ros.controller.ticks import LATE, NEVER_BEGUN, Source, Tick
from hucrl_ros.controller.timing import Budget, DeadlinePlanner, InForce, Planned
from hucrl_ros.planners import Plan, make_planner

Array = NDArray[np.float64]

WARM_UP_TICKS = 3
GRACE = 0.25
"""Share of what the budget leaves of the period that an iteration may take longer than expected;
the rest is for sending what is sent in its place."""
REMEMBERED_CHECKS = 25
"""Ticks of the safety filter whose median duration planning leaves to the next one."""
LOOKING = 0.8
"""Share of the period after which the safety filter looks for nothing better any more."""


class BundleSystem:
    """The system that a bundle imagines, for planners that need more of it than rollouts.

    See `planners.base.System`.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._only_rewards = onnxruntime.RunOptions()
        self._only_rewards.only_execute_path_to_fetches = True
        self.steps = bundle.manifest.steps
        self.discount = bundle.manifest.discount
        self.angles = bundle.manifest.angles
        self.state_bounds = bundle.manifest.bounds

    def step(
        self, states: Array, actions: Array, noise: Array | float = 0.0
    ) -> tuple[Array, Array]:
        """Next states `(N, p)` and rewards `(N,)` of the strategy's step."""
        following, rewards = self._bundle.run("step", **self._inputs(states, actions, noise))
        return following.astype(np.float64), rewards.astype(np.float64)

    def rewards(self, states: Array, actions: Array) -> Array:
        """Rewards `(N,)`; the model isn't run where the strategy adds nothing to them."""
        session = self._bundle.graphs["step"]
        inputs = self._inputs(states, actions)
        (rewards,) = session.run(["reward"], inputs, self._only_rewards)
        return np.asarray(rewards, np.float64)

    def values(self, states: Array) -> Array:
        """Values `(N,)` of the critic."""
        (values,) = self._bundle.run("critic", state=states.astype(np.float32))
        return values.astype(np.float64)

    def _inputs(
        self, states: Array, actions: Array, noise: Array | float = 0.0
    ) -> dict[str, NDArray[np.float32]]:
        return {
            "state": states.astype(np.float32),
            "applied": actions.astype(np.float32),
            "noise": np.full(self._bundle.manifest.spec.predicted_dim, noise, np.float32),
        }


class Claim(NamedTuple):
    """What a bundle claims of an action in a state."""

    pair: NDArray[np.float32]
    """`(p + q,)` state and action."""
    mean: NDArray[np.float32]
    """`(m,)`"""
    epistemic: NDArray[np.float32]
    """`(m,)`"""
    aleatoric: NDArray[np.float32]
    """`(m,)`"""


def _pair(state: Array, action: Array) -> NDArray[np.float32]:
    return np.concatenate([state, action]).astype(np.float32)


class Agent:
    """Plans each tick within a budget.

    Out of budget it sends what the previous plan has for this period, and when that is used up
    π(s). The budget is looked at between iterations; where an `executor` plans, a tick doesn't
    wait for one that stalls longer than `GRACE` allows, nor for one of which it is known that it
    takes too long: that one begins when the command has been sent, for the next tick.
    """

    def __init__(
        self,
        bundle: Bundle,
        budget_s: float | None,
        clock: Callable[[], float] = time.perf_counter,
        executor: Executor | None = None,
        engine: str = "auto",
        threads: int = 1,
        safety: SafetySettings | None = None,
    ) -> None:
        """Play `bundle`.

        Args:
            bundle: What to play.
            budget_s: Time for planning in a tick [s]; None: no limit, so that equal states and
                seeds give equal actions.
            clock: Seconds from any start.
            executor: Has one thread, which plans; None: the calling thread does. Ignored where
                there is no limit, and nothing to plan.
            engine: Engine that rolls out, and
            threads: its threads; see `engines.engine.make_engine`.
            safety: What is in force; None: the bundle's.
        """
        self.bundle = bundle
        self.fallbacks = 0
        """Ticks of this episode that had no time to plan, or no finite plan."""
        manifest = bundle.manifest
        self.safety = safety or manifest.safety
        """What filter and braking rule go by, and when a surprise ends an episode."""
        self.surprise = Surprise(manifest, self.safety)
        """Whether the robot does what the bundle claims."""
        self.bias = ModelBias(manifest)
        """What the model gets wrong lately; where commands act late, predictions have it."""
        self._spec = manifest.spec
        self._limits = np.asarray(manifest.effort_limits)
        self.timed, self.threads = budget_s is not None, threads
        """Whether time decides how much a tick plans; threads of the engine."""
        self._target_std = np.asarray(manifest.target_std, np.float32)
        self._planner = make_planner(manifest.planner, manifest.spec.predicted_dim, manifest.width)
        self._planner.prepare(BundleSystem(bundle))
        self._engine = make_engine(
            bundle, self._planner.particles, manifest.planner.horizon, engine, threads
        )
        self.compiled = not isinstance(self._engine, OnnxEngine)
        """Which engine rolls out."""
        self._clock = clock
        self._checks_s: deque[float] = deque(maxlen=REMEMBERED_CHECKS)
        self._budget = Budget(budget_s, clock)
        self._fan_budget = Budget(LOOKING * manifest.period if self.timed else None, clock)
        largest = manifest.random_share * self._limits
        self._random = RandomEfforts(largest, manifest.random_bandwidth, manifest.period)
        self._make_rules()
        # To follow the policy takes less time than to have another thread do it.
        waits = budget_s is not None and manifest.planner.algorithm != "policy"
        self._deadline = DeadlinePlanner(executor if waits else None)
        self._grace_s = GRACE * (manifest.period - (budget_s or 0.0))
        nothing = np.zeros(0, np.float32)
        self._claim = Claim(nothing, nothing, nothing, nothing)
        self._plan: Plan | None = None
        self._arrived: Plan | None = None
        self._postponed: Callable[[], Plan | None] | None = None
        self._plan_state: Array = np.zeros(manifest.spec.state_dim)
        self._ahead: Array | None = None  # where the newest action takes effect
        self._asked_state: Array = self._plan_state
        self._plan_age = self._asked_age = self._unplanned = 0
        self.start_episode(manifest.seed)

    def start_episode(self, seed: int) -> None:
        """Forget the last plan and draw from a generator of this seed and the bundle's episode."""
        self._deadline.finish()
        self._rng = np.random.default_rng((seed, self.bundle.manifest.episode))
        self._planner.reset(self._rng)
        self._random.reset()
        if self._filter is not None:
            self._filter.start_episode()
        if self._braking is not None:
            self._braking.reset()
        self.surprise.reset()
        self.bias.reset()
        self._plan, self._plan_age, self._unplanned = None, 0, 0
        self._arrived = self._postponed = self._ahead = None
        self.fallbacks = 0

    def _make_rules(self) -> None:
        """Safety filter and braking rule, by what is in force."""
        self._filter = make_safety_filter(self.bundle, self.safety, self.compiled)
        random = self.bundle.manifest.random
        self._braking = braking_rule(self.bundle, self.safety) if random else None

    def go_on_from(self, other: "Agent") -> None:
        """Take over from `other` in the middle of an episode, after `start_episode`."""
        self._go_on(other._filter, other._braking)

    def _go_on(self, before: SafetyFilter | None, braking: BrakingRule | None) -> None:
        if self._filter is not None and before is not None:
            self._filter.go_on_from(before)
        elif self._filter is not None and braking is not None:
            self._filter.learn_from(braking)
        if self._braking is not None and braking is not None:
            self._braking.go_on_from(braking)

    def obey(self, safety: SafetySettings) -> None:
        """Filter and braking rule go by other limits from now on; takes about 10 ms."""
        if safety != self.safety:
            self.safety, before, braking = safety, self._filter, self._braking
            self._make_rules()
            self._go_on(before, braking)

    def sent(
        self, action: Array, coming: Sequence[InForce] = (), command: Array | None = None
    ) -> bool:
        """`(q,)` has been sent as a `command`, whatever `act` chose, after those `coming`.

        Returns:
            Whether it is what the safety filter let through, if there is one.
        """
        if self._braking is not None:
            self._braking.obey(action, coming)
        if self._filter is None:
            return True
        # Of a position the filter looked at the way from where it takes effect; before the first
        # tick that is nowhere, least of all where the episode before ended.
        if command is not None and self._ahead is not None:
            action = self._spec.to_action(command, self._ahead)
        return self._filter.obey(action)

    def plan_ahead(self) -> None:
        """The command has been sent: begin the plan that had no time before, for the next tick."""
        if self._postponed is not None:
            self._budget.allow_one()
            self._deadline.run(self._postponed, None)
            self._postponed = None

    def warm_up(self) -> None:
        """Run some ticks, so that the first one of an episode isn't slow; then forget them.

        `start_episode` has to follow.
        """
        # In this thread: another bundle's agent may be using the planning one.
        deadline, self._deadline = self._deadline, DeadlinePlanner()
        coming = [InForce(np.zeros(len(self._limits)), 1.0)]
        for _ in range(WARM_UP_TICKS):
            self._budget.forget()  # The first iterations take longer than the later ones will,
            self._checks_s.clear()
            tick = self.act(np.zeros_like(self._plan_state), coming=coming)
            still = Transition(self._plan_state, tick.action, self._plan_state, 0.0)
            self.uncertainty(self._plan_state, tick.action, [still])
            self.expected_plan()
        self._budget.forget()  # and all of them longer than in a thread with priority.
        self._fan_budget.forget()
        self._deadline = deadline
        self.start_episode(self.bundle.manifest.seed)

    def act(
        self,
        state: Array,
        spent_s: float = 0.0,
        coming: Sequence[InForce] = (),
        periods: int = 1,
    ) -> Tick:
        """Choose the action for the next control period.

        Args:
            state: `(p,)`, finite.
            spent_s: Part of the budget that is gone already [s].
            coming: Commands that the robot is under before this one takes effect.
            periods: Since the last call, by the stamps [control periods].
        """
        for rule in (self._filter, self._braking):
            if rule is not None and periods > 1:
                rule.miss()
        if self.bundle.manifest.random:
            tick = Tick(self._random.draw(self._rng), Source.RANDOM, 0, math.nan, 0.0, None)
            if self._braking is None:
                return tick
            found = self._braking.check(state, tick.action, coming)
            return tick._replace(action=found.action, filtered=found.constraint + 1)
        pending, busy = self._deadline.pending, self._deadline.busy
        decided = {"late": float(self._budget.granted)} if pending and not busy else {}
        if coming:
            decided |= {f"bias_{k}": float(x) for k, x in enumerate(self.bias.value) if x}
        self._grow_older(periods, busy)
        if not busy:
            filter_s = statistics.median(self._checks_s) if self._checks_s else 0.0
            self._budget.start(spent_s + filter_s)
        self._fan_budget.start(spent_s)
        self._ahead = ahead = self._predict(state, coming)
        tick = self._filtered(self._choose(ahead, busy, decided), ahead, state, coming)
        if not coming:
            return tick
        # Of a position it is the way from where the robot will be; whoever sends it goes by where
        # the robot is now.
        command = self._spec.to_command(tick.action, ahead)
        return tick._replace(action=self._spec.to_action(command, state))

    def allow(self, iterations: int | None, fans: int | None = None) -> None:
        """Let plans take so many `iterations` at most, and the safety filter so many `fans`.

        None: time decides alone.
        """
        self._budget.most, self._fan_budget.most = iterations, fans

    def _choose(self, ahead: Array, busy: bool, decided: dict[str, float]) -> Tick:
        """The action in a state `(p,)`; `busy`: an earlier plan is still being made.

        What time decides is added to `decided`.
        """
        plan, in_time, begun = Planned(None, False) if busy else self._make_plan(ahead)
        granted = self._budget.granted if in_time else LATE if begun else NEVER_BEGUN
        if self.timed and not busy and granted != (plan.iterations if plan else 0):
            decided["granted"] = float(granted)
        if plan is None:
            self.fallbacks += 1
            return self._fall_back(ahead)._replace(overrun=not in_time, decided=decided)
        self._plan, self._plan_age, self._plan_state = plan, 0, ahead
        planned = self.bundle.manifest.planner.algorithm != "policy"
        source = Source.PLANNED if planned else Source.POLICY
        return self._tick(plan.actions[0], source, plan)._replace(decided=decided)

    def _filtered(self, tick: Tick, ahead: Array, state: Array, coming: Sequence[InForce]) -> Tick:
        """The tick with an action behind which the robot can stop, from where it is `ahead`.

        There it comes from the `state` `(p,)` by what is `coming`.
        """
        if self._filter is None:
            return tick
        began = self._clock()
        wary = self.surprise.level > 0
        found = self._filter.check(ahead, tick.action, wary, state, coming, self._fan_budget.go_on)
        self._fan_budget.stop()
        took = self._clock() - began
        if self._fan_budget.refused:
            took += self._fan_budget.expected  # Else it would get no more next time.
            tick = tick._replace(decided={**tick.decided, "fans": float(self._fan_budget.granted)})
        self._checks_s.append(took)
        if not found.overruled:
            return tick._replace(proved=found.proved)
        return tick._replace(
            action=found.action, filtered=found.constraint + 1, proved=found.proved
        )

    def uncertainty(
        self, state: Array, action: Array, passed: Sequence[Transition] = ()
    ) -> tuple[float, float]:
        """Epistemic and aleatoric deviation of what efforts `(q,)` do in a state `(p,)`.

        Means over the state's entries, in standard deviations of the normalised targets; NaN for
        a random bundle. It takes a run of the model, so ask when the command has been sent. The
        same run tells how surprising the transitions that have `passed` were: see `surprise`, and
        `bias`.
        """
        if self.bundle.manifest.random:
            return math.nan, math.nan
        pairs = [_pair(each.state, each.action) for each in passed]
        # Where physics waits, what has passed is what was asked in the tick before.
        known = [np.array_equal(pair, self._claim.pair) for pair in pairs]
        others = [pair for pair, told in zip(pairs, known, strict=True) if not told]
        moved = [_pair(each.state, each.later) for each in passed if each.later is not None]
        run, cut = np.stack([_pair(state, action), *others, *moved]), self._spec.state_dim
        found = self.bundle.run("dynamics", state=run[:, :cut], action=run[:, cut:])
        newest, *rest = map(Claim, run, *found)
        fresh, later = iter(rest[: len(others)]), iter(rest[len(others) :])
        for each, told in zip(passed, known, strict=True):
            claim = self._claim if told else next(fresh)
            other = claim if each.later is None else next(later)
            self.surprise.see(each, *claim[1:], other.mean)
            self.bias.see(each, *claim[1:])
        self._claim = newest
        return (
            float(np.mean(newest.epistemic / self._target_std)),
            float(np.mean(newest.aleatoric / self._target_std)),
        )

    @property
    def plan(self) -> Plan | None:
        """The newest plan of this episode; None before the first."""
        return self._plan

    def expected_plan(self) -> NDArray[np.float32] | None:
        """`(H + 1, p)` that the ensemble's mean expects of the last plan's efforts (η = 0).

        It takes one run of the model a step, so ask for it outside the tick.
        """
        if self._plan is None:
            return None
        states = [self._plan_state.astype(np.float32)]
        shares = self._plan.actions[:, : len(self._limits)]
        for action in (shares * self._limits).astype(np.float32):
            states.append(self._expect(states[-1], action))
        return np.stack(states)

    def _grow_older(self, periods: int, busy: bool) -> None:
        """`periods` have passed; a plan that came too late for its tick is the newest one now."""
        self._plan_age += periods
        self._asked_age += periods
        self._unplanned += periods
        self._arrived = None if busy else self._deadline.late()
        if self._arrived is not None:
            self._plan, self._plan_age = self._arrived, self._asked_age
            self._plan_state = self._asked_state

    def _expect(
        self, state: NDArray[np.float32], action: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """`(p,)` that the ensemble's mean expects after a period; the context stays."""
        mean = self.bundle.run("dynamics", state=state[None], action=action[None])[0][0]
        return np.concatenate([mean, state[len(mean) :]])

    def _predict(self, state: Array, coming: Sequence[InForce]) -> Array:
        """Where the robot will be after `coming`: whole periods by the model, and its bias.

        Within a period it is taken to move along a straight line. The measured state is kept
        where the model leads nowhere.
        """
        ahead: NDArray[np.float32] = state.astype(np.float32)
        bias = np.zeros_like(ahead)
        bias[: len(self.bias.value)] = self.bias.value
        for command, share in coming:
            action = self._spec.to_action(command, ahead.astype(np.float64)).astype(np.float32)
            ahead = ahead + np.float32(share) * (self._expect(ahead, action) + bias - ahead)
        return ahead.astype(np.float64) if coming and np.isfinite(ahead).all() else state.copy()

    def _make_plan(self, state: Array) -> Planned:
        self._asked_state, self._asked_age = state, 0
        self._engine.set_state(state)
        work, left = partial(self._plan_now, self._unplanned), self._budget.left()
        if self._deadline.beside and self._budget.expected > left:
            # It would be waited for in vain, and is ready for the next tick so.
            self._postponed, planned = work, Planned(None, False)
        else:
            planned = self._deadline.run(work, left + self._grace_s)
        if planned.begun:
            self._unplanned = 0
        return planned

    def _plan_now(self, periods: int) -> Plan | None:
        plan = self._planner.plan(self._engine, self._budget.go_on, periods)
        self._budget.stop()
        return plan

    def _fall_back(self, ahead: Array) -> Tick:
        if self._plan is not None and self._plan_age < len(self._plan.actions):
            tick = self._tick(self._plan.actions[self._plan_age], Source.PREVIOUS)
            return tick._replace(optimistic=self._arrived.states if self._arrived else None)
        (pi,) = self.bundle.run("policy", state=ahead[None].astype(np.float32))
        if np.isfinite(pi).all():
            return self._tick(pi[0], Source.POLICY)
        return self._tick(np.zeros(len(self._limits), np.float32), Source.SAFE)

    def _tick(self, share: NDArray[np.float32], source: Source, plan: Plan | None = None) -> Tick:
        """The tick that applies `share` `(q,)` or `(q + h,)`, in [-1, 1]."""
        action_dim = len(self._limits)
        eta = share[action_dim:]
        return Tick(
            action=np.clip(share[:action_dim].astype(np.float64), -1.0, 1.0) * self._limits,
            source=source,
            iterations=plan.iterations if plan else 0,
            planned_return=plan.planned_return if plan else math.nan,
            hallucination=float(np.abs(eta).mean()) if eta.size else 0.0,
            optimistic=plan.states if plan else None,
        )
