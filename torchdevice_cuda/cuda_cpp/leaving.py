"""Kernels on tensors that are not in the host's memory: it is lent to them, and each launch counts as a fallback."""

from __future__ import annotations

from collections.abc import Callable

WHY = "CUDA C++ is compiled for the host's cores"


class Leaving:
    """The callback for launches that leave the GPU; code that knows the settings sets it."""

    told: Callable[[str, str, str], None] | None = None

    def __call__(self, name: str) -> None:
        """A kernel of this name leaves the GPU."""
        if self.told is not None:
            self.told(name, "CPU", WHY)


leaving = Leaving()
