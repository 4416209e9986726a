"""A driver that stands on the compiled device offers itself only where that loads; ``auto`` then takes the next."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from harness import STOCK, child, run_forked
from native.compilers import C_COMPILER, Bench, temporary

from torchdevice_cuda import settings
from torchdevice_cuda.drivers.base import Offer

WITH_C = pytest.mark.skipif(C_COMPILER is None, reason="there is no C compiler")
#: What the compiler does, the module that it links, and what is said of that.
FAILURES = {
    "fails": ("echo error: broken >&2; exit 1", "", "error: broken"),
    "makes nothing": ("exit 0", "", "made nothing"),
    "makes garbage": ("", "", "does not load"),
    "makes no module": ("", "int nothing;", "does not load"),
}


def offers(**overrides: str) -> dict[str, Offer]:
    import torch

    from torchdevice_cuda.drivers.mps import driver as mps
    from torchdevice_cuda.drivers.virtual import driver as virtual

    os.environ["TORCHDEVICE_EMULATE_MPS"] = "1"
    chosen = settings.load(overrides)
    return {"virtual": virtual.offer(chosen, torch._C), "mps": mps.offer(chosen, torch._C)}


def check(why: str, **overrides: str) -> None:
    for name, offer in offers(**overrides).items():
        assert offer.make is None, name
        assert why in offer.reason and "\n" not in offer.reason, f"{name}: {offer.reason}"


@WITH_C
@child(STOCK)
def test_a_driver_that_cannot_be_built_or_loaded_is_not_offered() -> None:
    for behaviour, module, why in FAILURES.values():
        with temporary(behaviour, module):
            check(why)


@child(STOCK)
def test_a_driver_without_its_backend_is_not_offered() -> None:
    with temporary() as bench:
        check("is not built", build="0")
        os.environ["CXX"] = "no-such-compiler"
        check("no-such-compiler")
        os.environ["TORCHDEVICE_CACHE_DIR"] = f"{bench.compiler}/cache"
        check("Not a directory", build="0")
        sys.modules["platformdirs"] = None  # type: ignore[assignment]
        del os.environ["TORCHDEVICE_CACHE_DIR"]
        try:
            check("platformdirs")
        finally:
            del sys.modules["platformdirs"]


def prints_the_driver(**environment: str) -> str:
    code = "import torch, torchdevice_cuda; print(torchdevice_cuda.driver().name, torch.cuda.is_available())"
    return run_forked("-m", "torchdevice_cuda", "-c", code, environment=environment).out.strip()


@pytest.mark.usefixtures("no_gpu")
def test_auto_takes_the_next_one(tmp_path: Path) -> None:
    """The library is built, and does not load."""
    assert prints_the_driver(**Bench(tmp_path).environment()) == "cpu True"
