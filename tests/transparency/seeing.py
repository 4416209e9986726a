"""Descriptions of everything that a program sees, in words that do not depend on the device."""

from __future__ import annotations

import re
from typing import Any

import torch

#: The device a program names: CUDA where there is one, else the CPU, where stock torch computes the truth for "cpu".
CUDA = "cuda" if torch.cuda.is_available() else "cpu"


def steady(text: str) -> str:
    """Return a text without addresses, and with the device called by one name."""
    return re.sub(r"0x[0-9a-f]+", "0x", text).replace("cuda", "cpu")


def attempt(action: Any) -> str:
    """Return an action's result, or its error."""
    try:
        return steady(str(action()))
    except Exception as error:
        return steady(f"{type(error).__name__}: {error}")
