"""An operator that falls back, and a count of fallbacks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchdevice_cuda.report.departures import departures
from torchdevice_cuda.wrapper_tensors.doubles import DoubleHome, homes

#: As torch words it.
NO_DOUBLE = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
NO_FLOAT8 = "Trying to convert Float8_e4m3fn to the MPS backend but it does not have support for that dtype."


def counting(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Count fallbacks from now on, with their call sites. float64 that is kept has a backend."""
    home = DoubleHome(torch.device("meta"), lambda *row: None, lambda error: error)
    monkeypatch.setitem(homes, "meta", home)
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(departures, "counter", lambda *row: lambda: found.append(row))
    monkeypatch.setattr(departures, "first_at", lambda row, file, line: found.append((file, line)))
    return found
