"""A thread that ends what a rank waits for when its group has failed, and an end to what is pending at exit.

NCCL has such a thread, too. Gloo has no way to abort a call but one: a receive that times out closes the group's
connections, and all that is pending on them fails.
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
    """A process group, as far as this thread needs it."""

    carrier: ClassVar[Carrier]

    def close_connections(self) -> None:
        """Fail what is pending, here and on the other ranks."""


#: Seconds between looks.
_INTERVAL = 0.05
#: Seconds that a process which ends gives its collectives.
_GRACE = 3.0
_lock = threading.Lock()
_watched: dict[CollectiveFingerprints, weakref.ref[Group]] = {}
_is_running = False


def watch(group: Group, agreement: CollectiveFingerprints) -> None:
    """Close the connections of a group when it has failed, for as long as it lives."""
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
            # This thread holds no group: the last to let go of one waits for its calls.
            del found


def _end() -> None:
    """End collectives that are pending when the process ends: Gloo would wait for the other ranks, or the timeout."""
    groups = [group for reference in list(_watched.values()) if (group := reference()) is not None]
    if not groups:
        return
    carrier = groups[0].carrier
    # A program that has ended by an error or Ctrl-C does not wait.
    deadline = time.monotonic() + (0.0 if getattr(sys, "last_type", None) else _GRACE)
    while carrier.has_pending() and time.monotonic() < deadline:
        time.sleep(0.01)
    if carrier.has_pending():
        for group in groups:
            group.close_connections()
