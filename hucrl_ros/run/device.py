"""The machine that learning runs on: its device and its memory."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from hucrl_ros.errors import ConfigError


def check_device(name: str) -> None:
    """Look whether this machine has what `device` asks for.

    Raises:
        ConfigError: it hasn't.
    """
    if name == "cuda" and not torch.cuda.is_available():
        alone = torch.version.cuda is None
        cause = "is built for the processor alone" if alone else "finds no GPU"
        raise ConfigError(
            f"device = 'cuda': torch {torch.__version__} {cause}; take cpu, or install "
            "a torch with CUDA on a machine with an NVIDIA GPU"
        )


@contextmanager
def moved_to(name: str, modules: nn.Module) -> Iterator[None]:
    """Inside, `modules` are on the device `name`, where new tensors are made, too.

    Afterwards they are back in the processor's memory, whatever happened.
    """
    if name == "cpu":
        yield
        return
    try:
        modules.to(name)
        with torch.device(name):
            yield
    finally:
        modules.to("cpu")


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 << 20
_KEPT = 1 << 30


def keep_freed_memory() -> bool:
    """Tell glibc not to return freed memory to the kernel at once; False on other systems.

    Arrays of some megabytes otherwise come as new, zeroed pages each time, which made the
    ensemble's batched products twice as slow.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # musl has none.
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, _KEPT)
    )
