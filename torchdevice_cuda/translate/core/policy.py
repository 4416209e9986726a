"""The target of a request: the policy table as one pure function, and the ``cpu:-1`` override as a small state.

| the program requests | accelerator MPS | accelerator CUDA | CPU only |
|----------------------|-----------------|------------------|----------|
| nothing              | MPS             | CUDA             | CPU      |
| ``cpu``, ``cpu:n``   | MPS             | CUDA             | CPU      |
| ``cpu:-1``           | CPU, and toggles the override: while it is on, explicit cpu requests give CPU |
| ``mps``, ``mps:n``   | MPS             | CUDA             | CPU      |
| ``cuda``, ``cuda:n`` | MPS             | CUDA             | CPU      |

That is policy ``accelerate``. Policy ``faithful`` translates only devices that the machine lacks: requests for no
device and for the CPU stay on the CPU, as on CUDA.
"""

from __future__ import annotations

import dataclasses
import threading

ACCELERATE, FAITHFUL = "accelerate", "faithful"
CPU = "cpu"
#: Device types that mean "the accelerator" in any program.
ACCELERATORS = frozenset({"cuda", "mps"})


@dataclasses.dataclass(frozen=True)
class Request:
    """A requested device; a type of ``None`` means that none was named."""

    type: str | None
    index: int | None = None


class Override:
    """The ``cpu:-1`` toggle of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._on = False

    @property
    def on(self) -> bool:
        """Return whether explicit requests for the CPU are taken literally."""
        return self._on

    def toggle(self) -> bool:
        """Toggle the override and return its state."""
        with self._lock:
            self._on = not self._on
            return self._on

    def reset(self) -> None:
        """Turn the override off, as at the start."""
        with self._lock:
            self._on = False


def destination(request: Request, accelerator: str, policy: str, override: bool) -> Request:
    """Return the target of a request on a machine whose accelerator is of this type (``cpu``: none).

    The index of a CUDA request is kept for real CUDA devices; MPS and the CPU have one device each. Device types other
    than the CPU and the two accelerators pass through.
    """
    redirect = policy == ACCELERATE
    if request.type in ACCELERATORS:
        wanted = accelerator
    elif request.type is None:
        wanted = accelerator if redirect else CPU
    elif request.type == CPU:
        wanted = accelerator if redirect and not override and request.index != -1 else CPU
    else:
        return request
    if wanted == "cuda":
        return Request("cuda", request.index if request.type == "cuda" else None)
    return Request(wanted)


def default_policy(redirects: bool, allow_redirects: bool, chosen: str | None) -> str:
    """Return the policy in force: the chosen one, else ``accelerate`` if redirects are allowed or default."""
    if chosen is not None:
        return chosen
    return ACCELERATE if allow_redirects or redirects else FAITHFUL
