"""The virtual GPU's driver over a compiled device that keeps account of what it is told."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch

from torchdevice_cuda import settings
from torchdevice_cuda.drivers.host import cuda_device
from torchdevice_cuda.drivers.virtual.driver import VirtualDriver, offer
from torchdevice_cuda.native import build, half
from torchdevice_cuda.settings import gpus


class Native:
    """Notes each call of a function that it has not."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.bad = False

    def in_bad_fork(self) -> bool:
        return self.bad

    def __getattr__(self, name: str) -> Any:
        return lambda *said: self.told.append((name, *said))


def made(monkeypatch: pytest.MonkeyPatch, **values: Any) -> tuple[VirtualDriver, Native]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    driver, native = VirtualDriver(settings.Settings(**values), "a test"), Native()
    driver.__dict__["_module"] = native
    return driver, native


def test_a_device_that_does_not_load_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(build, "load", lambda kind, build: asked.append((kind, build)))
    offered = offer(settings.Settings(build=False), torch._C)
    assert (offered.make, offered.reason, offered.is_fault) == (VirtualDriver, "the native device is built", False)
    assert asked == [("cuda", False)]

    def refuse(kind: str, build: bool) -> None:
        raise failed("it is not built")

    failed = build.BuildError
    monkeypatch.setattr(build, "load", refuse)
    offered = offer(settings.Settings(), torch._C)
    assert (offered.make, offered.reason, offered.is_fault) == (None, "it is not built", True)


def test_asking_about_forks_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "load", lambda *args, **kwargs: pytest.fail("it was loaded"))
    driver = VirtualDriver(settings.Settings(), "a test")
    assert driver.in_bad_fork() is False
    driver, native = made(monkeypatch)
    assert driver.in_bad_fork() is False
    native.bad = True
    assert driver.in_bad_fork() is True


def test_the_compiled_device_hears_of_questions_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, native = made(monkeypatch, devices=3)
    driver.ask()
    assert driver._asked_by is not None
    assert native.told == [("mark_used",)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert driver.device_count() == 1
    assert native.told[1:] == [("show_devices", 1)]
    native.bad = True
    driver.ask()
    assert len(native.told) == 2, "a bad fork marks nothing"
    hidden, untold = VirtualDriver(settings.Settings(visible_devices=""), "a test"), Native()
    hidden.__dict__["_module"] = untold
    hidden.ask()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert hidden.device_count() == 0, "what was hidden when torch was imported stays hidden"
    assert untold.told == []
    assert hidden.native is None


def test_the_compiled_device_is_told_which_gpu_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_device, "cudnn_version", lambda version: (9, 10, 3))
    monkeypatch.setattr(build, "origin", lambda kind: types.SimpleNamespace(notes="the notes"))
    settled: list[Any] = []
    monkeypatch.setattr(half, "settle", lambda *said: settled.append(said))
    driver, native = made(monkeypatch)
    driver.prepare()
    h200 = gpus.find("h200")
    assert native.told == [("set_multiprocessors", h200.multiprocessors, 2048), ("set_capability", 9, 0, 91003)]
    assert settled == [(native, "the notes")]
    driver, native = made(monkeypatch, gpu="t4", capability=(8, 6))
    driver.prepare()
    assert native.told == [("set_multiprocessors", 40, 1024), ("set_capability", 8, 6, 91003)]


def test_the_source_of_the_compiled_part_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, _ = made(monkeypatch)
    driver.__dict__["memory"] = types.SimpleNamespace(source="books")
    origin = types.SimpleNamespace(path="/a.so", distribution=None, otherwise=None)
    monkeypatch.setattr(build, "origin", lambda kind: origin)
    assert driver.describe() == [("memory figures", "books"), ("native part", "/a.so (compiled here)")]
    origin.distribution, origin.otherwise = "torchdevice-cuda-native 1.0", "another is for torch 2.9"
    assert driver.describe()[1:] == [
        ("native part", "/a.so (torchdevice-cuda-native 1.0)"),
        ("", "another is for torch 2.9, so it is not used"),
    ]
