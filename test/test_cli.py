"""`hucrl` as people type it: help, wrong words, exit codes, a quick start."""

import errno
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.core import TyperOption

import hucrl_ros
from hucrl_ros.cli import COMMANDS, main
from hucrl_ros.cli.list import REGISTRIES, entries
from hucrl_ros.cli.parsing import file_to_write, spread
from hucrl_ros.config.defaults import document_defaults
from hucrl_ros.config.files import share_directory
from hucrl_ros.errors import BagError, ConfigError

HEAVY = ("pydantic", "torch", "rclpy", "mujoco", "onnxruntime", "matplotlib", "scipy")


def hucrl(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "hucrl_ros", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    for option in ("--help", "-h"):
        assert main([command, option]) == 0
        assert f"Usage: hucrl {command} " in capsys.readouterr().out


def test_help_keeps_what_stands_in_brackets(capsys):
    assert main(["export", "--help"]) == 0
    assert "pip install -e '.[lerobot]'" in " ".join(capsys.readouterr().out.split())


def test_help_names_every_command_with_a_line(capsys):
    assert main(["--help"]) == 0
    lines = [line.strip("│ ").split() for line in capsys.readouterr().out.splitlines()]
    assert set(COMMANDS) <= {line[0] for line in lines if len(line) > 3}


def test_version_is_the_packages():
    done = hucrl("--version")
    assert (done.returncode, done.stdout) == (0, f"{hucrl_ros.__version__}\n")


def test_an_unknown_command_is_named_with_the_known_ones(capsys):
    assert main(["fly"]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "'fly'" in message
    assert all(command in message for command in COMMANDS)


def test_an_unknown_option_is_named():
    done = hucrl("list", "--colour")
    assert done.returncode == 2
    assert done.stderr == "hucrl list: No such option: --colour\n"


def test_no_command_is_a_usage_error():
    done = hucrl()
    assert done.returncode == 2
    assert done.stderr.startswith("hucrl: Missing command; known: up, train, ")


@pytest.mark.parametrize(
    ("error", "code"), [(ConfigError("seed = -1"), 2), (BagError("x: torn"), 1)]
)
def test_a_users_error_is_one_line_and_an_exit_code(error, code, monkeypatch, capsys):
    def fail():
        raise error

    monkeypatch.setattr("hucrl_ros.cli.list.run", fail)
    assert main(["list"]) == code
    assert capsys.readouterr().err == f"hucrl list: {error}\n"


def test_an_interrupt_ends_with_130_and_no_traceback(monkeypatch, capsys):
    def interrupt():
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
        assert process.wait() == 1


def test_help_imports_nothing_heavy():
    code = (
        "import sys, contextlib, hucrl_ros.cli\n"
        "with contextlib.suppress(SystemExit): hucrl_ros.cli.main(['--help'])\n"
        f"sys.exit(', '.join(sorted(set({HEAVY!r}) & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
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
    assert main(["list", "robot"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hucrl list: kind = robot: expected one of tasks, robots, ")
    assert error.endswith("; did you mean 'robots'?\n")


def test_every_command_module_belongs_to_a_command():
    folder = share_directory() / "hucrl_ros" / "cli"
    modules = {path.stem for path in folder.glob("[a-z]*.py") if not path.stem.startswith("_")}
    entry = re.compile(r"^(def run\(|app = )", re.MULTILINE)
    commands = {
        module for module in modules if entry.search((folder / f"{module}.py").read_text())
    }
    assert {*commands, "runs"} == {place.partition(".")[0] for place in COMMANDS.values()}


# Parsing


SEEDS = TyperOption(
    param_decls=["seeds", "--seeds"], metavar="SEED...", multiple=True, type_descriptor=None
)
OUT = TyperOption(param_decls=["out", "--out"], metavar="DIR", type_descriptor=None)
VARY = TyperOption(param_decls=["vary", "--vary"], metavar="KEY=V1,V2,...", type_descriptor=None)
QUIET = TyperOption(param_decls=["quiet", "--quiet"], is_flag=True, type_descriptor=None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a --seeds 0 1 2", "a --seeds=0 --seeds=1 --seeds=2"),
        ("--seeds -1 -2.5 --quiet b", "--seeds=-1 --seeds=-2.5 --quiet b"),
        ("--out x y --seeds=3 z", "--out=x y --seeds=3 z"),
        ("--out -1 -- --seeds 0 1", "--out=-1 -- --seeds 0 1"),
        ("--unknown 0 1", "--unknown 0 1"),
        ("--vary k=1,2 a --set=b", "--vary=k=1,2 a --set=b"),
    ],
)
def test_values_that_follow_an_option_are_all_its_own(words, expected):
    assert list(spread(words.split(), [SEEDS, OUT, VARY, QUIET])) == expected.split()


@pytest.mark.parametrize("words", ["--out", "--out --quiet", "--seeds --out x", "--seeds"])
def test_an_option_without_its_value_is_named(words):
    with pytest.raises(ConfigError, match=f"{words.split()[0]}: expected a value"):
        list(spread(words.split(), [SEEDS, OUT, VARY, QUIET]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train pendulum --seed x", "hucrl train: --seed = x: expected a whole number"),
        ("tune b --threads 1.5", "hucrl tune: --threads = 1.5: expected a whole number"),
        ("train pendulum --action-penalty x", "--action-penalty = x: expected a number"),
        ("evaluate b --episodes 0", "hucrl evaluate: --episodes = 0: at least 1"),
        ("bench loop --priority 100", "hucrl bench: --priority = 100: from 0 to 99"),
        ("bench delay --delays 0 -2", "--delays = -2: from 0 to 1000"),
        ("sweep pendulum --out o --strategies greedy optimistc", "did you mean 'optimistic'?"),
        (
            "optimum pendulum --method grit",
            "expected one of grid, planner, ilqr; did you mean 'grid'?",
        ),
        ("up pendulum --lockstep --real-time", "--lockstep: not allowed with --real-time"),
        ("sweep pendulum", "hucrl sweep: Missing option '--out'."),
        ("train", "hucrl train: Missing argument 'TASK'."),
        ("bench tock", "known: tick, loop, watchdog, soak, page, delay, planners, learning"),
    ],
)
def test_a_wrong_value_is_one_line_with_what_is_accepted(words, message, capsys):
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("hucrl")
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize(
    ("line", "known"), [("hucrl tr", "train"), ("hucrl figure --fin", "--finished")]
)
def test_a_shell_gets_completions(line, known):
    variables = {"_HUCRL_COMPLETE": "complete_bash", "COMP_WORDS": line}
    variables["COMP_CWORD"] = str(len(line.split()) - 1)
    done = subprocess.run(
        [sys.executable, "-c", "from hucrl_ros.cli import main; main()"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert known in done.stdout.split()


@pytest.mark.parametrize("option", ["--out", "--csv"])
def test_what_cannot_be_written_is_refused_before_the_work(option, tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    words = {
        "--out": ["figure", "bandit"],
        "--csv": ["optimum", "pendulum", "--method", "planner"],
    }
    assert main([*words[option], option, str(file / "below")]) == 2
    assert f"{option} = {file / 'below'}: {file} is no folder" in capsys.readouterr().err


def test_a_file_that_is_there_may_lie_where_no_other_can_be_made(tmp_path, monkeypatch):
    (tmp_path / "rows.csv").touch()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, how: path != tmp_path and allowed(path, how))
    param = SimpleNamespace(opts=["--csv"])
    assert file_to_write(param, tmp_path / "rows.csv") == tmp_path / "rows.csv"
    with pytest.raises(ConfigError, match=r"new\.csv: .* can't be written"):
        file_to_write(param, tmp_path / "new.csv")


def test_a_full_disk_is_one_line(monkeypatch, capsys):
    def full(*words):
        raise OSError(errno.ENOSPC, "No space left on device", "/data/file")

    monkeypatch.setattr("hucrl_ros.cli.figure._bandit", full)
    assert main(["figure", "bandit"]) == 1
    assert capsys.readouterr().err == "hucrl figure: /data/file: No space left on device\n"


def test_options_of_another_method_are_refused(capsys):
    assert main(["optimum", "pendulum", "--planner", "mppi"]) == 2
    assert "--planner: not with --method grid" in capsys.readouterr().err
    assert main(["optimum", "pendulum", "--action-penalty", "-1"]) == 2
    assert "action_penalty" in capsys.readouterr().err
