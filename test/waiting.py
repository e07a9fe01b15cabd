"""How long tests wait for what has to happen: long, since other processes may be busy."""

import time

PATIENCE = 600.0
"""[s] A run of two episodes takes half a minute of a processor, of which a busy machine may give
a tenth."""


def wait_until(condition, patience=PATIENCE):
    """Poll until it holds."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
