"""A thread that ends a rank's waits when its group has failed, and the end of pending calls at exit.

NCCL has such a thread, too. Gloo has only one way to abort a call: a receive that times out closes the group's
connections, and all calls that are pending on them fail.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from .agreement import CollectiveFingerprints
    from .carriers import Carrier


class Group(Protocol):
    """The interface of a process group that this thread needs."""

    carrier: ClassVar[Carrier]

    def close_connections(self) -> None:
        """Fail all pending calls, here and on the other ranks."""


#: Seconds between two checks.
_INTERVAL = 0.05
#: Seconds that an ending process gives its collectives.
_GRACE = 3.0
_lock = threading.Lock()
_watched: dict[CollectiveFingerprints, weakref.ref[Group]] = {}
_is_running = False


def watch(group: Group, agreement: CollectiveFingerprints) -> None:
    """Close the connections of a group when it has failed, while it is alive."""
    global _is_running
    with _lock:
        _watched[agreement] = weakref.ref(group, lambda _: _watched.pop(agreement, None))
        if _is_running:
            return
        _is_running = True
    atexit.unregister(_end)
    atexit.register(_end)
    threading.Thread(target=_run, name="torchdevice_cuda watchdog", daemon=True).start()


def _run() -> None:
    global _is_running
    while True:
        time.sleep(_INTERVAL)
        with _lock:
            if not _watched:
                _is_running = False
                return
            failed = [agreement for agreement in list(_watched) if agreement.has_failed]
        for agreement in failed:
            found = _watched.pop(agreement, lambda: None)()
            if found is not None:
                found.close_connections()
            # This thread keeps no group alive: releasing the last reference waits for its calls.
            del found


def _end() -> None:
    """End collectives that are pending when the process ends: Gloo would wait for the other ranks, or the timeout."""
    groups = [group for reference in list(_watched.values()) if (group := reference()) is not None]
    if not groups:
        return
    carrier = groups[0].carrier
    # A program that ended with an error or Ctrl-C does not wait.
    deadline = time.monotonic() + (0.0 if getattr(sys, "last_type", None) else _GRACE)
    while carrier.has_pending() and time.monotonic() < deadline:
        time.sleep(0.01)
    if carrier.has_pending():
        for group in groups:
            group.close_connections()
