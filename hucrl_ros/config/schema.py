"""The one schema of all settings: read by the nodes as ROS parameters, by the CLI as YAML."""

from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    SerializeAsAny,
    model_validator,
)

from hucrl_ros.config import plugins

PlannerName = Literal[
    "dyna_mpc",
    "poplin_a",
    "poplin_bias",
    "cem",
    "icem",
    "mppi",
    "random_shooting",
    "ilqr",
    "exact",
    "policy",
]
"""Names of the planners; plug-ins add others."""
ModelName = Literal["auto", "probabilistic_ensemble", "deterministic_ensemble", "gp", "rff", "qff"]
"""Names of the dynamics models; plug-ins add others."""
StrategyName = Literal["greedy", "thompson", "optimistic", "sombrl", "opax"]
"""Names of the exploration strategies."""
SearchName = Literal["lookahead", "pathwise", "bptt", "mpo", "sac", "td3", "ppo"]
"""Names of the policy searches; plug-ins add others."""
PUBLIC_KEY = r"^ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}( [^\n]*)?$"
"""An Ed25519 key, as OpenSSH writes it."""
KERNEL_MODELS: tuple[ModelName, ...] = ("gp", "rff", "qff")
"""Those with a prior and independent outputs."""


Seed = Annotated[int, Field(ge=0, lt=2**31)]
Beta = Annotated[float, Field(ge=0, le=1e6)]
Discount = Annotated[float, Field(gt=0, lt=1)]
RandomShare = Annotated[float, Field(gt=0, le=1)]
RandomBandwidth = Annotated[float, Field(ge=0, le=1000)]
ActionPenalty = Annotated[float, Field(ge=0, le=1e6)]
Limit = Annotated[float, Field(gt=0, le=1e5)]
"""Largest effort, velocity or way of a joint: above it, no unit of a robot's is meant."""
Steps = Annotated[int, Field(ge=1, le=1_000_000)]
"""Control periods in an episode."""
MOST_IMAGINED = 2_000_000
"""Largest product of particles, draws of noise and horizon."""


class Settings(BaseModel):
    """A frozen group of settings that refuses unknown keys and out-of-range values."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _holds_numbers(cls, values: Any) -> Any:  # noqa: ANN401
        """Refuse what YAML reads as yes or no (`on`, `yes`, `true`) where it would pass for 1."""
        for name, value in values.items() if isinstance(values, dict) else ():
            listed = value if isinstance(value, (list, tuple)) else (value,)
            field = cls.model_fields.get(name)
            if field is None or field.annotation is bool:
                continue
            if any(isinstance(each, bool) for each in listed):
                raise ValueError(f"{name} = {value!r}: yes or no isn't meant here")
        return values


class ModelSettings(Settings):
    """Dynamics model, and how it is fitted after each episode."""

    kind: Annotated[SerializeAsAny[ModelName], plugins.names_of("models", get_args(ModelName))] = (
        "auto"
    )
    """Which model; `hucrl list models` explains them; `auto`: `rff` where at most 2 entries of the
    state are to be predicted, `gp` where at most 4 are, else `probabilistic_ensemble`."""
    heads: int = Field(5, ge=1, le=1000)
    """Networks in the ensemble [1]."""
    layers: tuple[PositiveInt, ...] = Field((64, 64), min_length=1)
    """Hidden units of each layer [1]."""
    activation: Literal["relu", "silu", "tanh"] = "silu"
    """Non-linearity between layers."""
    prior_units: int = Field(16, ge=1)
    """Units of each layer that never learn: a random function that tells heads apart [1]."""
    prior_scale: float = Field(0.0, ge=0)
    """Deviation of that function; 0: none [standard deviations of the targets]."""
    fit_steps: int = Field(400, ge=1)
    """Adam steps after each episode [1]."""
    batch_size: int = Field(128, ge=1)
    """Transitions in one Adam step, for each head [1]."""
    learning_rate: float = Field(1e-3, gt=0, le=1)
    """Adam's step size [1]."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's weight decay [1]."""
    min_aleatoric_std: float = Field(3e-3, gt=0)
    """`probabilistic_ensemble`: lower bound of the aleatoric standard deviation; `opax`: of the
    noise in what it earns, whatever the model [standard deviations of the targets]."""
    from_weight: float = Field(0.1, ge=0, le=1)
    """Weight of a transition of the run that `--from` names, one of the robot's own having 1; 0:
    only its policies are used [1]."""
    interrupted: bool = False
    """Learn from what is sound of interrupted attempts at an episode, too, once it is finished."""
    bootstrap: bool = True
    """Give each head its own Poisson(1) weight of every transition."""
    holdout: float = Field(0.1, ge=0, lt=1)
    """Share of the transitions kept out of every fit, to judge it [1]."""
    recalibrate: bool = False
    """Scale the epistemic deviation so that intervals cover held-out transitions as claimed."""
    hyperparameters: Literal["fitted", "fixed"] = "fitted"
    """`gp`, `rff`, `qff`: fit the next two values by marginal likelihood, or take them."""
    lengthscale: float = Field(2.0, gt=0)
    """`gp`, `rff`, `qff`: length-scale of the kernel [units of the model's features]."""
    noise_ratio: float = Field(0.003, ge=1e-4, le=1)
    """`gp`, `rff`, `qff`: deviation of the noise [standard deviations of the prior]."""
    max_points: int = Field(200, ge=1, le=10_000)
    """`gp`: transitions kept; the others tell least [1]."""
    features: int = Field(256, ge=2, le=4096, multiple_of=2)
    """`rff`, and Thompson's functions of a `gp`: random features, an even number [1]."""
    nodes: int = Field(4, ge=2, le=64)
    """`qff`: quadrature nodes for each input; the features are their product [1]."""

    @model_validator(mode="after")
    def _fits(self) -> "ModelSettings":
        if self.recalibrate and self.holdout == 0:
            raise ValueError(
                "recalibrate = true needs held-out transitions, and holdout = 0 leaves none"
            )
        return self


class ExplorationSettings(Settings):
    """How the epistemic uncertainty enters the imagined next state."""

    beta: Beta = 3.0
    """Scale of the hallucinated action in the first learned episode [1]."""
    bonus: float = Field(1.0, ge=0)
    """`sombrl`: λ of the bonus λ beta ‖Σ‖, which falls with beta
    [reward of a step, a standard deviation of the targets]."""
    schedule: Literal["geometric", "constant", "confidence"] = "geometric"
    """How beta goes on: by `beta_decay` down to `beta_floor`; not at all; or in place of all
    three B + 4σ√(I + 1 + ln(1/δ)), with the data's information gain I (`gp`, `rff`, `qff`)."""
    beta_decay: float = Field(0.8, gt=0, le=1)
    """`geometric`: factor on beta from one episode to the next [1]."""
    beta_floor: Beta = 1.0
    """`geometric`: lower bound of beta [1]."""
    norm_bound: float = Field(1.0, ge=0)
    """`confidence`: B, bound on the norm of the dynamics in the kernel's Hilbert space [1]."""
    failure_probability: float = Field(0.1, gt=0, lt=1)
    """`confidence`: δ, probability that the dynamics leave the intervals [1]."""
    covariance: Literal["diagonal", "full"] = "diagonal"
    """Σ of `greedy`, `optimistic`, `opax`: deviations, or a Cholesky factor of the covariance;
    of the information that `opax` earns, deviations."""
    hallucinate: Literal["epistemic", "total", "shared"] = "epistemic"
    """`optimistic`, `opax`; others have no η and ignore it: the deviation that η chooses from; of
    the `total` one, nothing is left to be noise; `shared`: of the epistemic variance, 1 − beta² is
    noise where beta is less than 1."""
    constraint_penalty: float = Field(0.2, ge=0)
    """What a step costs in imagination that comes a margin nearer to a constraint than two margins
    inside, three at most; 0: nothing [range of the task's rewards]."""
    outside_penalty: float = Field(0.0, ge=0)
    """What a step costs besides that is a margin or more beyond a constraint; what the safety
    filter won't let happen shouldn't look like the shorter way. 0.5 on a robot, and where a
    description has `constraints:` [range of the task's rewards]."""
    random_episodes: int = Field(1, ge=0)
    """Episodes of random efforts before the first learned one; 0 with `--from` alone, where it is
    the default [1]."""
    random_share: RandomShare = 1.0
    """Largest of these efforts [shares of the effort limit]."""
    random_bandwidth: RandomBandwidth = 0.0
    """Bandwidth of these efforts, where they shall be smooth; 0: uniform ones, new in each control
    period [Hz]."""
    validation_episodes: int = Field(2, ge=0)
    """Episodes in which a new bundle has to do better than the best so far, on models that it was
    not made with, or that one flies again; 0: each new one flies [1]."""
    least_gain: float = Field(0.1, ge=0)
    """Promised gain for which a bundle flies that does worse there, to explore
    [range of the run's returns]."""

    def beta_at(self, episode: int) -> float:
        """Beta of episode `episode`, counted from the first learned one; not for `confidence`."""
        if self.schedule == "constant":
            return self.beta
        least = min(self.beta_floor, self.beta)  # Whoever asks for less than the floor gets it.
        return max(self.beta * self.beta_decay ** max(episode - 1, 0), least)


class SearchSettings(Settings):
    """Policy search on the learned model."""

    algorithm: Annotated[
        SerializeAsAny[SearchName], plugins.names_of("searches", get_args(SearchName))
    ] = "lookahead"
    """`lookahead`: regression to the best of many tried actions; `pathwise`, `bptt`: gradients
    through the model; `mpo`: the paper's MPO + HDA + HVE; `hucrl list searches` has them all."""
    iterations: int = Field(150, ge=1)
    """Rounds of imagining and improving after each episode [1]."""
    discount: Discount = 0.99
    """γ, for one control period [1]."""
    trace: float = Field(0.95, ge=0, le=1)
    """λ of the critic's TD(λ) targets [1]."""
    pool: int = Field(256, ge=2)
    """Imagined trajectories running side by side [1]."""
    rollout_steps: int = Field(32, ge=1)
    """Steps imagined in a round: along short ones the critic falls far behind the policies [1]."""
    restart: float = Field(0.1, ge=0, le=1)
    """Share of the trajectories that start anew in a round [1]."""
    visited_starts: float = Field(0.3, ge=0, le=1)
    """Share of the starts that are recorded states; the others are the task's [1]."""
    policy_layers: tuple[PositiveInt, ...] = Field((64, 64), min_length=1)
    """Hidden units of π and η [1]."""
    eta_lipschitz: float = Field(0.0, ge=0)
    """Largest change of η over the largest change of a feature of the state; 0: any [1]."""
    critic_layers: tuple[PositiveInt, ...] = Field((128, 128), min_length=1)
    """Hidden units of the critic [1]."""
    learning_rate: float = Field(5e-3, gt=0, le=1)
    """Adam's first step size for policies and critic; it falls to a tenth [1]."""
    batch_size: int = Field(512, ge=1)
    """States in a gradient step [1]."""
    critic_steps: int = Field(5, ge=1)
    """Gradient steps of the critic in a round [1]."""
    policy_steps: int = Field(5, ge=1)
    """Gradient steps of the policies in a round [1]."""
    policy_noise: float = Field(0.1, ge=0)
    """Standard deviation of π while imagining [shares of the effort limit]."""
    candidates: int = Field(16, ge=4)
    """`lookahead`, `mpo`: actions tried at a state [1]."""
    candidate_noise: float = Field(0.2, gt=0)
    """Standard deviation of the actions tried around π and η (for `ppo` before they are squashed);
    for `pathwise` and `bptt` the noise that smooths the reward [shares of the limit]."""
    noise_draws: int = Field(2, ge=0, multiple_of=2)
    """`lookahead`, `mpo`: draws of noise that a tried action's value is the mean over, as those of
    the planner [1]."""
    candidate_steps: int = Field(1, ge=1)
    """`lookahead`: imagined steps that a tried action lasts, as an offset from π and η [1]."""
    gradient_steps: int = Field(2, ge=1)
    """`pathwise`: imagined steps that the gradient passes [1]."""
    bptt_horizon: int = Field(8, ge=1)
    """`bptt`: imagined steps that the gradient passes [1]."""
    bptt_kl: float = Field(1e-3, ge=0)
    """`bptt`: λ, weight of the KL divergence from the policies that the search began with, for
    each step [critic's scale, 0.2 / (1 − γ), a nat]."""
    mpo_epsilon: float = Field(0.1, gt=0)
    """`mpo`: bound on the KL divergence of the E-step [nats]."""
    mpo_epsilon_mean: float = Field(0.1, gt=0)
    """`mpo`: bound on the KL divergence of the M-step [nats]."""
    expansion_steps: int = Field(4, ge=1)
    """`sac`, `td3`: H, imagined steps in the targets of the action values (HVE) [1]."""
    real_share: float = Field(0.1, ge=0, lt=1)
    """`sac`, `td3`: share of the recorded transitions in a batch [1]."""
    replay_rounds: int = Field(20, ge=1)
    """`sac`, `td3`: rounds whose imagined transitions are remembered [1]."""
    target_rate: float = Field(0.02, gt=0, le=1)
    """`sac`, `td3`: share by which the target networks follow in a gradient step [1]."""
    entropy_weight: float = Field(0.005, ge=0)
    """`sac`: α, weight of the policies' entropy at first; it falls to a tenth [critic's scale,
    0.2 / (1 − γ), a nat]."""
    ppo_clip: float = Field(0.2, gt=0, lt=1)
    """`ppo`: how far the ratio of probabilities may leave 1 [1]."""
    warm_start: bool = True
    """Go on from the last episode's policies and critic instead of fresh ones."""
    trial_interval: int = Field(25, ge=1)
    """Rounds between two trials of the policies for a whole imagined episode [1]."""

    @model_validator(mode="after")
    def _enough_for_ppo(self) -> "SearchSettings":
        if self.algorithm == "ppo" and self.batch_size < 2:
            raise ValueError("algorithm = 'ppo' needs batch_size >= 2: it normalises advantages")
        return self


class TeachSettings(Settings):
    """What `hucrl teach` searches by in place of `search`: it has time, and doesn't explore."""

    algorithm: Annotated[
        SerializeAsAny[Literal["same", SearchName]],
        plugins.names_of("searches", ("same", *get_args(SearchName))),
    ] = "same"
    """As `search.algorithm`; `same`: that one."""
    iterations: int = Field(600, ge=1)
    """As `search.iterations`, of which it takes more [1]."""


class PlannerSettings(Settings):
    """Planning in the control tick."""

    algorithm: Annotated[
        SerializeAsAny[PlannerName], plugins.names_of("planners", get_args(PlannerName))
    ] = "dyna_mpc"
    """`dyna_mpc`: Algorithm 7; `policy`: send π(s); `hucrl list planners` explains them all. Of
    what follows only horizon and iterations change what `ilqr` sends, and nothing what `exact` and
    `policy` do."""
    particles: int = Field(32, ge=2, le=100_000)
    """Sequences of efforts tried in each iteration [1]."""
    noise_draws: int = Field(2, ge=0, le=1000, multiple_of=2)
    """Draws of noise that a sequence's return is the mean over, half of them the others with the
    sign changed; each takes as long as the one trajectory without noise of 0 [1]."""
    horizon: int = Field(20, ge=1, le=10_000)
    """Control periods looked ahead [1]."""
    iterations: int = Field(2, ge=1, le=10_000)
    """Refinements of the sampling distribution in a tick [1]."""
    elites: int = Field(4, ge=1, le=100_000)
    """Best trajectories that shape the next distribution; not for `mppi` and
    `random_shooting` [1]."""
    noise: float = Field(0.3, ge=0, le=1000)
    """Initial standard deviation of the sampled efforts [shares of the effort limit]."""
    correlation: float = Field(0.8, ge=0, lt=1)
    """Correlation of the sampled efforts of two successive control periods; not for `icem`,
    `poplin_bias` [1]."""
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of the old sampling distribution kept in a refinement; not for `mppi`,
    `random_shooting` [1]."""
    warm_start: bool = True
    """Start from the previous tick's plan, shifted; never for `random_shooting` and `poplin_a`,
    always for `ilqr`."""
    temperature: float = Field(0.1, gt=0, le=1e6)
    """`mppi`: difference of returns that makes a factor of e in a particle's weight [standard
    deviations of the returns]."""
    colour: float = Field(2.0, ge=0, le=100)
    """`icem`, in place of the correlation: power of the sampled efforts falls with frequency f
    as 1/f^colour [1]."""
    kept_elites: float = Field(0.3, ge=0, le=1)
    """`icem`: share of the elites that stay in the next refinement and the next tick [1]."""
    decay: float = Field(1.25, ge=1, le=1000)
    """`icem`: particles of a refinement, in whole iterations, over those of the next [1]."""

    @model_validator(mode="after")
    def _fits(self) -> "PlannerSettings":
        if self.elites > self.particles:
            raise ValueError(
                f"elites ({self.elites}) must not exceed particles ({self.particles})"
            )
        if self.particles * max(self.noise_draws, 1) * self.horizon > MOST_IMAGINED:
            raise ValueError(
                f"particles ({self.particles}), noise_draws ({self.noise_draws}) and horizon "
                f"({self.horizon}) are more than {MOST_IMAGINED} imagined steps together"
            )
        if self.noise == 0 and self.algorithm in ("cem", "icem", "mppi", "random_shooting"):
            raise ValueError(
                f"noise = 0 leaves {self.algorithm} nothing but zero effort to try; "
                "take more than 0, or dyna_mpc or policy as algorithm"
            )
        return self


LEAST_SURPRISE = 2.0
"""Least `safety.surprise` that isn't 0 [standard deviations]."""


class SafetySettings(Settings):
    """What the guard lets through, and when it takes over."""

    effort_limits: tuple[Limit, ...] = ()
    """Largest absolute effort of each actuated joint, where it is less than the robot's [N m or
    N]; empty: the robot's. Of a robot that takes others, the largest velocity, or way to a
    commanded position."""
    effort_rate: float = Field(0.0, ge=0, le=1000)
    """Largest change of an effort (velocity, way) from one command to the next [limits a period];
    0: no limit."""
    position_margin: float = Field(0.0, ge=0, le=1000)
    """Distance before a joint's position limit where pushing outward stops [rad or m]."""
    position_limits: tuple[float, ...] = ()
    """Lower and upper limit of each joint in turn [rad or m]; empty: none. Commanded positions
    stay within."""
    velocity_limits: tuple[float, ...] = ()
    """Speed of each joint above which efforts may only brake, and that commanded velocities and
    ways to positions stay within [rad/s or m/s]; empty: none."""
    stale_periods: float = Field(3.0, ge=1, le=100)
    """Control periods without a joint state (or command) until the safe command is sent [1]."""
    outage_periods: float = Field(10.0, ge=1, le=1e6)
    """In real time, control periods without a new joint state, or of a controller that was held
    up, after which the episode is over; at least half a second [1]."""
    surprise: float = Field(0.0, ge=0, lt=10)
    """Root mean square, over half a second, of how far states are from what the bundle predicts,
    at which the episode is over, unless it is the first learned one; from 2 on, as less is
    chance; 0: no episode [standard deviations that the bundle claims]."""
    safe_command: Literal["zero", "damping"] = "zero"
    """The safe command: no effort (no velocity, hold), or efforts against present velocities."""
    damping: float = Field(0.0, ge=0, le=1e6)
    """Effort against a unit of velocity in the safe command [N m s/rad or N s/m]."""
    filter: bool = False
    """Where a robot has constraints, send an action of a learned bundle only if the model can stop
    the robot behind it without leaving them. On unless set, where the description has
    constraints of its own, and on a robot."""
    filter_beta: float = Field(2.0, ge=0, le=1000)
    """Deviations of the model that the filter holds possible, all to the worse; at 0 the mean is
    believed, and what it says counts as proved [1]."""
    backup_time: float = Field(0.6, gt=0, le=10)
    """Time in which the filter has to see the robot stop; 5 to 60 control periods count [s]."""

    @model_validator(mode="after")
    def _fits(self) -> "SafetySettings":
        if 0 < self.surprise < LEAST_SURPRISE:
            raise ValueError(f"surprise = {self.surprise:g}: expected 0, or 2 to 10")
        return self


class ControlSettings(Settings):
    """The control loop on this machine."""

    budget: float = Field(0.7, gt=0, le=1)
    """Share of the control period that a tick may plan for, in real time [1]."""
    engine: Literal["auto", "compiled", "onnx"] = "auto"
    """What rolls particles out: machine code made by numba, or ONNX Runtime; `auto`: compiled
    where the bundle allows it."""
    threads: int = Field(1, ge=1)
    """Threads of the planning engine [1]."""
    realtime_priority: int = Field(0, ge=0, le=99)
    """SCHED_FIFO priority of the controller; 0: ordinary scheduling [1]."""
    lock_memory: bool = False
    """Keep the controller's memory from being paged out."""
    cpus: tuple[NonNegativeInt, ...] = ()
    """Processors that the controller may use; empty: all [1]."""
    pause_garbage_collection: bool = True
    """Collect Python's garbage between episodes only."""
    latency_compensation: Literal["auto", "always", "never"] = "auto"
    """Plan from where the robot will be when the command takes effect; `auto`: where the delay
    exceeds a tenth of the control period. Never in lockstep, where physics waits."""
    extra_delay: float = Field(0.0, ge=0, le=1)
    """Delay that the loop can't measure: transport in both directions, and the actuator [s]."""
    bundle_root: str = ""
    """Folder in which bundles have to lie; empty: that of the run, any where there is none."""
    trusted_keys: tuple[Annotated[str, Field(pattern=PUBLIC_KEY)], ...] = ()
    """Public keys (`ssh-ed25519 ...`) one of which has to have signed each bundle; empty: bundles
    need no signature."""
    signing_key: str = ""
    """File of the private key that signs each bundle of the run; empty: none does."""


class DriverSettings(Settings):
    """What the robot's driver tells, in real time; in lockstep nothing of it counts."""

    effort: Literal["auto", "applied", "commanded", "ignored"] = "auto"
    """`effort` in joint states: the mean of what acted since the one before; the newest command;
    nothing of use. With the last two an action is the mean of the commands in force. `auto`:
    `commanded` where it repeats the commands, else `applied`. Of a robot that takes no efforts it
    doesn't count."""
    velocity: Literal["measured", "derived"] = "measured"
    """Velocities: those in joint states, or slopes of the positions."""
    velocity_window: float = Field(0.0, ge=0, le=1)
    """`derived`: time that a slope spans; it tells the velocity of half of it ago; 0: a control
    period [s]."""
    reset: Literal["service", "person", "home", "none"] = "service"
    """Who brings the robot to the start of an episode: the service `simulator/reset`; a person,
    who then calls the service `supervisor/start`; a slow motion of ours, as `home` says; or
    nobody, and it goes on from where it is."""


class HomeSettings(Settings):
    """The motion to the start of an episode, with `driver.reset: home`."""

    speed: float = Field(0.3, gt=0, le=10)
    """Largest speed of each joint [rad/s or m/s]."""
    effort: float = Field(0.5, gt=0, le=1)
    """Largest effort, of a robot that takes efforts [shares of the effort limit]."""
    time: float = Field(60.0, gt=0, le=3600)
    """After which it is given up [s]."""


class SimulatorSettings(Settings):
    """What the driver of the simulated robot does, in real time only; no controller reads it."""

    rate: float = Field(0.0, ge=0, le=1000)
    """Joint states a second; 0: one in each control period [Hz]."""
    best_effort: bool = False
    """Publish joint states and object poses best effort, as most drivers do, not reliably."""
    jitter: float = Field(0.0, ge=0, le=1)
    """Longest time from a measurement to its publication; for each one it is drawn [s]."""
    drops: float = Field(0.0, ge=0, lt=1)
    """Share of the joint states that nobody gets [1]."""
    dead_time: float = Field(0.0, ge=0, le=1)
    """Time from a command's arrival until it acts [s]."""
    encoder_counts: int = Field(0, ge=0, le=2**30)
    """Steps in which positions are told; 0: exactly [1 a turn; of a sliding joint 1 a metre]."""
    velocity: Literal["measured", "differences", "none"] = "measured"
    """Velocities in joint states: exact; how far positions went since the joint state before; or
    missing."""
    effort: Literal["applied", "commanded", "none"] = "applied"
    """`effort` in joint states: the mean of what acted since the one before; the command in force;
    or missing."""

    @model_validator(mode="after")
    def _fits(self) -> "SimulatorSettings":
        if self.encoder_counts and self.velocity == "measured":
            raise ValueError(
                f"encoder_counts = {self.encoder_counts}: an encoder measures no velocities; take "
                "velocity = differences or none"
            )
        return self


class BodySettings(Settings):
    """How the simulated robot's body differs from its model; nobody else reads it."""

    friction: float = Field(0.0, ge=0, le=1)
    """Coulomb friction of each actuated joint [shares of its effort limit]."""
    mass_error: float = Field(0.0, gt=-1, le=10)
    """How much more all of its masses and inertias are than in the model [1]."""
    motor_error: float = Field(0.0, gt=-1, le=10)
    """How much more effort the motors give than they are told [1]."""
    payload: float = Field(0.0, ge=0, le=1000)
    """Mass in the centre of the last body of the chain of actuated joints [kg]."""
    backlash: float = Field(0.0, ge=0, le=1)
    """Gap between motor and actuated joint, across which no effort acts [rad or m]."""
    drift: float = Field(0.0, ge=0, lt=1)
    """Share of their effort that motors lose, once they are warm from giving all of it [1]."""
    drift_time: float = Field(30.0, gt=0, le=1e6)
    """Time constant of getting warm, with the square of the effort, and cool again [s]."""


class Config(Settings):
    """All settings of a run."""

    task: str = "pendulum"
    """Name of the task; `hucrl list tasks` prints all."""
    strategy: StrategyName = "optimistic"
    """Exploration strategy (Sec. 2.2 and 3); `hucrl list strategies` explains them."""
    action_penalty: ActionPenalty = 0.2
    """ρ, weight of the action's cost in the reward [1]."""
    seed: Seed = 0
    """Seed of everything random [1]."""
    episodes: int = Field(6, ge=1)
    """Episodes to run, the random ones included [1]."""
    mode: Literal["lockstep", "real_time"] = "lockstep"
    """`lockstep`: physics waits for each command; `real_time`: it never waits."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where models and policies learn; robots are controlled by the processor in any case."""
    model: ModelSettings = ModelSettings()
    exploration: ExplorationSettings = ExplorationSettings()
    search: SearchSettings = SearchSettings()
    teach: TeachSettings = TeachSettings()
    planner: PlannerSettings = PlannerSettings()
    safety: SafetySettings = SafetySettings()
    control: ControlSettings = ControlSettings()
    driver: DriverSettings = DriverSettings()
    home: HomeSettings = HomeSettings()
    simulator: SimulatorSettings = SimulatorSettings()
    body: BodySettings = BodySettings()

    @model_validator(mode="after")
    def _combines(self) -> "Config":
        kind, exploration = self.model.kind, self.exploration
        if exploration.schedule == "confidence" and kind not in KERNEL_MODELS:
            raise ValueError(
                f"exploration.schedule = 'confidence' needs the information gain of a prior, "
                f"which model.kind = {kind!r} doesn't promise; take {', '.join(KERNEL_MODELS)}, "
                "or geometric or constant"
            )
        if exploration.covariance == "full" and self.strategy in ("thompson", "sombrl"):
            raise ValueError(
                f"exploration.covariance = 'full': strategy = {self.strategy!r} draws from no "
                "covariance; take diagonal, greedy, optimistic or opax"
            )
        if self.control.engine == "compiled" and exploration.covariance == "full":
            raise ValueError(
                "control.engine = 'compiled' doesn't know a full covariance; take auto or onnx"
            )
        if exploration.covariance == "full" and kind in ("auto", *KERNEL_MODELS):
            raise ValueError(
                "exploration.covariance = 'full' needs outputs that may depend on each other, "
                f"which model.kind = {kind!r} doesn't promise; take diagonal, or an ensemble"
            )
        return self
