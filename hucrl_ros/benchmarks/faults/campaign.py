"""A campaign of faults, from the first run to the table."""

import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hucrl_ros.benchmarks import Output
from hucrl_ros.benchmarks.faults import report
from hucrl_ros.benchmarks.faults.attempt import attempt
from hucrl_ros.benchmarks.faults.fault import LOCKSTEP
from hucrl_ros.benchmarks.faults.kills import random_kills
from hucrl_ros.benchmarks.faults.remains import remains_of
from hucrl_ros.benchmarks.faults.schedule import Case
from hucrl_ros.benchmarks.faults.trial import Trial, rows_of
from hucrl_ros.benchmarks.faults.workshop import Heard, Workshop
from hucrl_ros.benchmarks.page import Browser, browsers
from hucrl_ros.errors import HucrlError, RunError


class Wish(NamedTuple):
    """What is asked for by the options of `hucrl fault`."""

    cases: Sequence[Case]
    """Faults to try one by one."""
    kills: int
    """Random kills over whole runs; 0: none."""
    commands: int
    """Random kills go on until so many commands have come to the robot."""
    episodes: int
    """Of each run."""
    seed: int
    browsers: int
    """That look at the page of each run; 0: there is none."""
    port: int
    """Where `hucrl up --watch` serves that page."""


class Campaign:
    """Trials as they come, so that what is done isn't lost when somebody presses Ctrl-C."""

    def __init__(self, wish: Wish, output: Output) -> None:
        """Prepare; nothing is started."""
        self._wish, self._output = wish, output
        self._draw = random.Random(wish.seed)
        self._scratch = Path(tempfile.mkdtemp(prefix="hucrl-fault-"))
        self.trials: list[Trial] = []
        self.untried: list[str] = []
        """Why something wasn't tried, one line each."""
        self._heard: dict[str, Heard] = {}
        self._visitors: Sequence[Browser] = ()

    def run(self) -> None:
        """Hurt runs, and print the table."""
        failed = False
        try:
            with browsers(self._wish.browsers, self._wish.port) as self._visitors:
                if self._wish.kills or self._wish.commands:
                    self._random_kills()
                for mode in dict.fromkeys(case.mode for case in self._wish.cases):
                    self._try_each(mode)
        except HucrlError:
            failed = True
            raise
        finally:
            if self.trials:
                self._tell()
            if failed or any(trial.wrong for trial in self.trials):
                self._output.say(f"runs and logs: {self._scratch}")
            else:
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _random_kills(self) -> None:
        wish = self._wish
        with self._workshop(LOCKSTEP) as workshop:
            kills = random_kills(workshop, wish.kills, wish.commands, self._draw, self._output.say)
            for trials in kills:
                self.trials += trials
                self._heard["kills"] = workshop.heard()

    def _try_each(self, mode: str) -> None:
        wish, say = self._wish, self._output.say
        with self._workshop(mode) as workshop:
            expected: dict[str, str] = {}
            if mode == LOCKSTEP:  # in real time no two runs are equal
                run, duration = workshop.undisturbed()
                expected = remains_of(run)
                say(f"without a fault: {duration:.0f} s, {len(expected)} results to compare")
            for case in (case for case in wish.cases if case.mode == mode):
                if problem := case.fault().problem():
                    self._leave_out(f"{case.fault.name}: {problem}")
                    continue
                try:
                    trial = attempt(workshop, case, self._draw, expected)
                except RunError as error:
                    self._leave_out(str(error))
                    continue
                self.trials.append(trial)
                self._heard[mode] = workshop.heard()
                say(f"{case}: {report.told(trial)}")

    def _workshop(self, mode: str) -> Workshop:
        wish = self._wish
        return Workshop(self._scratch, mode, wish.episodes, wish.seed, watched=wish.browsers > 0)

    def _leave_out(self, line: str) -> None:
        if line not in self.untried:
            self.untried.append(line)
            self._output.say(f"not tried: {line}")

    def _tell(self) -> None:
        """Print the table and write the page."""
        output, trials = self._output, self.trials
        heard = self._heard.values()
        total = report.totals(trials, sum(h.commands for h in heard), sum(h.unsafe for h in heard))
        if self._visitors:
            total += f"; the page was visited {sum(each.visits for each in self._visitors)} times"
        output.say("", *report.FAULTS.text(rows_of(trials)), "", total)
        if output.as_json:
            print(report.as_json(trials))
        if output.folder is not None:
            output.folder.mkdir(parents=True, exist_ok=True)
            paths = report.write_faults(output.folder, trials, total, self.untried, output)
            output.say(*map(str, paths))
