"""README.md: its length, the floors of the house, a reason for each package."""

import re

from documents import README, ROOT, blocks, table
from test_architecture import FLOORS


def test_it_can_be_read_in_one_sitting():
    assert len(README.read_text().splitlines()) <= 200


def test_the_drawing_shows_every_room_on_its_floor():
    (drawing,) = [block for block in blocks(README, "") if block.startswith("hucrl_ros/\n")]
    floors, number = {}, 0
    for line in drawing.splitlines()[1:]:
        floor, room = re.match(r" *(\d*) +(\w+)", line).groups()
        number = int(floor or number)
        floors.setdefault(number, set()).add(room)
    assert floors == {len(FLOORS) - k: rooms for k, rooms in enumerate(FLOORS)}


def test_every_direct_dependency_has_a_reason():
    required = set()
    for name in ("requirements", "requirements-ros", "requirements-dev"):
        lines = (ROOT / f"{name}.in").read_text().splitlines()
        required |= {re.match(r"[\w.-]+", line)[0] for line in lines if not line.startswith("#")}
    rows = table(README, "package", "why")
    documented = [name.strip() for row in rows for name in row[0].split(",")]
    assert len(documented) == len(set(documented))
    assert set(documented) == required
