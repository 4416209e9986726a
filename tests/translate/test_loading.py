"""Files written by torch.save."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import CPU, child
from torch import nn, serialization

from .asking import HOST

pytestmark = child(CPU, CPU.when("after"))


def saved(value: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


LOCATIONS: dict[str, Any] = {
    "None": None,
    "cpu": "cpu",
    "cuda": "cuda",
    "cuda:0": "cuda:0",
    "device cuda": torch.device("cuda"),
    "device cpu": torch.device("cpu"),
    "cuda:0 to cpu": {"cuda:0": "cpu"},
    "cpu to cuda:0": {"cpu": "cuda:0"},
    "storage.cuda()": lambda storage, where: storage.cuda(),
    "storage.cuda(0)": lambda storage, where: storage.cuda(0),
}


@pytest.mark.parametrize("location", LOCATIONS)
def test_map_location(location: str) -> None:
    state = {"x": torch.arange(3.0, device="cuda"), "n": 1, "s": "cuda:0"}
    loaded = torch.load(saved(state), map_location=LOCATIONS[location])
    assert loaded["x"].tolist() == [0.0, 1.0, 2.0]
    assert loaded["x"].device == HOST
    assert loaded["s"] == "cuda:0", "a text is no device"


def test_a_function_is_told_where_it_was() -> None:
    seen = []

    def here(storage: Any, location: str) -> Any:
        seen.append(location)
        return storage

    assert torch.load(saved(torch.arange(3.0, device="cuda")), map_location=here).tolist() == [0.0, 1.0, 2.0]
    assert seen


def test_no_such_location() -> None:
    with pytest.raises(RuntimeError, match="device"):
        torch.load(saved(torch.arange(3.0)), map_location="cuda:9")


def test_storages_that_a_gpu_has_written() -> None:
    """They are tagged "cuda:0"."""
    serialization._package_registry.insert(0, (1, lambda storage: "cuda:0", lambda storage, location: None))
    try:
        text = saved({"x": torch.arange(3.0)}).getvalue()
    finally:
        serialization._package_registry.pop(0)
    assert b"cuda:0" in text
    assert torch.load(io.BytesIO(text))["x"].tolist() == [0.0, 1.0, 2.0]
    assert torch.load(io.BytesIO(text), map_location="cpu")["x"].device == HOST
    assert torch.load(io.BytesIO(text), weights_only=False)["x"].device == HOST


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("location", [None, "cuda"])
def test_files(mmap: bool, location: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cuda.pt")
        torch.save(nn.Linear(2, 2).cuda().state_dict(), path)
        assert set(torch.load(path, mmap=mmap, map_location=location)) == {"weight", "bias"}


def test_files_of_scripts() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "cuda.jit"))
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), path)
        for location in ("cuda", torch.device("cuda:0"), "cpu", None):
            assert torch.jit.load(path, map_location=location)(torch.ones(1, 2)).shape == (1, 2)


def test_weights_only_by_default() -> None:
    with pytest.raises(Exception, match="eights"):
        torch.load(saved(Path("cuda")))
    assert torch.load(saved(Path("cuda")), weights_only=False) == Path("cuda")
