"""The end of deferred work (``--streams adversarial``) in a process."""

from __future__ import annotations

import sys

from . import parts
from .interface import Native


def end_deferral(native: Native) -> None:
    """Run what waits, and later work when it is issued.

    Other processes that share memory or events of this one do not see what waits in it.
    """
    if parts.name_library("cuda", "deferral") in sys.modules:
        native.stop_deferral()
