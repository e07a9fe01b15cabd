"""Whatever a YAML file holds, it is read or refused in one short line, soon."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hucrl_ros.cli.sweep import parse_variation
from hucrl_ros.config.yaml_reader import (
    DEEPEST,
    LARGEST,
    LONGEST_NUMBER,
    LONGEST_TEXT,
    MOST_VALUES,
    parse_mapping,
    parse_value,
    read_mapping,
)
from hucrl_ros.errors import BundleError, ConfigError
from hucrl_ros.run.asked import parse_setting

SOURCE = Path("/robot/a.yaml")
PLAIN = [
    ("a: 1", {"a": 1}),
    ("a: 2001-12-31_", {"a": "2001-12-31_"}),
    ("a: {b: [1.5, null, true, x]}", {"a": {"b": [1.5, None, True, "x"]}}),
    (f"a: {'9' * LONGEST_NUMBER}", {"a": int("9" * LONGEST_NUMBER)}),
    (f"a: '{'9' * LONGEST_TEXT}'", {"a": "9" * LONGEST_TEXT}),
    ("a: " + "[" * (DEEPEST - 2) + "]" * (DEEPEST - 2), None),
    ("a: [" + "1," * (MOST_VALUES - 3) + "]", {"a": [1] * (MOST_VALUES - 3)}),
]
BROKEN = {
    "date": ("a: 2001-13-45", "'2001-13-45' is no timestamp"),
    "hexadecimal": ("a: 0x_", "'0x_' is no int"),
    "binary": ("a: 0b_", "'0b_' is no int"),
    "digits": (f"a: {'9' * 5000}", "a number of 5000 letters"),
    "sexagesimal": ("a: " + "1:" * 3000 + "1", "a number of 6001 letters"),
    "decimals": (f"a: 0.{'9' * 5000}", "a number of 5002 letters"),
    "no bool": ("a: !!bool x", "'x' is no bool"),
    "text": (f"a: '{'x' * (LONGEST_TEXT + 1)}'", "10001 letters, at most 10000"),
    "key": (f"? '{'x' * (LONGEST_TEXT + 1)}'\n: 1", "10001 letters, at most 10000"),
    "deep list": ("a: " + "[" * 20_000, f"nested more than {DEEPEST} deep"),
    "deep mapping": ("\n".join(" " * k + "a:" for k in range(100)), "nested more than"),
    "many": ("a: [" + "1," * MOST_VALUES + "]", f"more than the {MOST_VALUES} keys and values"),
    "unknown alias": ("a: *b", "aliases"),
    "python": ("a: !!python/name:os.system ''", "could not determine a constructor"),
    "list": ("[1]: 2", "found unhashable key"),
    "two": ("a: 1\n---\na: 2", "expected a single document"),
    "twice": ("a: 1\nb: 2\n'a': 3", "line 3: key 'a' is given in line 1 already; give it once"),
    "twice below": ("a:\n  b: 1\n  c: 2\n  b: 1", "line 4: key 'b' is given in line 2 already"),
    "control": ("a: '\x1b[2J'", "special characters are not allowed"),
    "escaped": (r'a: !!int "\e[2J[/red]"', r"'\x1b[2J[/red]' is no int"),
    "tab": ("a:\n\tb: 1", "cannot start any token in line 2, column 1"),
    "half": ('a: !<\\ud800> "x"', "not YAML"),
}


def lines(width, depth):
    """A bomb of aliases: `width` to the power of `depth` values."""
    rows = [f"a0: &a0 [{', '.join(width * ['x'])}]"]
    rows += [f"a{k}: &a{k} [{', '.join(width * [f'*a{k - 1}'])}]" for k in range(1, depth)]
    return "\n".join(rows)


def refusal(content, **how):
    with pytest.raises(ConfigError) as info:
        parse_mapping(content.encode() if isinstance(content, str) else content, SOURCE, **how)
    message = str(info.value)
    assert message.startswith("/robot/a.yaml: ")
    assert len(message) < 300 and message.isprintable()
    return message


@pytest.mark.parametrize(("text", "value"), PLAIN, ids=[text[:20] for text, _ in PLAIN])
@pytest.mark.parametrize("aliases", [False, True])
def test_what_is_within_the_limits_is_read(text, value, aliases):
    found = parse_mapping(text.encode(), SOURCE, aliases=aliases)
    assert value is None or found == value


@pytest.mark.timeout(120)
@pytest.mark.parametrize("aliases", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_or_floods_a_parser_is_refused(name, aliases):
    text, expected = BROKEN[name]
    if name == "unknown alias" and aliases:
        expected = "*b stands for nothing before"
    message = refusal(text, aliases=aliases)
    assert "not YAML" in message and expected in message


@pytest.mark.parametrize("text", ["a: &x 1", "a: &x 1\nb: *x", "a: &x [*x]", lines(10, 12)])
def test_what_somebody_else_wrote_has_no_aliases(text):
    assert "line 1: anchors (&name) and aliases (*name) are not accepted" in refusal(text)


def test_a_user_s_own_aliases_are_read_but_do_not_grow_without_end():
    text = "a: &x {b: 1}\nc: {<<: *x, d: 2}\ne: [*x, *x]"
    found = parse_mapping(text.encode(), SOURCE, aliases=True)
    assert found == {"a": {"b": 1}, "c": {"b": 1, "d": 2}, "e": [{"b": 1}, {"b": 1}]}
    assert parse_mapping(lines(10, 4).encode(), SOURCE, aliases=True)
    assert "keys and values accepted" in refusal(lines(10, 12), aliases=True)
    assert "*x stands for nothing before" in refusal("a: &x [*x]", aliases=True)


def test_a_key_may_replace_what_an_alias_brings_but_no_key_beside_it():
    text = "a: &x {b: 1, c: 1}\nd: &y {b: 2, <<: *x}\ne: {<<: *y, b: 3}\nf: {<<: *y, <<: *x}"
    found = parse_mapping(text.encode(), SOURCE, aliases=True)
    assert found["d"] == {"b": 2, "c": 1} and found["e"] == {"b": 3, "c": 1}
    assert found["f"] == {"b": 1, "c": 1}
    assert "line 2: key 'b' is given" in refusal(
        "a: &x {b: 1}\nc: {b: 1, <<: *x, b: 2}", aliases=True
    )


def test_what_is_no_text_is_refused():
    assert "not YAML" in refusal(b"a: \xff")


@given(st.binary(max_size=200) | st.text("a0:-[]{},&*!?|>'\"%@#\n \t\\~<=._e", max_size=200))
def test_any_bytes_are_read_or_refused(content):
    content = content.encode() if isinstance(content, str) else content
    for aliases in (False, True):
        try:
            found = parse_mapping(content, SOURCE, BundleError, aliases)
        except BundleError as error:
            assert "\n" not in str(error) and len(str(error)) < 300
        else:
            assert isinstance(found, dict)


@pytest.mark.parametrize("value", ["2001-13-45", "0x_", "9" * 5000, "[" * 5000, "*x", "\x1b[2J"])
def test_a_value_on_the_command_line_that_breaks_its_parser_is_refused(value):
    for read, text in ((parse_setting, f"seed={value}"), (parse_variation, f"seed={value}")):
        with pytest.raises(ConfigError) as info:
            read(text)
        assert len(str(info.value)) < 500 and str(info.value).isprintable()
    assert parse_value("[1, x]", "command line") == [1, "x"]


def test_a_file_is_read_through_a_link_and_its_kind_and_size_come_first(tmp_path):
    (tmp_path / "file").write_text("a: 1")
    (tmp_path / "link").symlink_to("file")
    assert read_mapping(tmp_path / "link") == {"a": 1}
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 20 * 2**30)
    (tmp_path / "device").symlink_to("/dev/zero")
    for name, problem in (
        ("pipe", "is no regular file"),
        ("device", "is no regular file"),
        (".", "is no regular file"),
        ("large", f"has 21474836480 bytes, more than the {LARGEST} accepted"),
        ("none", "No such file or directory"),
        ("x\0y", "null"),
        ("x" * 300, "File name too long"),
        ("x/" * 3000, "File name too long"),
    ):
        with pytest.raises(ConfigError) as info:
            read_mapping(tmp_path / name)
        assert problem in str(info.value)
        assert len(str(info.value)) < 400 and str(info.value).isprintable()
