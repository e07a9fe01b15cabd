"""Which tests `make test` leaves to `make test-long`: those that took seconds in a record of all.

Written anew from pytest's list of durations:

    ARGS=--durations=0 .ci/run > log; .venv/bin/python test/long_tests.py log
"""

import argparse
import re
from collections import Counter
from pathlib import Path

LIST = Path(__file__).with_name("long_tests.txt")
LONG = 4.0
"""So many seconds on two cores, with three tests beside each other."""
LINE = re.compile(r"([\d.]+)s (?:call|setup|teardown) +(test/\S+::.*\S)\s*")


def known() -> frozenset[str]:
    """Their node ids."""
    return frozenset(LIST.read_text().splitlines())


def main() -> None:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", type=Path, help="what pytest printed with --durations=0")
    took = Counter[str]()
    for line in parser.parse_args().log.read_text().splitlines():
        if found := LINE.fullmatch(line):
            took[found[2]] += float(found[1])
    LIST.write_text("".join(f"{name}\n" for name in sorted(took) if took[name] >= LONG))


if __name__ == "__main__":
    main()
