"""Packages with kernels for CUDA of which torchdevice_cuda has a stand-in: one row each.

A stand-in is a package of the same name over torch's own operators. It is in ``stand_ins/packages``.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class StandIn:
    """One package."""

    #: the name by which it is distributed
    distribution: str
    #: the release whose functions the stand-in has
    version: str
    #: another name for it in programs' errors
    also_called: str = ""
    #: a module of the real package, and its variable that holds why a library did not load
    load_error: tuple[str, str] | None = None


#: By the name that is imported.
STAND_INS = {
    "flash_attn": StandIn("flash-attn", "2.8.3", also_called="FlashAttention2"),
    "xformers": StandIn("xformers", "0.0.32.post2", load_error=("xformers._cpp_lib", "_cpp_library_load_exception")),
}
#: Words in place of a list: every package of the table; none.
ALL, NONE = "all", "none"


def read(text: str) -> tuple[str, ...]:
    """Return the names of a list, in the table's order."""
    entries = [entry.strip() for entry in text.split(",")]
    if entries == [NONE]:
        return ()
    if entries == [ALL]:
        return tuple(STAND_INS)
    if not set(entries) <= set(STAND_INS):
        raise ValueError(text)
    return tuple(name for name in STAND_INS if name in entries)


def write(names: tuple[str, ...]) -> str:
    """Write the list."""
    return ",".join(names) or NONE
