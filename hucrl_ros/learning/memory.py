"""Keeps memory that was freed, for programs that allocate the same sizes over and over."""

import ctypes
import sys

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
