"""The number of compilers that build an extension at a time is limited by the free memory."""

from __future__ import annotations

import logging
import os
from types import SimpleNamespace

import psutil
import pytest
from harness import CPU, child

from torchdevice_cuda.cuda_cpp import jobs

GIB = 1 << 30


@pytest.mark.parametrize(("free", "wanted"), [(64 * GIB, None), (24 * GIB, None), (7 * GIB, 2), (GIB, 1)])
def test_memory_limits_the_compilers(
    free: int, wanted: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free))
    with caplog.at_level(logging.WARNING, "torchdevice_cuda"):
        assert jobs.count_jobs() == wanted
    assert ("set MAX_JOBS" in caplog.text) == (wanted is not None)


@child(CPU)
def test_extensions_are_built_so() -> None:
    from torch.utils import cpp_extension

    jobs.count_jobs = lambda: 3
    os.environ.pop("MAX_JOBS", None)
    assert cpp_extension._get_num_workers(False) == 3
    os.environ["MAX_JOBS"] = "5"
    assert cpp_extension._get_num_workers(False) == 5
