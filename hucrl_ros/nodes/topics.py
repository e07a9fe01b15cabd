"""Names of topics and services, all relative, so that launch files can remap them."""

from hucrl_ros.controller.topics import (
    ACTIVE,
    COMMANDS,
    GOAL,
    JOINT_STATES,
    OBJECT_POSE,
    TICKS,
    TRIPPED,
)

LOADED_BUNDLE = "controller/bundle"
PLAN = "controller/plan"
BUNDLE = "bundle"
LEARNER_REPORT = "learner/report"
DIAGNOSTICS = "/diagnostics"

RESET = "simulator/reset"
RECORD = "recorder/record"
LEARN = "learner/learn"
CHANGE_STATE = "controller/change_state"

__all__ = [
    "ACTIVE",
    "BUNDLE",
    "CHANGE_STATE",
    "COMMANDS",
    "DIAGNOSTICS",
    "GOAL",
    "JOINT_STATES",
    "LEARN",
    "LEARNER_REPORT",
    "LOADED_BUNDLE",
    "OBJECT_POSE",
    "PLAN",
    "RECORD",
    "RESET",
    "TICKS",
    "TRIPPED",
]
