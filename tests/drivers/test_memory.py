"""The memory interface that all drivers share: settings, their statistics, per-thread state, history."""

from __future__ import annotations

import inspect
import threading

import pytest

from torchdevice_cuda.drivers import allocation
from torchdevice_cuda.drivers.host.memory import ProcessMemory
from torchdevice_cuda.drivers.memory import COMMON, Memory, Recording
from torchdevice_cuda.drivers.mps.memory import MpsMemory
from torchdevice_cuda.drivers.virtual.memory import NativeMemory

from .toy import ToyMemory

MIB = 1 << 20


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> ToyMemory:
    for name in allocation.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return ToyMemory()


def test_settings_are_the_environments_until_the_program_says_otherwise(
    memory: ToyMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:100,expandable_segments:True")
    first = memory.settings
    assert (first.max_split, first.expandable) == (100 * MIB, True)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:200")
    assert memory.settings is first, "read once"
    memory.configure("garbage_collection_threshold:0.5")
    assert (memory.settings.collect_above, memory.settings.max_split) == (0.5, allocation.NEVER)
    assert memory.settings.expandable, "some stay, as CUDA's do"
    assert memory.shown_split == 100 * MIB, "as when the device came up"
    assert ToyMemory().shown_split == 200 * MIB


def test_defaults_are_shown(memory: ToyMemory) -> None:
    assert memory.shown_split == -1
    memory.configure("max_split_size_mb:100")
    assert memory.shown_split == -1


def test_settings_are_read_for_the_allocator_in_use(memory: ToyMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="cudaMallocAsync != native"):
        memory.read("backend:cudaMallocAsync")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync,max_split_size_mb:100")
    other = ToyMemory()
    with pytest.raises(RuntimeError, match="native != cudaMallocAsync"):
        other.configure("backend:native")
    assert other.shown_split == 0


def test_defaults_of_a_drivers_memory(memory: ToyMemory) -> None:
    assert memory.caching is True
    memory.set_caching(False)
    assert memory.caching is False
    assert ToyMemory().caching is True
    assert memory.frames_at(4096) is None
    error = RuntimeError("any")
    assert memory.translated(error) is error
    memory.observe()
    memory.tell(0, 5)
    memory.set_pool_options(0, COMMON, use_on_oom=True, no_split=True)
    assert COMMON == (0, 0)
    emptied: list[object] = []
    memory.empty_cache = lambda *pool: emptied.append(pool)  # type: ignore[method-assign]
    memory.empty_host_cache()
    assert emptied == [()]


def test_a_thread_says_what_its_allocations_are(memory: ToyMemory) -> None:
    assert memory.metadata == ""
    memory.set_metadata("mine")
    seen: list[str] = []

    def other() -> None:
        seen.append(memory.metadata)
        memory.set_metadata("another's")
        seen.append(memory.metadata)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert (seen, memory.metadata) == (["", "another's"], "mine")
    memory.set_metadata("")


def test_a_recording_keeps_one_event_and_nothing_else_unless_more_is_wanted() -> None:
    assert Recording("all") == ("all", None, False, 1, False, (), False, False)


@pytest.mark.parametrize("kind", [ProcessMemory, MpsMemory, NativeMemory])
def test_a_call_means_the_same_on_every_driver(kind: type[Memory]) -> None:
    """Defaults of arguments are the protocol's on every driver."""
    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if name not in ("__init__", "observe", "tell"):  # which are no methods
            theirs, ours = (inspect.signature(each).parameters for each in (method, getattr(kind, name)))
            assert {each: theirs[each].default for each in theirs} == {each: ours[each].default for each in ours}, name
