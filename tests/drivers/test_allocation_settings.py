"""Each of the allocator's options: what it sets, where its bounds are, and what a snapshot shows of it."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
from recorded import read_record

from torchdevice_cuda.drivers import allocation
from torchdevice_cuda.drivers.allocation import ASYNC, NATIVE, NEVER, Settings

from .toy import ToyMemory

MIB = 1 << 20
ANSWERS = read_record("oracle-h200.json")
#: By text: the field of ours that it sets, and to what.
TAKEN: dict[str, tuple[str, object]] = {
    "max_split_size_mb:20": ("max_split", 20 * MIB),
    "max_split_size_mb:+25": ("max_split", 25 * MIB),
    "max_split_size_mb:17592186044416": ("max_split", NEVER // MIB * MIB),
    "large_segment_size_mb:11": ("large_segment", 11 * MIB),
    "max_non_split_rounding_mb:20": ("max_rounding", 20 * MIB),
    "max_non_split_rounding_mb:100": ("max_rounding", 100 * MIB),
    "garbage_collection_threshold:0.001": ("collect_above", 0.001),
    "garbage_collection_threshold:.5": ("collect_above", 0.5),
    "garbage_collection_threshold:5e-1x": ("collect_above", 0.5),
    "garbage_collection_threshold:+0.25": ("collect_above", 0.25),
    "garbage_collection_threshold:.5E-1": ("collect_above", 0.05),
    "expandable_segments:True": ("expandable", True),
    "expandable_segments:False": ("expandable", False),
    "pinned_use_background_threads:True": ("text", "pinned_use_background_threads:True"),
    "pinned_max_round_threshold_mb:5": ("pinned_rounded", 5 * MIB),
    "pinned_max_cached_size_mb:0": ("pinned_kept", 0),
    "release_lock_on_cudamalloc:True": ("releases_lock", True),
    "release_lock_on_hipmalloc:True": ("releases_lock", True),
    "pinned_use_cuda_host_register:True": ("pinned_registers", True),
    "pinned_use_hip_host_register:True": ("pinned_registers", True),
    "pinned_num_register_threads:2": ("pinned_threads", 2),
    "pinned_num_register_threads:128": ("pinned_threads", 128),
    "pinned_reserve_segment_size_mb:1": ("text", "pinned_reserve_segment_size_mb:1"),
    "graph_capture_record_stream_reuse:True": ("reuses_in_capture", True),
    "per_process_memory_fraction:0": ("fraction", 0.0),
    "per_process_memory_fraction:1": ("fraction", 1.0),
    "per_process_memory_fraction:0.5": ("fraction", 0.5),
    "pinned_free_catch_all:True": ("text", "pinned_free_catch_all:True"),
    "throw_on_cudamalloc_oom:True": ("rejects", True),
    "roundup_power2_divisions:1": ("divisions", (1,) * 16),
    "roundup_power2_divisions:8": ("divisions", (8,) * 16),
    "roundup_power2_divisions:[1:2]": ("divisions", (2, *[0] * 15)),
    "roundup_power2_divisions:[1:2,2:4,4:8]": ("divisions", (2, 4, 8, *[0] * 13)),
    "roundup_power2_divisions:[4:8,>:2]": ("divisions", (8, 8, 8, *[2] * 13)),
    "roundup_power2_divisions:[32768:2,>:4]": ("divisions", (2,) * 16),
    "roundup_power2_divisions:[16384:2,>:4]": ("divisions", (*[2] * 15, 4)),
    "roundup_power2_divisions:[131072:2]": ("divisions", (2,) * 16),
    "roundup_power2_divisions:[256:4,64:2]": ("divisions", (*[4] * 6, 2, 4, 4, *[0] * 7)),
    "roundup_power2_divisions:[256:0,>:2]": ("divisions", (*[0] * 9, *[2] * 7)),
    "roundup_power2_divisions:[]": ("divisions", (0,) * 16),
    "roundup_power2_divisions:[>:4]": ("divisions", (0, *[4] * 15)),
}
SMALL = "CachingAllocator option {} too small, must be >= {}"
THRESHOLD = "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"
FRACTION = "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"
#: Texts at the other side of a bound.
REFUSED: dict[str, tuple[type[Exception], str]] = {
    "max_split_size_mb:19": (ValueError, SMALL.format("max_split_size_mb", 20)),
    "max_non_split_rounding_mb:19": (ValueError, SMALL.format("max_non_split_rounding_mb", 20)),
    "large_segment_size_mb:30,max_split_size_mb:29": (ValueError, SMALL.format("max_split_size_mb", 30)),
    "max_split_size_mb:29,large_segment_size_mb:30": (ValueError, SMALL.format("max_split_size_mb", 30)),
    "large_segment_size_mb:10": (ValueError, "CachingAllocator option large_segment_size_mb must be > 10 MB"),
    "garbage_collection_threshold:0.0": (ValueError, THRESHOLD),
    "garbage_collection_threshold:1": (ValueError, THRESHOLD),
    "garbage_collection_threshold:nan": (ValueError, THRESHOLD),
    "garbage_collection_threshold:-inf": (ValueError, THRESHOLD),
    "per_process_memory_fraction:-0.1": (ValueError, FRACTION),
    "per_process_memory_fraction:1.01": (ValueError, FRACTION),
    "pinned_num_register_threads:0": (ValueError, "Number of register threads has to be power of 2, got 0"),
    "pinned_num_register_threads:256": (
        ValueError,
        "Number of register threads should be less than or equal to 128, got 256",
    ),
    "roundup_power2_divisions:0": (ValueError, "For roundups, the divisions has to be power of 2 "),
    "roundup_power2_divisions:[0:4]": (ValueError, "For roundups, the intervals have to be power of 2 "),
    "roundup_power2_divisions:[4:]": (ValueError, "stoull"),
    "pinned_use_background_threads:x": (
        ValueError,
        "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'x'",
    ),
    "pinned_reserve_segment_size_mb:0": (ValueError, "Pinned reserve segment size has to be greater than 0"),
    "pinned_num_register_threads:-1": (
        ValueError,
        "Number of register threads has to be power of 2, got 18446744073709551615",
    ),
    "roundup_power2_divisions:[4:4": (RuntimeError, "Index out of bounds in ConfigTokenizer"),
    "roundup_power2_divisions:[4:4,": (
        RuntimeError,
        "Expected closing bracket ']' in ConfigTokenizer but reached end of config",
    ),
    "max_split_size_mb:": (RuntimeError, "Index out of bounds in ConfigTokenizer"),
    "max_split_size_mb:18446744073709551616": (IndexError, "stoull"),
    "max_split_size_mb:-18446744073709551616": (IndexError, "stoull"),
    "max_split_size_mb:٣": (ValueError, "stoull"),
    "garbage_collection_threshold:٣": (ValueError, "stod"),
    "expandable_segments:False,foo:1": (ValueError, "Unrecognized key 'foo' in Accelerator allocator config."),
}


def read(text: str) -> Settings:
    return allocation.read(text, Settings())


@pytest.mark.parametrize("text", TAKEN)
def test_an_option_sets_its_field(text: str) -> None:
    field, value = TAKEN[text]
    wanted = dataclasses.replace(Settings(), **{"text": text, field: value})
    if field == "large_segment":
        wanted = dataclasses.replace(wanted, max_rounding=value)
    assert read(text) == wanted
    assert type(getattr(read(text), field)) is type(value)


@pytest.mark.parametrize("text", REFUSED)
def test_the_other_side_of_a_bound(text: str) -> None:
    kind, words = REFUSED[text]
    with pytest.raises(kind) as raised:
        read(text)
    assert (type(raised.value), str(raised.value)) == (kind, words)


def test_every_option_is_tried_here() -> None:
    """CUDA's own list, from its sources: what it takes, and what a program may read in its documentation."""
    tried = {text.partition(":")[0] for text in TAKEN} | {"backend"}
    assert tried == {*allocation._COMMON, *allocation._CUDA}


def test_the_largest_sizes() -> None:
    assert read("max_split_size_mb:18446744073709551615").max_split == NEVER // MIB * MIB
    for key, field in (("pinned_max_round_threshold_mb", "pinned_rounded"), ("large_segment_size_mb", "large_segment")):
        assert getattr(read(f"{key}:17592186044416"), field) == 17592186044415 * MIB
    assert read("max_non_split_rounding_mb:17592186044416").max_rounding == 17592186044415 * MIB


def test_unnamed_options_return_to_their_defaults() -> None:
    """As CUDA: some options are begun anew by every text, others are what they were."""
    first = read(
        "max_split_size_mb:50,garbage_collection_threshold:0.5,roundup_power2_divisions:4,expandable_segments:True,"
        "large_segment_size_mb:40,pinned_num_register_threads:4,throw_on_cudamalloc_oom:True"
    )
    second = allocation.read("", first)
    assert second == dataclasses.replace(
        first, text="", max_split=NEVER, collect_above=0.0, divisions=(0,) * 16, max_rounding=40 * MIB
    )


def test_a_process_begins_with_all_memory_and_no_refusals() -> None:
    assert (Settings().fraction, Settings().rejects) == (1.0, False)
    assert len({Settings(), Settings()}) == 1, "they never change"


def test_spaces_do_not_count() -> None:
    text = " max_split_size_mb : 2 5 ,\texpandable_segments:Tr\nue"
    assert (read(text).max_split, read(text).expandable, read(text).text) == (25 * MIB, True, text)


def test_text_between_options_is_ignored() -> None:
    assert read("max_split_size_mb:25:expandable_segments:True").expandable


def test_cudas_own_options_are_read_after_those_of_all() -> None:
    """Raise the error of the option that all accelerators have, if there are two errors."""
    with pytest.raises(ValueError, match="^garbage_collect_threshold is invalid"):
        read("per_process_memory_fraction:7,garbage_collection_threshold:7")


def test_the_backend() -> None:
    assert read("backend:native").backend == NATIVE
    assert read(f"backend:{ASYNC}").backend == ASYNC == "cudaMallocAsync"
    with pytest.raises(ValueError, match="^Unknown allocator backend, options are native and cudaMallocAsync$"):
        read("backend:none")
    assert allocation.read("backend:native", Settings(), backend=NATIVE).backend == NATIVE
    words = "Allocator backend parsed at runtime != allocator backend parsed at load time, cudaMallocAsync != native"
    with pytest.raises(RuntimeError, match=f"^{words}$"):
        allocation.read(f"backend:{ASYNC}", Settings(), backend=NATIVE)


# ------------------------------------------------------------------------------ warnings
def said(text: str) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        read(text)
    return [str(each.message) for each in found]


def test_sizes_that_do_not_go_together() -> None:
    assert said("pinned_max_round_threshold_mb:5,pinned_max_cached_size_mb:4") == [
        "pinned_max_round_threshold_mb (5) > pinned_max_cached_size_mb (4). The cache size limit takes precedence: "
        "allocations above pinned_max_cached_size_mb are never rounded up."
    ]
    assert said("pinned_max_round_threshold_mb:4,pinned_max_cached_size_mb:4") == []
    assert said("pinned_max_cached_size_mb:4") == []
    before = allocation.read("pinned_max_round_threshold_mb:9", Settings())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        allocation.read("pinned_max_cached_size_mb:4", before)


def test_an_allocator_that_ignores_options() -> None:
    ignores = (
        "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and garbage_collect_threshold."
    )
    assert said("backend:cudaMallocAsync,release_lock_on_cudamalloc:True") == [ignores]
    assert said("backend:cudaMallocAsync,max_split_size_mb:20") == []
    assert said("backend:cudaMallocAsync") == []
    assert said("backend:native,release_lock_on_cudamalloc:True") == []
    assert said("release_lock_on_cudamalloc:True") == []


def test_a_warning_is_of_the_line_that_configures() -> None:
    """Two calls away: the driver's memory reads settings for whoever gives them."""
    memory = ToyMemory()
    with pytest.warns(UserWarning, match="takes precedence") as found:
        memory.read("pinned_max_round_threshold_mb:5,pinned_max_cached_size_mb:4")
    assert found[0].filename == __file__


# --------------------------------------------------------------------------- environment
def test_precedence_of_variables() -> None:
    names = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"]
    texts = {name: f"max_split_size_mb:{size}" for size, name in enumerate(names, start=30)}
    for size, name in enumerate(names, start=30):
        assert allocation.from_environment(texts).max_split == size * MIB
        assert allocation.backend({**texts, name: f"backend:{ASYNC}"}) == ASYNC
        del texts[name]
    assert allocation.from_environment({}) == Settings()
    assert allocation.from_environment({"PYTORCH_CUDA_ALLOC_CONF": ""}) == Settings()


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("foo:1", ValueError, "Unrecognized key 'foo' in CUDA allocator config."),
        ("max_split_size_mb:x", RuntimeError, "stoull"),
        ("max_split_size_mb:18446744073709551616", RuntimeError, "stoull"),
        ("garbage_collection_threshold:x", RuntimeError, "stod"),
        ("max_split_size_mb:1", ValueError, SMALL.format("max_split_size_mb", 20)),
        ("max_split_size_mb", RuntimeError, "Index out of bounds in ConfigTokenizer"),
    ],
)
def test_an_environment_that_cannot_be_read(text: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as raised:
        allocation.from_environment({"PYTORCH_CUDA_ALLOC_CONF": text})
    assert (type(raised.value), str(raised.value)) == (kind, words)


def test_warnings_about_the_environment_are_not_shown() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = "pinned_max_round_threshold_mb:5,pinned_max_cached_size_mb:4"
        assert allocation.from_environment({"PYTORCH_CUDA_ALLOC_CONF": text}).pinned_kept == 4 * MIB


@pytest.mark.parametrize(
    ("text", "backend"),
    [
        (f"backend:{ASYNC}", ASYNC),
        (f" backend : {ASYNC} , x", ASYNC),
        (f"x,backend:{ASYNC}", ASYNC),
        (f"xbackend:{ASYNC}", NATIVE),
        (f"backend:{ASYNC}x", NATIVE),
        ("backend:native", NATIVE),
        ("", NATIVE),
    ],
)
def test_the_backend_of_the_environment(text: str, backend: str) -> None:
    assert allocation.backend({"PYTORCH_ALLOC_CONF": text}) == backend


@pytest.mark.parametrize(
    ("environment", "caches"),
    [
        ({}, True),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, False),
        ({"PYTORCH_NO_HIP_MEMORY_CACHING": "1"}, False),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "0"}, True),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": ""}, True),
    ],
)
def test_whether_freed_memory_is_kept(environment: dict[str, str], caches: bool) -> None:
    assert allocation.caches(environment) is caches


# ---------------------------------------------------------------------------------- shown
def test_defaults_are_shown() -> None:
    recorded = ANSWERS["history.settings_of_the_allocator"][1][0]
    shown = Settings().shown()
    for late in ("max_round_threshold", "max_cached_size"):  # of releases after the one that was asked
        assert shown.pop(late) == -1
    assert shown == recorded
    assert {name: type(value) for name, value in shown.items()} == {
        name: type(value) for name, value in recorded.items()
    }
    assert list(shown["roundup_power2_divisions"]) == list(recorded["roundup_power2_divisions"])


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("max_split_size_mb:25", "max_split_size", 25 * MIB),
        ("garbage_collection_threshold:0.5", "garbage_collection_threshold", 0.5),
        ("expandable_segments:True", "expandable_segments", True),
        ("pinned_num_register_threads:4", "pinned_num_register_threads", 4),
        ("release_lock_on_cudamalloc:True", "release_lock_on_cudamalloc", True),
        ("pinned_use_cuda_host_register:True", "pinned_use_cuda_host_register", True),
        ("graph_capture_record_stream_reuse:True", "graph_capture_record_stream_reuse", True),
        ("pinned_max_round_threshold_mb:3", "max_round_threshold", 3 * MIB),
        ("pinned_max_cached_size_mb:3", "max_cached_size", 3 * MIB),
    ],
)
def test_a_chosen_option_is_shown(text: str, name: str, value: object) -> None:
    assert read(text).shown() == {**Settings().shown(), "PYTORCH_CUDA_ALLOC_CONF": text, name: value}


@pytest.mark.parametrize(("size", "shown"), [(0, 0), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (NEVER, -1)])
def test_sizes_are_shown_with_a_sign(size: int, shown: int) -> None:
    assert allocation.signed(size) == shown
