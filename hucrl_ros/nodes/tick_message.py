"""`hucrl_ros.controller.ticks` as messages on `controller/ticks`."""

from std_msgs.msg import Float64MultiArray, MultiArrayDimension, MultiArrayLayout

from hucrl_ros.controller.ticks import TickRecord, decode_tick, encode_tick, tick_labels


def tick_layout(action_dim: int) -> MultiArrayLayout:
    """The layout whose labels name the fields; build it once, it is the same for every tick."""
    return MultiArrayLayout(
        dim=[MultiArrayDimension(label=name, size=1, stride=1) for name in tick_labels(action_dim)]
    )


def to_message(tick: TickRecord, layout: MultiArrayLayout) -> Float64MultiArray:
    """The message of a tick."""
    return Float64MultiArray(layout=layout, data=encode_tick(tick))


def from_message(message: Float64MultiArray) -> TickRecord:
    """The tick of a message.

    Raises:
        HucrlError: labels and data don't match, or a field is missing.
    """
    return decode_tick([dimension.label for dimension in message.layout.dim], message.data)
