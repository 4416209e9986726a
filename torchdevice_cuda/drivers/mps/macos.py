"""Whether this Mac can run torch's MPS backend, and what its user can do if not."""

from __future__ import annotations

import platform
import sys

from ... import _compat

#: What ``platform.mac_ver()`` returns in a Python that was built before macOS 11, on every later macOS.
_HIDDEN = (10, 16)


def is_apple_silicon() -> bool:
    """Return whether this Python runs on an Apple processor, natively."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


def is_intel_mac() -> bool:
    """Return whether this is a Mac with an Intel processor, or a Python for one."""
    return sys.platform == "darwin" and platform.machine() == "x86_64"


def version() -> tuple[int, int] | None:
    """Return the release of macOS; ``None`` on other systems, and if Python cannot know it."""
    numbers = [int(part) for part in platform.mac_ver()[0].split(".") if part.isdigit()]
    found = (numbers[0], numbers[1] if len(numbers) > 1 else 0) if numbers else None
    return None if found == _HIDDEN else found


def describe_intel(torch_version: str | None) -> str:
    """Return why there is no Apple GPU on a Mac with an Intel processor."""
    found = "" if torch_version is None else f" (this is torch {torch_version})"
    return (
        f"this Python is for Macs with an Intel processor, for which PyTorch ended with {_compat.LAST_FOR_INTEL_MACS}"
        f"{found}; on a Mac with an Apple processor install a Python for arm64"
    )


def describe_too_old(torch_version: str) -> str | None:
    """Return why a torch release cannot use the GPU on this macOS, and which can; ``None`` if it can."""
    here, needed = version(), _compat.least_macos(torch_version)
    if here is None or here >= needed:
        return None
    usable = _compat.newest_for_macos(here)
    reason = f"torch {torch_version} uses Apple GPUs from macOS {_dotted(needed)} on, and this is macOS {_dotted(here)}"
    if usable is None:
        return f"{reason}; no torch from {_dotted(_compat.MINIMUM)} on uses them here: upgrade macOS"
    return f"{reason}; torch {_dotted(usable)} works here: pip install 'torch=={_dotted(usable)}.*', or upgrade macOS"


def _dotted(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
