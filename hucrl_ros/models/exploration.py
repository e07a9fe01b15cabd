"""Exploration strategies: how a plan or a policy imagines the next state (Sec. 2.2 and 3).

greedy       s' = μ(s, a) + √(Σ² + noise²) ε
Thompson     s' = f(s, a) + noise ε, with f drawn from the model once an episode
optimistic   s' = μ(s, a) + β Σ(s, a) η(s) + noise ε, with η chosen like an action (H-UCRL);
             with `hallucinate: total`, s' = μ(s, a) + β √(Σ² + noise²) η(s); with `shared`,
             s' = μ(s, a) + β Σ(s, a) η(s) + √((1 − β²)⁺ Σ² + noise²) ε: greedy at β = 0
sombrl       s' = μ(s, a) + noise ε, and λ β ‖Σ(s, a)‖ is added to the reward
opax         s' as optimistic, and Σ log(1 + Σ² / noise²) is the reward

With all of them a step that comes near a constraint pays for it.

μ and Σ are mean and epistemic deviation of the dynamics model, ε is standard normal.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hucrl_ros.config.schema import ExplorationSettings
from hucrl_ros.models import DynamicsModel, Prediction
from hucrl_ros.tasks import Task

JITTER = 1e-6
"""Share of each variance added to it, so that float32 finds a factor of few heads' covariance."""
WANTED, MOST = 2.0, 3.0
"""[margins] A step pays for the room that it has less than this, and for no more than that."""
TINY = 1e-14
"""Variance that counts as none [units of the state, squared]."""


class ImaginedDynamics(nn.Module, ABC):
    """The dynamics that one exploration strategy imagines: s, a, η, noise → s'."""

    bounds: Tensor
    hallucination_dim: int
    """Length h of the hallucinated action: m for the optimistic strategy, else 0."""
    total = False
    """Whether η moves by the noise's deviation as well, in place of the noise."""
    for_task = True
    """Whether the task's reward counts."""

    def __init__(self, model: DynamicsModel, settings: ExplorationSettings) -> None:
        super().__init__()
        self.model = model
        self.settings = settings
        self.hallucination_dim = 0
        self._share = 1.0
        self.register_buffer("bounds", model.task.bounds, persistent=False)

    @property
    def unchosen(self) -> Tensor:
        """Share of the epistemic variance that is noise `()`."""
        return torch.zeros(())

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Prepare for learning what plays `episode` (decay β, draw a function)."""

    def bonus(self, state: Tensor, action: Tensor) -> Tensor | None:
        """What a step `(...)` would tell of the model; None: it doesn't count."""
        return None

    def earned(self, task: Task, state: Tensor, action: Tensor) -> Tensor:
        """What a step from `state` `(..., p)` under `action` `(..., q)` brings `(...)`.

        It is the task's reward, where that counts, and the bonus.
        """
        bonus = self.bonus(state, action)
        if bonus is None:
            return task.reward(state, action)
        return task.reward(state, action) + bonus if self.for_task else bonus

    def reward(self, task: Task, state: Tensor, action: Tensor) -> Tensor:
        """What plans and policies are to maximise: `earned`, less what is paid for constraints.

        A margin less of room costs a share of the range of the task's rewards, and all that a step
        would tell of the model: there is nothing to be learned beyond a constraint. The first
        margin beyond it costs `outside_penalty` as well.
        """
        earned = self.earned(task, state, action)
        if not self.pays(task):
            return earned
        room = task.room(state, action)
        missing = (WANTED - room).clamp(0.0, MOST).sum(dim=-1)
        bonus = self.bonus(state, action)
        price = self.settings.constraint_penalty * task.reward_range
        whole = price if bonus is None else price + bonus
        paid = self._share * whole * missing
        if self.settings.outside_penalty > 0:  # Whatever the share: no search begins out there.
            outside = (-room).clamp(0.0, 1.0).sum(dim=-1)
            paid = paid + self.settings.outside_penalty * task.reward_range * outside
        return earned - paid

    def pays(self, task: Task) -> bool:
        """Whether `reward` is another one than `earned`."""
        prices = self.settings.constraint_penalty + self.settings.outside_penalty
        return bool(task.constraint_names) and prices > 0

    @contextmanager
    def counting(self, task: Task, share: float) -> Iterator[None]:
        """Inside, so much of the action penalty and of what margins cost counts."""
        self._share = share
        try:
            with task.counting(share):
                yield
        finally:
            self._share = 1.0

    @abstractmethod
    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """The predicted entries `(..., m)` of `forward`, before they are clipped to `bounds`."""

    def forward(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Imagined next state, clipped to the task's bounds of the state.

        Far from the data a model may accelerate without end; without the bounds, a critic would
        learn values of states that no robot can be in.

        Args:
            state: `(..., p)`.
            action: `(..., q)` [N m or N].
            eta: Hallucinated action `(..., h)` in [-1, 1].
            noise: Standard normal `(..., m)`; zeros for the noiseless step.

        Returns:
            `(..., p)`: the m predicted entries, and the context as it was.
        """
        imagined = self.imagine(state, action, eta, noise)
        bounded = torch.maximum(torch.minimum(imagined, self.bounds[1]), self.bounds[0])
        spec = self.model.task.spec
        if not spec.context:
            return bounded
        return torch.cat([bounded, state[..., spec.predicted_dim :]], dim=-1)


class GreedyDynamics(ImaginedDynamics):
    """PE-DS: sample from the ensemble's mean and covariance (Chua et al., 2018)."""

    @property
    def unchosen(self) -> Tensor:
        """All of it: there is no η."""
        return torch.ones(())

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Mean plus total deviation times noise; `eta` is empty."""
        prediction = self.model.predict(state, action)
        return prediction.mean + spread(prediction, noise, self.settings, noisy=True)


class ThompsonDynamics(ImaginedDynamics):
    """Thompson sampling: one function, e.g. a head, is drawn from the model for each episode."""

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Draw the function."""
        self.model.draw(generator)

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """The drawn function's mean plus its aleatoric noise; `eta` is empty."""
        drawn = self.model.sample(state, action)
        return drawn.mean + drawn.aleatoric * noise


class HallucinatedDynamics(ImaginedDynamics):
    """H-UCRL: next = μ + βΣη + noise, with η chosen like an action (Eq. 7).

    With `hallucinate: total`, η moves by the noise's deviation too, in place of the noise. With
    `shared`, what η can't choose since β is less than 1 is left to chance: a policy that is
    made with little optimism has to be good wherever the model may be wrong.
    """

    beta: Tensor

    def __init__(self, model: DynamicsModel, settings: ExplorationSettings) -> None:
        super().__init__(model, settings)
        self.hallucination_dim = model.task.spec.predicted_dim
        self.total = settings.hallucinate == "total"
        self.shared = settings.hallucinate == "shared"
        self.register_buffer("beta", torch.tensor(beta_of(settings, 1, model)))

    @property
    def unchosen(self) -> Tensor:
        """(1 − β²)⁺ with `hallucinate: shared`, else 0."""
        return (1.0 - self.beta**2).clamp(min=0.0) if self.shared else torch.zeros(())

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Take β of the episode."""
        self.beta.fill_(beta_of(self.settings, episode, self.model))

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Mean, shifted by up to β deviations, plus aleatoric noise that η doesn't choose."""
        prediction = self.model.predict(state, action)
        shift = spread(prediction, eta, self.settings, noisy=self.total)
        shifted = prediction.mean + self.beta * shift
        if self.total:
            return shifted
        if self.shared:
            return shifted + spread(prediction, noise, self.settings, self.unchosen, noisy=True)
        return shifted + prediction.aleatoric * noise


class SombrlDynamics(HallucinatedDynamics):
    """SOMBRL: the mean and its noise, with λβ‖Σ‖ added to the reward (Sukhija et al., 2025)."""

    def __init__(self, model: DynamicsModel, settings: ExplorationSettings) -> None:
        super().__init__(model, settings)
        self.hallucination_dim = 0
        self.total = self.shared = False

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Mean plus aleatoric noise; `eta` is empty."""
        prediction = self.model.predict(state, action)
        return prediction.mean + prediction.aleatoric * noise

    def bonus(self, state: Tensor, action: Tensor) -> Tensor:
        """λβ‖Σ‖, Σ in standard deviations of the targets."""
        deviation = self.model.predict(state, action).epistemic / self.model.targets.std
        norm: Tensor = torch.linalg.vector_norm(deviation, dim=-1)
        return self.settings.bonus * self.beta * norm


class OpaxDynamics(HallucinatedDynamics):
    """OpAx: optimistic for what a step tells of the model, for no task (Sukhija et al., 2023).

    With η, as in the paper: where the mean leads nowhere new, what is possible may.
    """

    for_task = False

    def bonus(self, state: Tensor, action: Tensor) -> Tensor:
        """Σ_j log(1 + Σ_j² / noise_j²) [nats], twice a bound on the information gain.

        A model may know of no noise: it counts as `model.min_aleatoric_std` at least.
        """
        prediction = self.model.predict(state, action)
        least = self.model.settings.min_aleatoric_std * self.model.targets.std
        noise = torch.maximum(prediction.aleatoric, least)
        return torch.log1p((prediction.epistemic / noise) ** 2).sum(dim=-1)


STRATEGIES: dict[str, type[ImaginedDynamics]] = {
    "greedy": GreedyDynamics,
    "thompson": ThompsonDynamics,
    "optimistic": HallucinatedDynamics,
    "sombrl": SombrlDynamics,
    "opax": OpaxDynamics,
}


def make_imagined_dynamics(
    strategy: str, model: DynamicsModel, settings: ExplorationSettings
) -> ImaginedDynamics:
    """Build the imagined dynamics of a strategy by name."""
    return STRATEGIES[strategy](model, settings)


def beta_of(settings: ExplorationSettings, episode: int, model: DynamicsModel) -> float:
    """β of an episode, counted from the first learned one, after the fit that precedes it.

    `confidence` is the paper's lemma on confidence intervals of vector-valued functions:
    β = B + 4σ√(I(y; f) + 1 + ln(1/δ)), for a kernel scaled to k ≤ 1.
    """
    gain, noise = model.information_gain, model.noise_ratio
    if settings.schedule != "confidence" or gain is None or noise is None:
        return settings.beta_at(episode)
    root = math.sqrt(gain + 1.0 + math.log(1.0 / settings.failure_probability))
    return settings.norm_bound + 4.0 * noise * root


LEAST_VARIANCE = 1e-14
"""Of a model without noise [units of the state, squared]."""


def spread(
    belief: Prediction,
    direction: Tensor,
    settings: ExplorationSettings,
    share: Tensor | float = 1.0,
    *,
    noisy: bool,
) -> Tensor:
    """Σ times `direction` `(..., m)`.

    Σ² is `share` of the epistemic covariance, and that of the noise where it is `noisy`.
    """
    if settings.covariance == "full":
        matrix = share * covariance(belief.deviations)
        if noisy:
            noise = (belief.aleatoric**2).unsqueeze(-1)
            matrix = matrix + torch.eye(int(matrix.shape[-1])) * noise
        return times(cholesky(matrix), direction)
    if not noisy:
        return belief.epistemic * direction
    variance = share * belief.epistemic**2 + belief.aleatoric**2
    return variance.clamp_min(LEAST_VARIANCE).sqrt() * direction  # At 0 it has no gradient.


def covariance(deviations: Tensor) -> Tensor:
    """Sum of the outer products of `(k, ..., m)`: `(..., m, m)`."""
    columns = deviations.movedim(0, -1)
    return torch.matmul(columns, columns.transpose(-1, -2))


def cholesky(matrix: Tensor) -> Tensor:
    """Lower factor `(..., m, m)` of covariances that may be singular, one column after another.

    ONNX has no operator for it.
    """
    size, columns = int(matrix.shape[-1]), []
    rest = matrix + torch.eye(size) * (JITTER * matrix + TINY)
    for i in range(size):
        # Rounding may leave less than the jitter of a variance that the others explain.
        pivot = torch.maximum(rest[..., i, i], 0.5 * JITTER * matrix[..., i, i] + TINY)
        column = rest[..., :, i] / pivot.sqrt().unsqueeze(-1)
        below = (torch.arange(size) >= i).to(matrix.dtype)
        columns.append(column * below)
        rest = rest - columns[-1].unsqueeze(-1) * columns[-1].unsqueeze(-2)
    return torch.stack(columns, dim=-1)


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Product of `(..., m, m)` and `(..., m)`."""
    return torch.matmul(matrix, vector.unsqueeze(-1))[..., 0]
