"""`hucrl` as people type it: help, wrong words, exit codes, a quick start."""

import itertools
import subprocess
import sys

import pytest

import hucrl_ros
from hucrl_ros.cli import COMMANDS, main
from hucrl_ros.cli.list import REGISTRIES, entries
from hucrl_ros.config.defaults import document_defaults
from hucrl_ros.config.paths import share_directory
from hucrl_ros.errors import BagError, ConfigError

HEAVY = ("torch", "rclpy", "mujoco", "onnxruntime", "matplotlib", "scipy")


def hucrl(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "hucrl_ros", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: hucrl {command} ")


def test_help_names_every_command_with_a_line(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    words = capsys.readouterr().out.partition("COMMAND\n")[2].splitlines()
    lines = [line.split(maxsplit=1) for line in words]
    described = {line[0] for line in lines if len(line) == 2}
    # The longest name has its description on the next line.
    described |= {
        line[0]
        for line, following in itertools.pairwise(lines)
        if len(line) == 1 and len(following) == 2
    }
    assert set(COMMANDS) <= described


def test_version_is_the_packages():
    done = hucrl("--version")
    assert (done.returncode, done.stdout) == (0, f"{hucrl_ros.__version__}\n")


def test_an_unknown_command_is_named_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["learn"])
    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert "'learn'" in message
    assert all(command in message for command in COMMANDS)


def test_an_unknown_option_is_named():
    done = hucrl("list", "--colour")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "hucrl: error: unrecognized arguments: --colour"


def test_no_command_is_a_usage_error():
    done = hucrl()
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("required: COMMAND")


@pytest.mark.parametrize(
    ("error", "code"), [(ConfigError("seed = -1"), 2), (BagError("x: torn"), 1)]
)
def test_a_users_error_is_one_line_and_an_exit_code(error, code, monkeypatch, capsys):
    def fail(args):
        raise error

    monkeypatch.setattr("hucrl_ros.cli.list.run", fail)
    assert main(["list"]) == code
    assert capsys.readouterr().err == f"hucrl list: {error}\n"


def test_an_interrupt_ends_with_130_and_no_traceback(monkeypatch, capsys):
    def interrupt(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("hucrl_ros.cli.list.run", interrupt)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_causes_no_traceback():
    script = "import sys; from hucrl_ros.cli import main; sys.exit(main(['list']))"
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_help_imports_nothing_heavy():
    code = (
        "import sys, contextlib, hucrl_ros.cli\n"
        "with contextlib.suppress(SystemExit): hucrl_ros.cli.main(['--help'])\n"
        f"sys.exit(', '.join(sorted(set({HEAVY!r}) & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"imported: {done.stderr}"


@pytest.mark.parametrize("kind", REGISTRIES)
def test_list_gives_a_line_and_an_existing_source_for_every_entry(kind):
    found = entries(kind)
    assert found
    for entry in found:
        assert len(entry.summary.split()) > 3, entry.name
        assert entry.source.startswith(("hucrl_ros/", "sim/"))
        assert entry.source.endswith((".py", ".yaml"))
    assert (share_directory() / found[0].source).is_file()


def test_list_prints_every_kind(capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for kind in REGISTRIES:
        assert f"\n{kind} (" in f"\n{printed}"
        for entry in entries(kind):
            assert f"  {entry.name}" in printed


def test_list_settings_prints_the_documented_defaults(capsys):
    assert main(["list", "settings"]) == 0
    assert capsys.readouterr().out == document_defaults()


def test_list_names_an_unknown_kind(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["list", "robot"])
    assert caught.value.code == 2
    assert "invalid choice: 'robot'" in capsys.readouterr().err


def test_every_command_module_belongs_to_a_command():
    folder = share_directory() / "hucrl_ros" / "cli"
    modules = {path.stem for path in folder.glob("[a-z]*.py") if not path.stem.startswith("_")}
    commands = {
        module for module in modules if "def add_parser" in (folder / f"{module}.py").read_text()
    }
    assert commands == set(COMMANDS)
