"""What CUDA says of calls that are not deterministic or that wait: as an H200 said it, call by call."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from harness import VIRTUAL, child

from .telling import nondeterministic, synchronizing

pytestmark = child(VIRTUAL)

RECORD = json.loads((Path(__file__).parents[1] / "data" / "alerts-h200.json").read_text(encoding="utf-8"))
#: Of torch 2.11; what later versions compute otherwise, by the first that does.
SINCE = {
    "max_pool3d bw": "2.13",
    "median dim": "2.15",
    "nanmedian dim": "2.15",
    # These by torch's own code in front of the kernels: other operators are called.
    "interpolate bicubic bw": "2.15",
    "put ind number": "2.15",
    "combinations": "2.15",
}
SYNCHRONIZING = "called a synchronizing CUDA operation"


def _error(function: Callable[[], object]) -> str | None:
    try:
        function()
    except RuntimeError as error:
        return str(error)
    return None


def _changed(name: str) -> bool:
    return name in SINCE and tuple(map(int, torch.__version__.split(".")[:2])) >= tuple(
        map(int, SINCE[name].split("."))
    )


def test_what_cuda_cannot_compute_deterministically() -> None:
    expected = {name: caller for name, caller in RECORD["nondeterministic"].items() if not _changed(name)}
    calls = nondeterministic()
    assert expected.keys() == {name for name in calls if not _changed(name)}
    torch.use_deterministic_algorithms(True)
    try:
        errors = {name: _error(calls[name]) for name in expected}
    finally:
        torch.use_deterministic_algorithms(False)
    said = {
        name: error and error.partition(" does not have a deterministic implementation")[0]
        for name, error in errors.items()
    }
    assert said == expected


def test_the_words_are_torchs_own() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError) as caught:
            torch.histc(torch.randn(4, device="cuda"))
    finally:
        torch.use_deterministic_algorithms(False)
    assert "but you set 'torch.use_deterministic_algorithms(True)'" in str(caught.value)


def test_nothing_is_said_where_nobody_asked() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="(index_reduce|Sparse CSR|Sparse BSR|The reduce argument)")
        assert {name for name, call in nondeterministic().items() if _error(call)} == set()
        assert {name for name, call in synchronizing().items() if _error(call)} == set()


def test_a_warning_will_do() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with pytest.warns(UserWarning, match="_histc_cuda with floating point input does not have a deterministic"):
            torch.histc(torch.randn(4, device="cuda"))
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_waits_for_the_gpu() -> None:
    expected = {name: waits for name, waits in RECORD["synchronizing"].items() if not _changed(name)}
    calls = synchronizing()
    assert expected.keys() == {name for name in calls if not _changed(name)}
    torch.cuda.set_sync_debug_mode("error")
    try:
        said = {name: _error(calls[name]) for name in expected}
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert said == {name: SYNCHRONIZING if waits else None for name, waits in expected.items()}


def test_waiting_warns_each_time() -> None:
    x = torch.ones((), device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            x.item(), x.item(), torch.cuda.current_stream().synchronize()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert [(str(w.message).partition(" (Triggered")[0], w.category) for w in caught] == [
        (SYNCHRONIZING, UserWarning)
    ] * 3
