"""CUDA's messages for calls that are nondeterministic or synchronize, compared with an H200's call by call."""

from __future__ import annotations

import warnings

import pytest
import torch
from harness import VIRTUAL, child
from recorded import alerts, find_differences
from recorded.alerts import SYNCHRONIZING, find_error, nondeterministic, synchronizing

pytestmark = child(VIRTUAL)

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


def _changed(case: str) -> bool:
    name = case.partition(" ")[2]
    return name in SINCE and tuple(map(int, torch.__version__.split(".")[:2])) >= tuple(
        map(int, SINCE[name].split("."))
    )


def test_nondeterministic_calls_raise_cudas_error() -> None:
    assert find_differences(alerts, lambda name: name.startswith("nondeterministic") and not _changed(name)) == {}


def test_the_words_are_torchs_own() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError) as caught:
            torch.histc(torch.randn(4, device="cuda"))
    finally:
        torch.use_deterministic_algorithms(False)
    assert "but you set 'torch.use_deterministic_algorithms(True)'" in str(caught.value)


def test_no_alert_unless_enabled() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="(index_reduce|Sparse CSR|Sparse BSR|The reduce argument)")
        assert {name for name, call in nondeterministic().items() if find_error(call)} == set()
        assert {name for name, call in synchronizing().items() if find_error(call)} == set()


def test_a_warning_will_do() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with pytest.warns(UserWarning, match="_histc_cuda with floating point input does not have a deterministic"):
            torch.histc(torch.randn(4, device="cuda"))
    finally:
        torch.use_deterministic_algorithms(False)


def test_synchronizing_calls_are_reported() -> None:
    assert find_differences(alerts, lambda name: name.startswith("synchronizing") and not _changed(name)) == {}


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
