import math

import pytest

from hucrl_ros.controller.ticks import (
    TickRecord,
    decode_decided,
    decode_tick,
    encode_tick,
    numbered,
    tick_labels,
)
from hucrl_ros.errors import HucrlError

TICK = TickRecord(
    12, 987_654_321, 7, 1.5, 1, True, False, True, 2, 30.25, 0.5, 0.25, 0.75, 1.25, (0.5, -1.0)
)


def test_fields_come_in_the_order_of_the_contract():
    assert ", ".join(tick_labels(2)) == (
        "stamp_sec, stamp_nanosec, step, tick_ms, source, missed, clamped, filtered, "
        "iterations, planned_return, epistemic_std, aleatoric_std, hallucination, "
        "surprise, action_0, action_1"
    )


def test_decoding_gives_back_what_was_encoded():
    assert decode_tick(tick_labels(2), encode_tick(TICK)) == TICK
    assert TICK.stamp_ns == 12_987_654_321


def test_fields_are_found_by_label():
    labels, data = list(tick_labels(2)), encode_tick(TICK)
    assert decode_tick(labels[::-1], data[::-1]) == TICK


def test_a_missing_field_is_named():
    labels, data = list(tick_labels(1)), encode_tick(TICK)[:-1]
    labels[labels.index("tick_ms")] = "tock_ms"
    with pytest.raises(HucrlError, match="tick_ms"):
        decode_tick(labels, data)


def test_ticks_of_before_the_filter_were_not_filtered():
    labels, data = list(tick_labels(2)), encode_tick(TICK)
    place = labels.index("filtered")
    old = decode_tick(labels[:place] + labels[place + 1 :], data[:place] + data[place + 1 :])
    assert old == TICK._replace(filtered=False)


def test_of_older_ticks_nobody_knows_the_surprise():
    labels, data = list(tick_labels(2)), encode_tick(TICK)
    place = labels.index("surprise")
    old = decode_tick(labels[:place] + labels[place + 1 :], data[:place] + data[place + 1 :])
    assert math.isnan(old.surprise)
    assert old._replace(surprise=1.25) == TICK


@pytest.mark.parametrize("name", ["step", "filtered", "iterations", "missed"])
@pytest.mark.parametrize("value", [1.5, -0.1, math.nan, math.inf, 1e300])
def test_a_count_is_a_whole_number(name, value):
    labels, data = list(tick_labels(2)), encode_tick(TICK)
    data[labels.index(name)] = value
    with pytest.raises(HucrlError, match=f"{name} is .*; expected a whole number"):
        decode_tick(labels, data)


def test_labels_must_match_the_data():
    with pytest.raises(HucrlError, match="15 labels for 16 values"):
        decode_tick(tick_labels(1), encode_tick(TICK))


def test_what_time_decided_stands_beside_the_fields():
    labels = [*tick_labels(2), "in_force_1", "in_force_0", "late", "news"]
    data = [*encode_tick(TICK), 0.25, 1.0, 3.0, 7.0]
    assert decode_tick(labels, data) == TICK
    decided = decode_decided(labels, data)
    assert decided == {"in_force_0": 1.0, "in_force_1": 0.25, "late": 3.0}
    assert list(numbered(decided, "in_force_").items()) == [(0, 1.0), (1, 0.25)]
