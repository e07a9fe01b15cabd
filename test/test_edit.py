"""Settings put into a user's YAML: everything else stays, to the letter."""

import difflib

import pytest
import yaml

from hucrl_ros.config.edit import NewSetting, put_settings, setting_lines, write_settings
from hucrl_ros.errors import ConfigError

NEW = (
    NewSetting("control.extra_delay", 0.0104, "[s] measured: 10.4 ms"),
    NewSetting("driver.velocity", "derived", "measured: none are told"),
    NewSetting("driver.effort", "commanded", "measured: they repeat"),
)
ROBOT = """# mine
robot:   {model: arm.xml}   # odd    spaces stay

/**:
  ros__parameters:
    # before
    episodes: 15
    search: {discount: 0.98,   rollout_steps: 8}  # untried
"""


def put(tmp_path, text, settings=NEW):
    path = tmp_path / "robot.yaml"
    path.write_bytes(text.encode())
    new = put_settings(path, settings)
    assert path.read_bytes() == text.encode(), "nothing is written yet"
    return new


def parameters(text):
    return yaml.safe_load(text)["/**"]["ros__parameters"]


def removed(old, new):
    return [
        line[2:] for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[0] == "-"
    ]


@pytest.mark.parametrize(
    ("old", "gone"),
    [
        (ROBOT, []),
        ("robot: {model: arm.xml}\n", []),
        (ROBOT + "    driver:\n      reset: person  # me\n", []),
        (
            ROBOT
            + "    driver:\n      # said once\n      effort: auto  # old\n      reset: none\n",
            ["      effort: auto  # old"],
        ),
        (
            ROBOT + "    driver: {reset: person, effort: auto}  # me\n",
            ["    driver: {reset: person, effort: auto}  # me"],
        ),
        ("/**:\n    ros__parameters:\n        control:\n            budget: 0.5\n", []),
        (ROBOT + "\nreward:\n  terms:\n  - {term: effort}\n", []),
        (ROBOT.rstrip("\n"), []),
    ],
    ids=["none", "no section", "group", "key", "braces", "wide", "not last", "no newline"],
)
def test_only_what_was_measured_changes(old, gone, tmp_path):
    new = put(tmp_path, old)
    assert removed(old, new) == gone
    before = yaml.safe_load(old).get("/**", {}).get("ros__parameters", {})
    after = parameters(new)
    assert after["driver"] == {
        **before.get("driver", {}),
        "velocity": "derived",
        "effort": "commanded",
    }
    assert after["control"] == {**before.get("control", {}), "extra_delay": 0.0104}
    assert {k: v for k, v in after.items() if k not in ("driver", "control")} == {
        k: v for k, v in before.items() if k not in ("driver", "control")
    }
    assert "velocity: derived  # measured: none are told" in new
    assert put(tmp_path, new) == new, "again nothing changes"


def test_lines_end_as_they_did(tmp_path):
    new = put(tmp_path, ROBOT.replace("\n", "\r\n"))
    assert new.count("\n") == new.count("\r\n")
    assert parameters(new)["driver"]["effort"] == "commanded"


@pytest.mark.parametrize(
    "text",
    [
        "/**: {ros__parameters: {driver: {effort: auto}}}\n",
        "/**:\n  ros__parameters:\n    driver: {reset: none,\n      effort: auto}\n",
        "/**:\n  other: 1\n",
        "- a list\n",
        "robot: [\n",
    ],
    ids=["all in braces", "braces over lines", "no parameters", "a list", "no YAML"],
)
def test_an_unusual_layout_is_left_alone_and_the_settings_are_named(text, tmp_path):
    with pytest.raises(ConfigError) as refused:
        put(tmp_path, text)
    assert "driver.effort: commanded" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_is_replaced_through_links_with_its_rights(tmp_path):
    path, link = tmp_path / "robot.yaml", tmp_path / "link.yaml"
    path.write_text(ROBOT)
    path.chmod(0o600)
    link.symlink_to(path)
    write_settings(link, put_settings(link, NEW))
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert parameters(path.read_text())["driver"]["velocity"] == "derived"
    assert [file.name for file in tmp_path.iterdir()] in (
        ["robot.yaml", "link.yaml"],
        ["link.yaml", "robot.yaml"],
    )


def test_the_lines_alone_are_yaml():
    assert yaml.safe_load("\n".join(setting_lines(NEW))) == {
        "control": {"extra_delay": 0.0104},
        "driver": {"velocity": "derived", "effort": "commanded"},
    }


def test_other_lines_end_as_they_did(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes(b"# pasted\r\n# mine\n/**:\n  ros__parameters:\n    episodes: 3\n")
    new = put_settings(path, [NewSetting("driver.effort", "ignored", "x")])
    assert new.startswith("# pasted\r\n# mine\n/**:\n") and new.count("\r") == 1
