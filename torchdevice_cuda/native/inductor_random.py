"""The CPU's random generator while compiled code draws from it: it is lent the device's seed.

Code of the program in the middle of such a graph draws from the generator as the program left it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class _Lent(threading.local):
    """State that this thread's compiled code has saved."""

    #: The state that the program left, a tensor; nothing where no seed is lent.
    of_program: Any = None


_lent = _Lent()


@contextlib.contextmanager
def lend_seed(seed: int) -> Iterator[None]:
    """Have the CPU's generator draw from a seed in here."""
    import torch

    outer, _lent.of_program = _lent.of_program, torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(_lent.of_program)
        _lent.of_program = outer


@contextlib.contextmanager
def return_generator() -> Iterator[None]:
    """Have the CPU's generator be the program's in here."""
    if _lent.of_program is None:
        yield
        return
    import torch

    compiled = torch.get_rng_state()
    torch.set_rng_state(_lent.of_program)
    _lent.of_program = None
    try:
        yield
    finally:
        _lent.of_program = torch.get_rng_state()
        torch.set_rng_state(compiled)
