"""Calls that were refused because torchdevice_cuda cannot do them: counted, so that a report can list them."""

from __future__ import annotations

from collections.abc import Callable

from .counters import Counters

#: The refusals of this process: what was called, why it is refused, the call site.
unsupported = Counters()


class _Place:
    """The program's call site, set by the code that looks at its frames."""

    find: Callable[[], tuple[str, int]] | None = None

    def forget(self) -> None:
        """Clear the call site."""
        self.find = None


place = _Place()


def met(what: str, why: str) -> None:
    """A call is about to be refused."""
    site = "{}:{}".format(*place.find()) if place.find is not None else ""
    unsupported.count(what, why, site)


def not_supported(what: str, why: str) -> NotImplementedError:
    """Return the error for such a call."""
    met(what, why)
    return NotImplementedError(why)
