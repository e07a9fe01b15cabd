"""Names of topics and services, all relative, so that launch files can remap them."""

JOINT_STATES = "joint_states"
COMMANDS = "controller/commands"
TICKS = "controller/ticks"
ACTIVE = "controller/active"
LOADED_BUNDLE = "controller/bundle"
PLAN = "controller/plan"
BUNDLE = "bundle"
LEARNER_REPORT = "learner/report"
TRIPPED = "watchdog/tripped"
DIAGNOSTICS = "/diagnostics"

RESET = "simulator/reset"
RECORD = "recorder/record"
LEARN = "learner/learn"
CHANGE_STATE = "controller/change_state"

TICK_FIELDS = (
    "stamp_sec",
    "stamp_nanosec",
    "step",
    "tick_ms",
    "source",
    "missed",
    "clamped",
    "iterations",
    "planned_return",
    "epistemic_std",
    "aleatoric_std",
    "hallucination",
)
"""Labels of a tick's first entries; `action_0 ... action_{q-1}` follow."""
