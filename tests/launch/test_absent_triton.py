"""What a program that needs triton is told where it is not installed."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from harness import run_forked

from torchdevice_cuda.triton import absent

CPU = ("-m", "torchdevice_cuda", "--driver", "cpu")
PROGRAM = "import sys; sys.modules['triton'] = None\nimport triton.language"


def test_a_program_without_triton_gets_a_line() -> None:
    done = run_forked(*CPU, "-c", PROGRAM, check=False)
    assert done.status == 1
    assert "ModuleNotFoundError" in done.err
    assert "triton is not installed; CPU builds of torch do not bring it: pip install triton\n" in done.err
    assert "triton" not in run_forked(*CPU, "-c", "import absent", check=False).err


@pytest.mark.parametrize("name", ["triton", "triton.language"])
def test_on_a_mac(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    line = absent.suggest(ModuleNotFoundError(f"No module named {name!r}", name=name))
    assert line is not None
    assert line.startswith("triton has no release for macOS: run programs with Triton kernels on Linux")
    assert absent.suggest(ModuleNotFoundError("No module named 'tritonclient'", name="tritonclient")) is None
    assert absent.suggest(RuntimeError("triton")) is None
    monkeypatch.undo()
    assert (absent.suggest(ImportError(name=name)) is None) == (importlib.util.find_spec("triton") is not None)
