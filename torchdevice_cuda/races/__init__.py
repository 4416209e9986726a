"""Report races: accesses of a GPU's memory that no stream, event or wait orders (``--check-streams``).

The compiled device finds them (``native/csrc/races``); this package describes them and warns or raises.
"""

from .checking import ERROR, OFF, WARN, StreamRaceError, StreamRaceWarning, start, stop
from .findings import Access, Finding

__all__ = [
    "ERROR",
    "OFF",
    "WARN",
    "Access",
    "Finding",
    "StreamRaceError",
    "StreamRaceWarning",
    "start",
    "stop",
]
