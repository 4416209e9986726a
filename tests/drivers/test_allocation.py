"""Allocator settings: how they are read, against torch's own reader, and where they show."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from harness import CPU, MPS, VIRTUAL, child
from hypothesis import example, given
from hypothesis import strategies as st

from torchdevice_cuda.drivers import allocation

#: What an NVIDIA H200 says of a text (torch 2.11): the error's type and words.
REFUSED = {
    "foo:1": (ValueError, "Unrecognized key 'foo' in Accelerator allocator config."),
    "foo": (ValueError, "Unrecognized key 'foo' in Accelerator allocator config."),
    ":": (ValueError, "Unrecognized key ':' in Accelerator allocator config."),
    "max_split_size_mb;200": (ValueError, "Unrecognized key 'max_split_size_mb;200' in Accelerator allocator config."),
    "max_split_size_mb": (RuntimeError, "Index out of bounds in ConfigTokenizer"),
    "max_split_size_mb:1": (ValueError, "CachingAllocator option max_split_size_mb too small, must be >= 20"),
    "max_split_size_mb:12abc": (ValueError, "CachingAllocator option max_split_size_mb too small, must be >= 20"),
    "max_split_size_mb:abc": (ValueError, "stoull"),
    "max_split_size_mb:1,foo:1": (ValueError, "CachingAllocator option max_split_size_mb too small, must be >= 20"),
    "max_non_split_rounding_mb:1": (ValueError, "max_non_split_rounding_mb too small, must be >= 20"),
    "large_segment_size_mb:1": (ValueError, "CachingAllocator option large_segment_size_mb must be > 10 MB"),
    "garbage_collection_threshold:1.0": (ValueError, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"),
    "garbage_collection_threshold:x": (ValueError, "stod"),
    "roundup_power2_divisions:3": (ValueError, "For roundups, the divisions has to be power of 2 "),
    "roundup_power2_divisions:[3:4]": (ValueError, "For roundups, the intervals have to be power of 2 "),
    "roundup_power2_divisions:[4:3]": (ValueError, "has to be power of 2 or 0 to disable roundup "),
    "expandable_segments:true": (ValueError, "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'"),
    "backend:foo": (ValueError, "Unknown allocator backend, options are native and cudaMallocAsync"),
    "backend:cudaMallocAsync": (RuntimeError, "backend parsed at load time, cudaMallocAsync != native"),
    "per_process_memory_fraction:2": (ValueError, "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"),
    "pinned_num_register_threads:3": (ValueError, "Number of register threads has to be power of 2, got 3"),
    "pinned_num_register_threads:1024": (ValueError, "should be less than or equal to 128, got 1024"),
    "pinned_reserve_segment_size_mb:0": (ValueError, "Pinned reserve segment size has to be greater than 0"),
}
DIVIDED = "roundup_power2_divisions:[64:8,256:4,1024:4,>:1]"
#: and what it shows of one that it takes
PARTS = [8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 4, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_settings_are_refused(text: str) -> None:
    kind, words = REFUSED[text]
    with pytest.raises(kind) as caught:
        allocation.read(text, allocation.Settings(), backend=allocation.NATIVE)
    assert words in str(caught.value)


def test_some_settings_stay() -> None:
    first = allocation.read("max_split_size_mb:200,expandable_segments:True", allocation.Settings())
    assert (first.max_split, first.expandable) == (200 << 20, True)
    second = allocation.read(DIVIDED, first)
    assert second == dataclasses.replace(
        first, text=DIVIDED, max_split=allocation.NEVER, divisions=tuple(PARTS), expandable=True
    )


def test_numbers_without_a_sign() -> None:
    assert allocation.read("max_split_size_mb:-1", allocation.Settings()).shown()["max_split_size"] == -1048576


_WORDS = st.sampled_from(
    [
        *("max_split_size_mb", "garbage_collection_threshold", "roundup_power2_divisions", "expandable_segments"),
        *("large_segment_size_mb", "max_non_split_rounding_mb", "pinned_use_background_threads", ":", ",", "[", "]"),
        *(">", "True", "False", "0", "1", "4", "20", "64", "0.5", "-1", "1e-2", "12x", "x", " ", ":[1:2,>:4]", ":200,"),
    ]
)


@pytest.mark.skipif(not hasattr(torch._C, "_accelerator_setAllocatorSettings"), reason="torch reads none before 2.10")
@given(st.lists(_WORDS, max_size=9).map("".join))
@example("roundup_power2_divisions:[")
@example("roundup_power2_divisions:[4")
@example("roundup_power2_divisions:[4:4")
@example("roundup_power2_divisions:[4:4,")
def test_torch_refuses_the_same(text: str) -> None:
    """Compare settings that all accelerators have: this process has no CUDA, and torch skips unknown settings."""

    def outcome(read: Any) -> Any:
        try:
            read()
        except (ValueError, RuntimeError, IndexError) as error:
            said = str(error)
            return type(error), said[said.find("please report a bug to PyTorch. ") :].removeprefix(
                "please report a bug to PyTorch. "
            ) if "INTERNAL ASSERT" in said else said
        return None

    ours = outcome(lambda: allocation.read(text, allocation.Settings()))
    if ours is not None and "Unrecognized key" in ours[1]:
        return
    torch._C._accelerator_setAllocatorSettings("large_segment_size_mb:20")
    theirs = outcome(lambda: torch._C._accelerator_setAllocatorSettings(text))
    torch._C._accelerator_setAllocatorSettings("")
    assert ours == theirs


EVERYWHERE = (CPU, VIRTUAL, MPS)


@child(*EVERYWHERE)
def test_snapshots_show_the_settings() -> None:
    shown = torch.cuda.memory._snapshot()["allocator_settings"]
    assert shown["roundup_power2_divisions"] == {str(1 << i): 0 for i in range(16)}
    assert shown["max_split_size"] == -1
    torch.cuda.memory._set_allocator_settings(f"{DIVIDED},garbage_collection_threshold:0.25,expandable_segments:True")
    shown = torch.cuda.memory._snapshot()["allocator_settings"]
    assert list(shown["roundup_power2_divisions"].values()) == PARTS
    assert shown["garbage_collection_threshold"] == 0.25
    assert shown["expandable_segments"] is True
    with pytest.raises(ValueError, match="^Unrecognized key 'foo' in Accelerator allocator config.$"):
        torch.cuda.memory._set_allocator_settings("foo:1")
    with pytest.raises(RuntimeError, match="Index out of bounds in ConfigTokenizer"):
        torch.cuda.memory._set_allocator_settings("max_split_size_mb")
    assert list(torch.cuda.memory._snapshot()["allocator_settings"]["roundup_power2_divisions"].values()) == PARTS


_CHOSEN = "max_split_size_mb:100,per_process_memory_fraction:0.25"


@child(*(place.within(PYTORCH_CUDA_ALLOC_CONF=_CHOSEN) for place in EVERYWHERE))
def test_settings_of_the_environment() -> None:
    torch.cuda.init()
    shown = torch.cuda.memory._snapshot()["allocator_settings"]
    assert (shown["PYTORCH_CUDA_ALLOC_CONF"], shown["max_split_size"]) == (_CHOSEN, 100 << 20)
    assert torch.cuda.memory_stats()["max_split_size"] == 100 << 20
    assert round(torch.cuda.get_per_process_memory_fraction(), 6) == 0.25
    torch.cuda.memory._set_allocator_settings("per_process_memory_fraction:0.5")
    assert round(torch.cuda.get_per_process_memory_fraction(), 6) == 0.25


@child(*(place.within(PYTORCH_ALLOC_CONF="max_split_size_mb:abc") for place in EVERYWHERE))
def test_an_environment_that_cannot_be_read() -> None:
    assert torch.cuda.is_available()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="^stoull$"):
            torch.cuda.init()


def test_the_backend_is_found_among_what_cannot_be_read() -> None:
    text = "max_split_size_mb:20, backend:cudaMallocAsync,release_lock_on_cudamalloc:none"
    assert allocation.backend({"PYTORCH_ALLOC_CONF": text}) == allocation.ASYNC
    read = allocation.from_environment({"PYTORCH_ALLOC_CONF": text})  # whose allocator looks at nothing else
    assert (read.backend, read.text, read.max_split) == (allocation.ASYNC, text, allocation.NEVER)
    assert allocation.backend({"PYTORCH_ALLOC_CONF": "backend:native"}) == allocation.backend({}) == allocation.NATIVE
