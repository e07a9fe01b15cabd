"""Opens a graph of a bundle, once its structure and its sizes were looked at."""

from collections.abc import Mapping

import onnxruntime

from hucrl_ros.controller.graph_sizes import Room, check_sizes
from hucrl_ros.controller.graph_structure import declared_shapes, parse_graph
from hucrl_ros.errors import shortened

Shapes = Mapping[str, tuple[int | str, ...]]
Sizes = Mapping[str, int]
GRAPH_BYTES = 2**28
"""Largest graph."""
AT_LOAD = Room(memory=2**26, work=2**31)
"""What a graph may take on its parity inputs, beside its own size."""
AT_RUN = Room(memory=2**32, work=2**42)
"""What a graph may take at what the planner asks of it; ONNX Runtime uses memory again and
again, so this is no amount that is ever taken."""


def checked_graph(
    content: bytes, inputs: Shapes, outputs: Shapes, at_load: Sizes, at_run: Sizes, loop: bool
) -> bytes:
    """A graph with what was checked and nothing else.

    Args:
        content: Of the file.
        inputs: Shapes that its inputs must have, by their names.
        outputs: The same of its outputs.
        at_load: What names in shapes stand for when the bundle is checked.
        at_run: The same when the robot moves.
        loop: It may have a `Scan`.

    Raises:
        ValueError: it has something that isn't accepted, takes too much, or other shapes.
    """
    if len(content) > GRAPH_BYTES:
        raise ValueError(f"{len(content)} bytes, more than the {GRAPH_BYTES} accepted")
    model = parse_graph(content, loop)
    for kind, found, expected in (
        ("input", model.graph.input, inputs),
        ("output", model.graph.output, outputs),
    ):
        shapes = declared_shapes(found)
        if shapes != expected:
            raise ValueError(f"{kind}s are {shortened(shapes)}, expected {expected}")
    room = Room(AT_LOAD.memory + 4 * len(content), AT_LOAD.work)
    for sizes, most in ((at_load, room), (at_run, AT_RUN)):
        results = check_sizes(model, sizes, most)
        for key, shape in outputs.items():
            wanted = tuple(sizes[size] if isinstance(size, str) else size for size in shape)
            if results[key] != wanted:
                raise ValueError(f"gives {key} as {shortened(results[key])}, expected {wanted}")
    checked: bytes = model.SerializeToString()
    return checked


def open_graph(content: bytes, threads: int) -> onnxruntime.InferenceSession:
    """A session for a graph that was checked.

    Raises:
        ValueError: ONNX Runtime can't load it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that spin while they wait would take the core from the rest of the robot.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Not its own format, which has other ways to name a file.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own errors share no base class.
        raise ValueError(f"can't be loaded: {shortened(error)}") from None
