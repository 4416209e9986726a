"""Predicted times are labelled where they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harness import ChildConfig, child

CLOCKED = ChildConfig("virtual clocked", {"driver": "virtual", "clock": "gpu", "gpu": "h200"})
PLAIN = ChildConfig("virtual", {"driver": "virtual"})


def profile_twice(folder: Path) -> dict[str, Any]:
    """Return the properties of the first device of a trace."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(2):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            torch.ones(1000, device="cuda").add_(1)
    file = folder / "trace.json"
    profiled.export_chrome_trace(str(file))
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))["deviceProperties"][0]
    return found


@child(CLOCKED)
def test_a_trace_says_that_its_times_are_predicted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    properties = profile_twice(tmp_path)
    assert "predictions, not measurements" in properties["predicted"] and "%" in properties["predicted"]
    assert capfd.readouterr().err.count("predictions, not measurements") == 1


@child(PLAIN)
def test_a_trace_of_this_machines_time_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "predicted" not in profile_twice(tmp_path)
    assert "predictions" not in capfd.readouterr().err
