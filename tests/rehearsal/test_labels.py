"""Predicted times are labelled where they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import ChildConfig, outcome

CLOCKED = ChildConfig("virtual clocked", {"driver": "virtual", "clock": "gpu", "gpu": "h200"})
PLAIN = ChildConfig("virtual", {"driver": "virtual"})


def profile_twice(folder: str) -> dict[str, Any]:
    """Return the properties of the first device of a trace."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    for _ in range(2):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            torch.ones(1000, device="cuda").add_(1)
    file = Path(folder) / "trace.json"
    profiled.export_chrome_trace(str(file))
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))["deviceProperties"][0]
    return found


def test_a_trace_says_that_its_times_are_predicted(tmp_path: Path) -> None:
    done = outcome(profile_twice, CLOCKED, str(tmp_path))
    predicted = done.checked()["predicted"]
    assert "predictions, not measurements" in predicted and "%" in predicted
    assert done.err.count("predictions, not measurements") == 1


def test_a_trace_of_this_machines_time_says_nothing(tmp_path: Path) -> None:
    done = outcome(profile_twice, PLAIN, str(tmp_path))
    assert "predicted" not in done.checked() and "predictions" not in done.err
