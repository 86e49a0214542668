"""Give freed memory back to the system."""

from __future__ import annotations

import ctypes
import gc
import sys


def return_memory() -> None:
    """Collect garbage and hand the heap's free pages back. glibc keeps them, between blocks that are in use, for ever."""
    gc.collect()
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
