"""Calls that were refused because torchdevice_cuda does not support them: counted for the report."""

from __future__ import annotations

from collections.abc import Callable

from .counters import Counters

#: The refusals of this process: the called function, the reason, the call site.
unsupported = Counters()


class _Place:
    """The program's call site, set by the code that inspects its frames."""

    find: Callable[[], tuple[str, int]] | None = None

    def forget(self) -> None:
        """Clear the call site."""
        self.find = None


place = _Place()


def met(what: str, why: str) -> None:
    """Count a call that is about to be refused."""
    site = "{}:{}".format(*place.find()) if place.find is not None else ""
    unsupported.count(what, why, site)


def not_supported(what: str, why: str) -> NotImplementedError:
    """Count a refused call and return its error."""
    met(what, why)
    return NotImplementedError(why)
