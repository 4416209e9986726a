"""The tools that check kernels, named after compute-sanitizer's (``--sanitize``)."""

from __future__ import annotations

import re

from .variables import ValueHint, suggest

VARIABLE = "TORCHDEVICE_SANITIZE"
MEMCHECK, RACECHECK, INITCHECK, SYNCCHECK = "memcheck", "racecheck", "initcheck", "synccheck"
TOOLS = (MEMCHECK, RACECHECK, INITCHECK, SYNCCHECK)
NONE = "none"
ALLOWED = f"names ({', '.join(TOOLS)}), {NONE}; names may be followed by :SEED, for another order of blocks"


def read(text: str) -> str:
    """Return the tools in the table's order, with the seed if there is one; nothing for none.

    The C++ of checked kernels reads this form (``host_sanitizer/tools.h``).
    """
    value = text.strip().lower()
    if value == NONE:
        return ""
    match = re.fullmatch(r"([^:]*)(?::\s*([0-9]{1,18}))?", value, re.ASCII)
    if match is None:
        raise ValueError(text)
    names = [name.strip() for name in match[1].split(",")]
    unknown = next((name for name in names if name not in TOOLS), None)
    if unknown is not None:
        raise ValueHint(f"there is no tool {unknown!r}{suggest(unknown, TOOLS)}".removesuffix("; "))
    seed = "" if match[2] is None else f":{int(match[2])}"
    return ",".join(name for name in TOOLS if name in names) + seed


def write(tools: str) -> str:
    """Write the tools."""
    return tools or NONE


def list_tools(tools: str) -> tuple[str, ...]:
    """Return the names."""
    return tuple(name for name in tools.partition(":")[0].split(",") if name)


def find_seed(tools: str) -> int | None:
    """Return the seed of the order of blocks; ``None`` for ascending numbers."""
    _, _, seed = tools.partition(":")
    return int(seed) if seed else None
