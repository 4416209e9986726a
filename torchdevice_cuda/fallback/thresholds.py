"""Times of operators through MLX and on the CPU, by dtype and size class: the faster one is used.

Figures come from three sources, in this order: measurements of this process (``mlx_routes``), measurements of earlier
processes or of ``tools/bench/mlx.py`` on this machine, and the sizes shipped with the package for MLX's kind of device
(``mlx_defaults.json``, written by the same tool; a missing kind has not been measured).

A size class is the bit length of the largest tensor's number of elements: 2**(n-1) to 2**n - 1.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import stored
from .mlx_arrays import mlx

_log = logging.getLogger("torchdevice_cuda")
FILE = "mlx-figures.json"
DEFAULTS = Path(__file__).with_name("mlx_defaults.json")
#: MLX is used if it takes less than this part of the CPU's time.
WINS_BELOW = 0.9

#: operator, dtype, size class
Key = tuple[str, str, int]
#: seconds on the CPU and through MLX, including copies into MLX's arrays and back
Pair = tuple[float, float]


def size_class(elements: int) -> int:
    """Return the class of a number of elements."""
    return elements.bit_length()


def wins(pair: Pair) -> bool:
    """Return whether MLX was faster by enough."""
    return pair[1] < WINS_BELOW * pair[0]


def kind() -> str:
    """Return the kind of device that MLX computes on: ``gpu`` or ``cpu``, ``none`` without MLX."""
    mx = mlx()
    return "none" if mx is None else str(mx.default_device().type).rpartition(".")[2]


def machine() -> str:
    """Return the versions that the figures depend on: MLX and its device, torch, the system and the chip."""
    mx = mlx()
    version = "none" if mx is None else getattr(mx, "__version__", "of no version")
    return f"mlx {version} on {kind()}, {stored.host()}"


def defaults(device: str) -> dict[str, dict[str, int]]:
    """Return the number of elements from which MLX was faster, by operator and dtype, for a measured kind of device."""
    with open(DEFAULTS, encoding="utf-8") as file:
        table: dict[str, dict[str, dict[str, dict[str, int]]]] = json.load(file)
    return table.get(device, {}).get("least", {})


def _rows(found: Any) -> Iterator[tuple[Key, Pair]]:
    """Yield the figures of a file's entry for a machine."""
    for row in found or ():
        name, dtype, size, on_cpu, on_mlx = row
        yield (str(name), str(dtype), int(size)), (float(on_cpu), float(on_mlx))


class Figures:
    """The figures of one machine; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._machine = machine()
        self._changed = False
        self._least = defaults(kind())
        self._known = self._stored()

    def _stored(self) -> dict[Key, Pair]:
        try:
            return dict(_rows(stored.load(FILE, self._machine)))
        except (TypeError, ValueError) as error:
            _log.warning("the figures of MLX in %s are ignored: %s", FILE, error)
            return {}

    def measured(self, key: Key) -> Pair | None:
        """Return the measurement on this machine."""
        return self._known.get(key)

    def expected(self, key: Key) -> bool:
        """Return whether MLX is expected to be faster: as in the next smaller measured class, else as shipped."""
        name, dtype, size = key
        smaller = [other for other in list(self._known) if other[:2] == key[:2] and other[2] < size]
        if smaller:
            return wins(self._known[max(smaller)])
        least = self._least.get(name, {}).get(dtype)
        return least is not None and size >= size_class(least)

    def add(self, key: Key, pair: Pair) -> None:
        """Add a measurement."""
        with self._lock:
            self._known[key] = pair
            self._changed = True

    def save(self) -> None:
        """Store new figures for later processes, beside those that others have stored meanwhile."""
        with self._lock:
            if not self._changed:
                return
            self._changed = False
            merged = self._stored() | self._known
        rows = [[*key, round(pair[0], 9), round(pair[1], 9)] for key, pair in sorted(merged.items())]
        stored.save(FILE, self._machine, rows)
