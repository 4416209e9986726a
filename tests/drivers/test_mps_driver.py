"""The Apple GPU in the GPU's place: what it offers, its traits, facts, generators and profiler, without one at hand."""

from __future__ import annotations

import os
import platform
import re
import sys
import types
import uuid
from typing import Any

import pytest
import torch

from torchdevice_cuda import _compat, settings
from torchdevice_cuda.drivers import selection
from torchdevice_cuda.drivers.host import facts as hostfacts
from torchdevice_cuda.drivers.mps import driver as module
from torchdevice_cuda.drivers.mps import emulated_streams, metal
from torchdevice_cuda.drivers.mps.driver import MpsDriver, offer
from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.native import build, half

GIB = 1 << 30
PLAIN = Trait.SUBSTITUTE | Trait.TRANSLATED | Trait.REDIRECTS | Trait.PARTIAL | Trait.UNSHARED | Trait.RACING_COPIES
M3 = metal.GpuFacts("Apple M3 Max", 40, 48 * GIB, 32768, True, 0xABC)


def made(**values: Any) -> MpsDriver:
    MpsDriver.facts.cache_clear()
    return MpsDriver(settings.Settings(**values), "a test")


# --------------------------------------------------------------------------------- offers
def torch_c(built: bool, answer: bool | None) -> Any:
    core = types.SimpleNamespace(**({"_has_mps": True} if built else {}))
    if answer is not None:
        core._mps_is_available = lambda: answer
    return core


@pytest.mark.parametrize(
    ("core", "works", "reason"),
    [
        (torch_c(True, True), True, "torch sees an Apple GPU"),
        (torch_c(True, False), False, "no Apple GPU answers"),
        (torch_c(True, None), False, "no Apple GPU answers"),
        (torch_c(False, True), False, "this torch is built without MPS"),
        (torch_c(False, None), False, "this torch is built without MPS"),
    ],
)
def test_it_is_offered_if_an_apple_gpu_is_available(core: Any, works: bool, reason: str) -> None:
    offered = offer(settings.Settings(), core)
    assert (offered.make, offered.reason, offered.is_fault) == (MpsDriver if works else None, reason, False)


def on_a_mac(
    patch: pytest.MonkeyPatch, machine: str = "arm64", system: str = "15.1", torch_version: str = "2.15.0"
) -> None:
    patch.setattr(sys, "platform", "darwin")
    patch.setattr(platform, "machine", lambda: machine)
    patch.setattr(platform, "mac_ver", lambda: (system, ("", "", ""), machine))
    patch.setitem(sys.modules, "torch.version", types.SimpleNamespace(__version__=torch_version))


def ends_the_process() -> bool:
    pytest.fail("Metal was asked")


@pytest.mark.parametrize(
    ("system", "torch_version", "usable"),
    [
        ("14.7.1", "2.15.0", "2.14"),
        ("13.6", "2.15.0", "2.8"),
        ("13", "2.9.1", "2.8"),
        ("12.7", "2.6.0", None),
        ("15.0", "2.15.0", ""),
        ("14.0", "2.14.1", ""),
        ("13.0", "2.8.0", ""),
        ("26.1", "2.15.0", ""),
        ("10.16", "2.15.0", ""),  # what an old Python returns on every later macOS
        ("", "2.15.0", ""),
    ],
)
def test_macos_that_is_too_old_is_refused_before_metal_is_asked(
    monkeypatch: pytest.MonkeyPatch, system: str, torch_version: str, usable: str | None
) -> None:
    on_a_mac(monkeypatch, system=system, torch_version=torch_version)
    core = torch_c(True, True)
    if usable != "":
        core._mps_is_available = ends_the_process
    offered = offer(settings.Settings(), core)
    if usable == "":
        assert offered.make is MpsDriver
        return
    assert (offered.make, offered.is_fault) == (None, True)
    assert f"torch {torch_version} uses Apple GPUs from macOS" in offered.reason
    advice = "no torch from 2.6 on uses them here: upgrade macOS" if usable is None else f"'torch=={usable}.*'"
    assert advice in offered.reason


@pytest.mark.parametrize(
    ("machine", "core", "words"),
    [
        ("x86_64", torch_c(False, None), "a Mac with an Intel processor|PyTorch ended with 2.2.2"),
        ("arm64", torch_c(True, False), r"torch\.backends\.mps\.is_available\(\) is False"),
        ("arm64", torch_c(False, None), "this torch is built without MPS: pip install"),
    ],
)
def test_why_the_gpu_of_a_mac_is_not_used(monkeypatch: pytest.MonkeyPatch, machine: str, core: Any, words: str) -> None:
    on_a_mac(monkeypatch, machine)
    offered = offer(settings.Settings(), core)
    assert (offered.make, offered.is_fault) == (None, True)
    assert re.search(words, offered.reason)
    assert "\n" not in offered.reason


def test_auto_says_why_and_continues(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    on_a_mac(monkeypatch, system="14.7")
    monkeypatch.setenv("_TORCHDEVICE_HINTED", "")
    del os.environ["_TORCHDEVICE_HINTED"]
    monkeypatch.setattr(selection, "DRIVERS", {name: settings.DRIVERS[name] for name in ("mps", "cpu")})
    core = torch_c(True, True)
    assert selection.select(settings.Settings(), core).name == "cpu"
    words = "torchdevice_cuda: using the cpu driver, not mps: torch 2.15.0 uses Apple GPUs from macOS 15.0 on"
    assert capfd.readouterr().err.startswith(words)
    with pytest.raises(selection.DriverUnavailable, match=r"driver 'mps' was asked for, but torch 2\.15\.0 uses"):
        selection.select(settings.Settings(driver="mps"), core)


def test_every_known_torch_has_a_macos() -> None:
    for minor in range(_compat.MINIMUM[1], _compat.NEWEST_KNOWN[1] + 1):
        least = _compat.least_macos(f"2.{minor}.0")
        newest = _compat.newest_for_macos(least)
        assert newest is not None
        assert newest >= (2, minor)
        assert _compat.least_macos(f"2.{newest[1]}.0") == least


def test_one_that_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(build, "load", lambda kind, build: asked.append((kind, build)))
    offered = offer(settings.Settings(emulate_mps=True, build=False), torch_c(False, None))
    assert offered.make is MpsDriver
    assert offered.reason.startswith("TORCHDEVICE_EMULATE_MPS=1: a device in host memory answers as the Apple GPU")
    assert asked == [("mps", False)]

    def refuse(kind: str, build: bool) -> None:
        raise module_error("it is not built")

    module_error = build.BuildError
    monkeypatch.setattr(build, "load", refuse)
    offered = offer(settings.Settings(emulate_mps=True), torch_c(True, True))
    assert (offered.make, offered.reason, offered.is_fault) == (None, "it is not built", True)


# --------------------------------------------------------------------------------- traits
def test_attributes() -> None:
    driver = made()
    assert (driver.name, driver.device_type, driver.redirects_by_default) == ("mps", "mps", True)
    assert driver.traits == PLAIN | Trait.DISGUISED
    assert made(identity="native").traits == PLAIN
    assert made(identity="native", emulate_mps=True).traits == PLAIN | Trait.NATIVE
    assert "What left the GPU is counted" in driver.unseen_by_reports
    assert (driver.native, driver.rescue) == (None, None)
    assert [made(visible_devices=text).device_count() for text in (None, "0", "", "1")] == [1, 1, 0, 0]


def test_refusals_in_its_description(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = made()
    driver.__dict__["memory"] = types.SimpleNamespace(source="Metal")
    assert driver.describe() == [
        ("memory figures", "Metal"),
        ("refusals are met", "by Python: torch is not complete"),
    ]
    loaded: list[Any] = []

    def load(kind: str, build: bool, say: Any) -> Any:
        loaded.append((kind, build, say))
        return types.SimpleNamespace(rescue="the rescue")

    monkeypatch.setattr(build, "load", load)
    driver.prepare()
    assert driver.rescue == "the rescue"
    assert driver.describe()[1] == ("refusals are met", "by compiled code")
    assert loaded == [("calls", True, module._log.info)]

    def refuse(kind: str, build: bool, say: Any) -> Any:
        raise failed("no compiler")

    failed = build.BuildError
    monkeypatch.setattr(build, "load", refuse)
    driver.prepare()
    assert driver.rescue is None
    assert driver.describe()[1] == ("refusals are met", "by Python: no compiler")


def test_an_emulated_gpu_has_the_memory_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(module, "_compiled_calls", lambda build: (None, ""))
    monkeypatch.setattr(module, "emulate", lambda memory, build: given.append((memory, build)) or "the device")
    monkeypatch.setattr(metal, "main_memory_share", lambda: 6 * GIB)
    driver = made(emulate_mps=True, memory=GIB, build=False)
    driver.prepare()
    assert driver.native == "the device"
    made(emulate_mps=True).prepare()
    monkeypatch.setattr(metal, "main_memory_share", lambda: None)
    made(emulate_mps=True).prepare()
    assert given == [(GIB, False), (6 * GIB, True), (8 * GIB, True)]
    plain = made()
    plain.prepare()
    assert plain.native is None


def test_emulating_puts_the_device_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    native, done = object(), []
    monkeypatch.setattr(build, "load", lambda kind, build: done.append((kind, build)) or native)
    monkeypatch.setattr(build, "origin", lambda kind: types.SimpleNamespace(notes="the notes"))
    monkeypatch.setattr(half, "settle", lambda *said: done.append(said))
    monkeypatch.setattr(module, "install", lambda *said: done.append(said))
    monkeypatch.setattr(emulated_streams, "complete", lambda: done.append("streams"))
    monkeypatch.setattr(torch._C, "_mps_is_available", lambda: done.append("Metal is up"), raising=False)
    assert module.emulate(GIB, False) is native  # type: ignore[comparison-overlap]
    installed = (native, "emulated Apple GPU", [GIB])
    assert done == [("mps", False), (native, "the notes"), installed, "streams", "Metal is up"]
    assert module._log.name == "torchdevice_cuda"


def test_books_are_taken_before_they_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_compiled_calls", lambda build: (None, ""))
    monkeypatch.setattr(module.Books, "of_torch", classmethod(lambda cls: "torch's books"))
    driver, given = made(memory=GIB), []
    driver.prepare()
    monkeypatch.setattr(module, "MpsMemory", lambda *args: given.append(args) or "memory")
    assert driver.memory == "memory"
    assert driver.memory == "memory"
    assert given == [(1, GIB, "torch's books")]


def test_a_fork_is_bad_where_torch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = made()
    for answer in (True, False):
        monkeypatch.setattr(torch._C, "_mps_is_in_bad_fork", lambda answer=answer: answer, raising=False)
        assert driver.in_bad_fork() is answer
    monkeypatch.delattr(torch._C, "_mps_is_in_bad_fork")
    assert driver.in_bad_fork() is False
    driver._initialized_by = 1
    assert driver.in_bad_fork() is True


# ---------------------------------------------------------------------------------- facts
@pytest.fixture
def m3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metal, "gpu", lambda: M3)
    monkeypatch.setattr(metal, "l2_cache", lambda: 16 << 20)
    monkeypatch.setattr(hostfacts, "clock_khz", lambda: 4_050_000)


def test_the_gpu_as_metal_describes_it(m3: None) -> None:
    driver = made()
    driver.__dict__["memory"] = types.SimpleNamespace(total=lambda: 48 * GIB)
    found = driver.facts(0)
    assert (found.name, found.total_memory, found.multi_processor_count) == (
        "Apple M3 Max (CUDA compatible)",
        48 * GIB,
        40,
    )
    assert (found.clock_rate, found.L2_cache_size, found.pci_bus_id, found.is_integrated) == (4_050_000, 16 << 20, 0, 1)
    assert {
        found.shared_memory_per_block,
        found.shared_memory_per_block_optin,
        found.shared_memory_per_multiprocessor,
    } == {32768}
    assert found.uuid == M3.uuid == uuid.uuid5(uuid.NAMESPACE_OID, "metal.abc")
    assert (found.major, found.minor) == (7, 0)
    assert driver.facts(0) is found
    emulated = made(emulate_mps=True)
    emulated.__dict__["memory"] = driver.memory
    assert emulated.facts(0).name == "Emulated Apple GPU (CUDA compatible)"


def test_streams_keep_the_processors_time(m3: None) -> None:
    driver = made()
    driver.__dict__["memory"] = types.SimpleNamespace(total=lambda: GIB)
    assert driver.streams._cycles_per_second(0) == 4_050_000_000.0
    assert driver.streams is driver.streams
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        driver.streams.current(1)


# ------------------------------------------------------------------------------- profiler
def test_profiling(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    error: list[Exception] = []

    def start() -> None:
        calls.append("start")
        for each in error:
            raise each

    profiler = types.SimpleNamespace(start=start, stop=lambda: calls.append("stop"))
    monkeypatch.setattr(torch.mps, "profiler", profiler)
    driver = made()
    driver.trace(True)
    driver.trace(False)
    assert calls == ["start", "stop"]
    error[:] = [RuntimeError("Tracing Signposts is already enabled.")]
    driver.trace(True)  # no error on CUDA
    error[:] = [RuntimeError("something else")]
    with pytest.raises(RuntimeError, match="something else"):
        driver.trace(True)


# ----------------------------------------------------------------------------- generators
#: The last offset of MPS's that CUDA can count.
LAST = (1 << 62) - 1


class Philox:
    """A generator of the Apple GPU's: a state of its own size, a seed and an offset."""

    def __init__(self) -> None:
        self.state, self.seed, self.offset = torch.zeros(44, dtype=torch.uint8), 0, 0

    def get_state(self) -> torch.Tensor:
        return self.state

    def set_state(self, state: torch.Tensor) -> None:
        if state.numel() != self.state.numel():
            raise RuntimeError("RNG state is wrong size")
        self.state = state

    def initial_seed(self) -> int:
        return self.seed

    def get_offset(self) -> int:
        return self.offset

    def manual_seed(self, seed: int) -> None:
        self.seed, self.offset = seed, 0

    def set_offset(self, offset: int) -> None:
        self.offset = offset


def test_the_generator_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = Philox()
    monkeypatch.setattr(torch._C, "_mps_get_default_generator", lambda: generator, raising=False)
    driver = made()
    assert driver.generators() == (generator,)
    assert made(visible_devices="").generators() == ()
    end = driver.show_generators_as(lambda each: ("shown", each))  # type: ignore[arg-type,return-value]
    assert driver.generators() == (("shown", generator),)
    end()
    assert driver.generators() == (generator,)


def test_states_of_a_generator() -> None:
    driver, generator = made(), Philox()
    own: Any = generator
    state = torch.ones(44, dtype=torch.uint8)
    driver.set_generator_state(own, state)
    assert generator.state is state
    # CUDA's offsets count what Philox makes at a time in fours.
    for words, found in (((7, 12), (7, 3)), ((8, 0), (8, 0)), ((9,), (9, 0)), ((-3, 4), (-3, 1)), ((1, -4), (1, LAST))):
        driver.set_generator_state(own, torch.tensor(words, dtype=torch.int64).view(torch.uint8))
        assert (generator.seed, generator.offset) == found
    generator.seed, generator.offset = (1 << 64) - 3, 5
    assert driver.generator_state(own).view(torch.int64).tolist() == [-3, 20]
    assert driver.state_offset(own) == 20
    driver.set_state_offset(own, 24)
    assert generator.offset == 6
    with pytest.raises(RuntimeError, match=r"^offset must be a multiple of 4$"):
        driver.set_state_offset(own, 6)
    # Beyond what CUDA's form can hold nothing is lost.
    generator.offset = LAST + 1
    assert driver.generator_state(own) is generator.state
    for size in (5, 24):
        with pytest.raises(RuntimeError, match="^RNG state is wrong size$"):
            driver.set_generator_state(own, torch.zeros(size, dtype=torch.uint8))
