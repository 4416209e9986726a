"""``CUDA_VISIBLE_DEVICES`` as text: which devices it leaves, in which order."""

from __future__ import annotations

import pytest

from torchdevice_cuda.drivers.host.facts import device_uuid
from torchdevice_cuda.drivers.host.visible import visible_count, visible_devices

FIRST, SECOND = (f"GPU-{device_uuid(index)}" for index in range(2))


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2,0", [2, 0]),
        (" 2 , 1 ", [2, 1]),
        ("0,-1,1", [0]),
        ("0,3,1", [0]),
        ("3", []),
        ("2,x,1", [2]),
        ("1,1", []),
        ("0,1,0", []),
        ("0,", [0]),
        (SECOND, [1]),
        (f"{SECOND},0", [1, 0]),
        (SECOND[:14], [1]),
        ("GPU-", []),
        ("gpu-" + SECOND[4:], []),
        (SECOND + "x", []),
    ],
)
def test_visible_devices(text: str | None, seen: list[int]) -> None:
    assert visible_devices(3, text) == seen
    assert visible_count(3, text) == len(seen)


def test_a_name_that_begins_several_names_none() -> None:
    common = next(length for length in range(4, 40) if FIRST[:length] != SECOND[:length]) - 1
    assert visible_devices(2, FIRST[:common]) == []
    assert visible_devices(2, FIRST[: common + 1]) == [0]
    assert visible_devices(1, FIRST[:common]) == [0]
