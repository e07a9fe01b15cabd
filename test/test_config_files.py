"""Every file in `config/` loads; one documents every setting of the schema with unit and range."""

import os
import re

import pytest
import yaml
from pydantic import BaseModel

from hucrl_ros.config.defaults import document_defaults
from hucrl_ros.config.files import load_config, share_directory, task_config_files
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.errors import ConfigError

DEFAULTS = share_directory() / "config" / "defaults.yaml"
FILES = task_config_files()
SETTING = re.compile(r"(?P<indent> +)(?:# )?(?P<name>[a-z_]+): (?P<value>\S.*)")


def leaves(values: BaseModel) -> dict[str, object]:
    """Dotted name and value of every setting."""
    found = {}
    for name, value in values:
        below = leaves(value) if isinstance(value, BaseModel) else None
        found |= {name: value} if below is None else {f"{name}.{k}": v for k, v in below.items()}
    return found


def documented() -> dict[str, str]:
    """Dotted name of every setting, commented out or not, and the comment above it."""
    comments: list[str] = []
    found: dict[str, str] = {}
    group = ""
    for line in DEFAULTS.read_text().splitlines():
        if match := SETTING.fullmatch(line):
            found[group * (len(match["indent"]) > 4) + match["name"]] = " ".join(comments)
        elif line.endswith(":") and "#" not in line:
            group = line.strip(" :") + "."
        if line.strip().startswith("#") and not match:
            comments.append(line.strip().removeprefix("# "))
        else:
            comments = []
    return found


def test_the_documented_defaults_are_those_of_the_schema():
    made = "bring it up to date: hucrl list settings > config/defaults.yaml"
    assert DEFAULTS.read_text() == document_defaults(), made
    assert load_config(DEFAULTS) == Config()


FREE_TEXT = {"task", "control.bundle_root", "control.trusted_keys", "control.signing_key"}


def test_every_setting_is_documented_with_meaning_range_and_unit():
    comments = documented()
    assert comments.keys() == leaves(Config()).keys()
    for name, value in leaves(Config()).items():
        meaning = comments[name].split("Unit: ")[0].split("Range: ")[0]
        assert len(meaning.split()) >= 3, name
        assert ("Range: " in comments[name]) == (name not in FREE_TEXT), name
        is_number = not isinstance(value, (bool, str)) and name not in FREE_TEXT
        assert ("Unit: " in comments[name]) == is_number, name


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("seed", "Unit: 1. Range: [0, 2147483648)."),
        ("mode", "Range: lockstep | real_time."),
        ("model.layers", "Unit: 1. Range: (0, inf)."),
        ("model.bootstrap", "Range: true | false."),
        ("model.noise_ratio", "Unit: standard deviations of the prior. Range: [0.0001, 1]."),
        ("search.discount", "Unit: 1. Range: (0, 1)."),
        ("control.cpus", "Unit: 1. Range: [0, inf)."),
        ("control.realtime_priority", "Unit: 1. Range: [0, 99]."),
    ],
)
def test_ranges_are_those_that_the_schema_accepts(name, accepted):
    assert documented()[name].endswith(accepted)


def test_there_is_one_file_for_each_task():
    assert FILES.keys() == known_tasks().keys()


@pytest.mark.parametrize("task", FILES)
def test_a_tasks_file_holds_only_what_differs(task):
    config = load_config(FILES[task])
    assert config.task == task
    given = yaml.safe_load(FILES[task].read_text())["/**"]["ros__parameters"]
    same = {
        f"{group}.{name}"
        for group, values in given.items()
        if isinstance(values, dict)
        for name, value in values.items()
        if Config.model_validate({group: {name: value}}) == Config()
    }
    assert same == set()


def test_what_is_no_file_of_settings_is_not_opened(tmp_path):
    pipe, large = tmp_path / "pipe.yaml", tmp_path / "large.yaml"
    os.mkfifo(pipe)
    large.touch()
    os.truncate(large, 2**40)
    with pytest.raises(ConfigError, match=r"pipe\.yaml is no regular file"):
        load_config(pipe)
    with pytest.raises(ConfigError, match=r"large\.yaml has 1099511627776 bytes, more than"):
        load_config(large)
