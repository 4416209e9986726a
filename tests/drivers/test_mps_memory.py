"""Memory of the Apple GPU under CUDA's names: over figures as torch.mps gives them, which this machine has not."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch

from torchdevice_cuda.drivers.mps import memory as module
from torchdevice_cuda.drivers.mps.memory import Books, MpsMemory

MIB, GIB = 1 << 20, 1 << 30


class Gpu:
    """Fake torch functions for the memory of the Apple GPU."""

    def __init__(self) -> None:
        self.allocated, self.driver, self.recommended = 10 * MIB, 16 * MIB, 8 * GIB
        self.fractions: list[float] = []
        self.emptied = 0
        self.peaks: tuple[int, int] | None = None
        self.resets: list[int] = []

    def empty(self) -> None:
        self.emptied += 1

    def books(self) -> Books:
        def read(device: int) -> dict[str, Any]:
            assert device == 0
            if self.peaks is None:
                raise RuntimeError("it is no allocator that can be asked")
            allocated, reserved = ({"all": {"peak": peak}} for peak in self.peaks)
            return {"allocated_bytes": allocated, "reserved_bytes": reserved}

        def reset(device: int) -> None:
            self.resets.append(device)
            if self.peaks is None:
                raise RuntimeError("nor reset")
            self.peaks = self.allocated, self.driver

        return Books(read, reset)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    for name, function in {
        "_mps_currentAllocatedMemory": lambda: made.allocated,
        "_mps_driverAllocatedMemory": lambda: made.driver,
        "_mps_recommendedMaxMemory": lambda: made.recommended,
        "_mps_setMemoryFraction": made.fractions.append,
        "_mps_emptyCache": made.empty,
    }.items():
        monkeypatch.setattr(torch._C, name, function)
    empty = torch._C._VariableFunctions.empty

    def on_host(*args: Any, device: str, **kwargs: Any) -> torch.Tensor:
        assert device == "mps"
        return empty(*args, **kwargs)

    monkeypatch.setattr(torch._C, "_VariableFunctions", types.SimpleNamespace(empty=on_host))
    return made


@pytest.fixture
def held(gpu: Gpu) -> MpsMemory:
    return MpsMemory(1, None)


def current(stats: dict[str, Any], name: str, pool: str = "all") -> tuple[int, int]:
    return stats[name][pool]["current"], stats[name][pool]["peak"]


# ------------------------------------------------------------------------------- figures
def test_memory_of_tensors_and_of_metal(gpu: Gpu, held: MpsMemory) -> None:
    held.start()
    assert held.baseline is None
    stats = held.stats(0)
    for name in ("allocated_bytes", "active_bytes", "requested_bytes"):
        assert current(stats, name) == current(stats, name, "large_pool") == (10 * MIB, 10 * MIB)
    assert current(stats, "reserved_bytes") == current(stats, "reserved_bytes", "large_pool") == (16 * MIB, 16 * MIB)
    assert stats["inactive_split_bytes"]["all"] == {"current": 6 * MIB, "peak": 6 * MIB, "allocated": 0, "freed": 0}
    gpu.allocated, gpu.driver = 2 * MIB, MIB
    stats = held.stats(0)
    assert current(stats, "allocated_bytes") == (2 * MIB, 10 * MIB)
    assert current(stats, "reserved_bytes") == (2 * MIB, 16 * MIB), "never less than what tensors hold"
    assert stats["inactive_split_bytes"]["all"]["current"] == 0
    held.reset_peak(0)
    stats = held.stats(0)
    assert (current(stats, "allocated_bytes"), current(stats, "reserved_bytes")) == ((2 * MIB, 2 * MIB),) * 2
    held.reset_accumulated(0)
    for name in ("allocated_bytes", "reserved_bytes"):
        figures = held.stats(0)[name]["all"]
        assert (figures["allocated"], figures["freed"]) == (0, 0)


def test_peaks_are_those_of_torchs_allocator_where_it_keeps_some(gpu: Gpu) -> None:
    gpu.peaks = (30 * MIB, 40 * MIB)
    held = MpsMemory(1, None, gpu.books())
    stats = held.stats(0)
    assert (current(stats, "allocated_bytes"), current(stats, "reserved_bytes")) == (
        (10 * MIB, 30 * MIB),
        (16 * MIB, 40 * MIB),
    )
    held.reset_peak(0)
    assert gpu.resets == [0]
    stats = held.stats(0)
    assert (current(stats, "allocated_bytes")[1], current(stats, "reserved_bytes")[1]) == (10 * MIB, 16 * MIB)
    gpu.allocated = 50 * MIB
    assert current(held.stats(0), "allocated_bytes") == (50 * MIB, 50 * MIB), "what was seen counts, too"
    held._allocated = lambda: pytest.fail("there is nothing to look at")
    held.observe()


def test_an_allocator_that_cannot_be_asked(gpu: Gpu) -> None:
    held = MpsMemory(1, None, gpu.books())
    assert current(held.stats(0), "allocated_bytes") == (10 * MIB, 10 * MIB)
    held.reset_peak(0)
    assert gpu.books().peaks() is None


def test_peaks_are_seen_where_memory_is_allocated(gpu: Gpu, held: MpsMemory) -> None:
    gpu.allocated, gpu.driver = 90 * MIB, 95 * MIB
    held.observe()
    gpu.allocated, gpu.driver = 10 * MIB, 16 * MIB
    held.observe()
    stats = held.stats(0)
    assert (current(stats, "allocated_bytes"), current(stats, "reserved_bytes")) == (
        (10 * MIB, 90 * MIB),
        (16 * MIB, 95 * MIB),
    )
    asked: list[int] = []
    held._driver = lambda: asked.append(1) or 0  # type: ignore[assignment,func-returns-value]
    held.observe()
    assert asked == [], "only at a new peak"
    MpsMemory(0, None).observe()  # no device is visible: nothing is kept


def test_torchs_books() -> None:
    found = Books.of_torch()
    names = ("_accelerator_getDeviceStats", "_accelerator_resetPeakStats")
    if all(hasattr(torch._C, name) for name in names):
        assert found == Books(*(getattr(torch._C, name) for name in names))
    else:
        assert found is None


@pytest.mark.parametrize("missing", ["torch._C._accelerator_getDeviceStats", "torch._C._accelerator_resetPeakStats"])
def test_books_that_lack_a_function_are_none(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    original = module.named
    monkeypatch.setattr(module, "named", lambda name: None if name == missing else original(name) or print)
    assert Books.of_torch() is None


# -------------------------------------------------------------------------------- memory
def test_free_memory(gpu: Gpu, held: MpsMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    held.tell = lambda *said: told.append(said)  # type: ignore[method-assign]
    assert held.total() == 8 * GIB
    assert held.info(0) == (8 * GIB - 16 * MIB, 8 * GIB)
    assert told == [(0, 16 * MIB)]
    gpu.driver = 9 * GIB
    assert held.info(0) == (0, 8 * GIB)
    assert MpsMemory(1, GIB).total() == GIB
    assert MpsMemory(1, 99 * GIB).total() == 8 * GIB
    gpu.recommended = 0
    monkeypatch.setattr(module.metal, "gpu", lambda: types.SimpleNamespace(working_set=5 * GIB))
    assert held.total() == 5 * GIB
    monkeypatch.setattr(module.metal, "gpu", lambda: types.SimpleNamespace(working_set=None))
    assert held.total() == 0


def test_a_fraction_is_torchs_of_what_metal_recommends(gpu: Gpu) -> None:
    held = MpsMemory(1, None)
    assert gpu.fractions == [], "nothing was chosen"
    held.set_fraction(0.25, 0)
    assert gpu.fractions == [0.25]
    assert held.fraction(0) == 0.25
    held.set_fraction(0.0, 0)
    assert 0 < gpu.fractions[-1] < 1e-6, "for torch.mps zero is no limit"
    limited = MpsMemory(1, 2 * GIB)
    assert gpu.fractions[-1] == 0.25
    limited.set_fraction(0.5, 0)
    assert gpu.fractions[-1] == 0.125


def test_freed_memory_goes_back(gpu: Gpu, held: MpsMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    held.empty_cache((1, 0))
    assert gpu.emptied == 0, "pools keep nothing of their own"
    held.empty_cache()
    assert gpu.emptied == 1
    cleared: list[str] = []
    new = types.SimpleNamespace(clear_cache=lambda: cleared.append("new"))
    monkeypatch.setitem(sys.modules, "mlx.core", new)  # type: ignore[arg-type]
    held.empty_cache()
    old = types.SimpleNamespace(metal=types.SimpleNamespace(clear_cache=lambda: cleared.append("old")))
    monkeypatch.setitem(sys.modules, "mlx.core", old)  # type: ignore[arg-type]
    held.empty_cache()
    assert cleared == ["new", "old"]


# --------------------------------------------------------------------------- raw memory
def test_raw_blocks_are_tensors_that_are_kept(gpu: Gpu, held: MpsMemory) -> None:
    assert held.allocate(0, 0, 0) == 0
    seen: list[str] = []
    held.observe = lambda: seen.append("observed")  # type: ignore[assignment]
    address = held.allocate(1000, 0, 0)
    assert held._tensors[address].numel() == 1000
    assert held._tensors[address].dtype is torch.uint8
    assert seen == ["observed"]
    assert held.stats(0)["num_device_alloc"] == 1
    held.release(address)
    assert held._tensors == {}
    assert held.stats(0)["num_device_free"] == 1
    with pytest.raises(RuntimeError, match=f"^invalid device pointer: {address:#x}$"):
        held.release(address)


@pytest.mark.parametrize("size", [-1, 8 * GIB + 1])
def test_impossible_sizes_are_refused(gpu: Gpu, held: MpsMemory, size: int) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        held.allocate(size, 0, 0)
    assert held.stats(0)["num_ooms"] == 1


def test_the_largest_block_is_asked_for(gpu: Gpu, held: MpsMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = RuntimeError(
        "MPS backend out of memory (MPS allocated: 1.00 GiB, other allocations: 0 bytes, max allowed: 8.00 GiB). "
        "Tried to allocate 2.00 GiB on private pool."
    )

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise refused

    monkeypatch.setattr(torch._C._VariableFunctions, "empty", refuse)
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 2.00 GiB. GPU 0 has") as raised:
        held.allocate(8 * GIB, 0, 0)
    assert raised.value.__suppress_context__
    refused = RuntimeError("something else")
    with pytest.raises(RuntimeError, match="^something else$"):
        held.allocate(1, 0, 0)


FULL = "MPS backend out of memory (MPS allocated: 1 KB).\nTried to allocate {} on shared pool."
LARGE = "Invalid buffer size: {}"


@pytest.mark.parametrize("words", [FULL, LARGE])
@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("5 bytes", 5),
        ("1.50 KB", 1536),
        ("2.00 KiB", 2048),
        ("3.00 MB", 3 * MIB),
        ("0.50 MiB", MIB // 2),
        ("4.00 GB", 4 * GIB),
        ("1.25 GiB", 5 * GIB // 4),
    ],
)
def test_sizes_in_torchs_words(gpu: Gpu, held: MpsMemory, words: str, said: str, size: int) -> None:
    told: list[tuple[int, int, int, int]] = []
    held.on_out_of_memory(lambda *each: told.append(each))
    assert isinstance(held.translated(RuntimeError(words.format(said)), 3), torch.OutOfMemoryError)
    assert told == [(0, size, 8 * GIB, 8 * GIB - 16 * MIB)]


def test_other_errors_are_as_they_are(held: MpsMemory) -> None:
    for words in ("other", "MPS backend out of memory", "Tried to allocate 5 bytes"):
        error = RuntimeError(words)
        assert held.translated(error) is error


# ------------------------------------------------------------------------------ snapshots
def test_a_snapshot_lists_what_is_held_and_the_rest(gpu: Gpu, held: MpsMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_held", lambda: {8192: 2 * MIB, 4096: MIB})
    shot = held.snapshot()
    first, second, third = shot["segments"]
    assert first == {
        "device": 0,
        "address": 0,
        "total_size": 13 * MIB,
        "allocated_size": 7 * MIB,
        "active_size": 7 * MIB,
        "requested_size": 7 * MIB,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {
                "address": 0,
                "size": 7 * MIB,
                "requested_size": 7 * MIB,
                "state": "active_allocated",
                "frames": [],
            },
            {
                "address": 7 * MIB,
                "size": 6 * MIB,
                "requested_size": 6 * MIB,
                "state": "inactive",
                "frames": [],
            },
        ],
    }
    assert (second["address"], second["total_size"], second["segment_type"]) == (4096, MIB, "small")
    assert [block["state"] for block in second["blocks"]] == ["active_allocated"]
    assert (third["address"], third["allocated_size"], third["segment_type"]) == (8192, 2 * MIB, "large")
    assert torch.cuda._memory_viz.segsum(shot), "torch's own reader of snapshots takes it"
    assert held.snapshot((1, 2))["segments"] == [], "of a pool"
    gpu.driver = gpu.allocated = 3 * MIB
    assert [segment["address"] for segment in held.snapshot()["segments"]] == [4096, 8192], "nothing is left"
    gpu.allocated, gpu.driver = MIB, 4 * MIB
    assert held.snapshot()["segments"][0]["allocated_size"] == 0


def test_traces_are_left_out_where_they_are_not_wanted(gpu: Gpu, held: MpsMemory) -> None:
    held._history[0].append({"action": "alloc"})
    assert held.snapshot()["device_traces"] == [[{"action": "alloc"}]]
    assert held.snapshot(with_traces=False)["device_traces"] == [[]]


class Claiming(torch.Tensor):
    """A tensor that says that it is on the Apple GPU."""

    @property
    def device(self) -> Any:  # type: ignore[override]
        return types.SimpleNamespace(type="mps")


class Sparse(Claiming):
    """A tensor with a sparse layout."""

    layout = torch.sparse_coo


class Wrapper(Claiming):
    """A tensor without a storage of its own."""

    def untyped_storage(self) -> Any:
        raise NotImplementedError


def test_memory_of_living_tensors() -> None:
    one, host = torch.ones(1000).as_subclass(Claiming), torch.ones(1000)
    others = [one[10:], torch.empty(0).as_subclass(Claiming), torch.ones(9).as_subclass(Sparse)]
    others.append(torch.ones(9).as_subclass(Wrapper))
    assert module._held() == {one.data_ptr(): 4000}
    assert (len(others), len(host)) == (4, 1000)
