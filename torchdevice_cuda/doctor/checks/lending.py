"""The GPU's memory, lent to code of the host: in which storage mode it is, and that each sees what the other wrote."""

from __future__ import annotations

import ctypes
import importlib

import torch

from ... import driver
from ...drivers.mps.storages import find_alias
from ..asking import Finding, expect, main, question

#: Up to 8 bytes, small, large: torch's allocator has pools for each.
_SIZES = (8, 4096, 64 << 20)
#: Metal's numbers of storage modes.
_MODES = {0: "shared", 1: "managed", 2: "private", 3: "memoryless"}


def _metal_mode(buffer: int) -> str | None:
    """Return the storage mode that Metal states for a buffer, if pyobjc is installed and the GPU is real."""
    try:
        objc = importlib.import_module("objc")
    except ImportError:
        return None
    if driver().native is not None:
        return None  # an emulated buffer is no object
    return _MODES.get(int(objc.objc_object(c_void_p=ctypes.c_void_p(buffer)).storageMode()))


@question
def storage_modes() -> Finding:
    found: dict[str, str] = {}
    for size in _SIZES:
        storage = torch.ones(size, dtype=torch.uint8, device="cuda").untyped_storage()
        is_lent = find_alias(storage) is not None
        mode = _metal_mode(storage.data_ptr())
        expect(not (is_lent and mode == "private"), f"torch lends {size} bytes that Metal says are private")
        found[f"{size} bytes"] = f"{mode or 'unknown'}, lent {'in place' if is_lent else 'as a copy'}"
    return found


@question
def memory_that_is_lent() -> Finding:
    for size in _SIZES:
        numbers = torch.arange(size // 4, device="cuda", dtype=torch.int32) * 2 + 1
        loan = driver().loan()
        lent, last = loan.tensor(numbers), loan.address(numbers[-1:])
        with loan:
            there = torch.arange(1, size // 2, 2, dtype=torch.int32)
            expect(torch.equal(lent, there), f"the host does not see what the GPU wrote into {size} bytes")
            lent.neg_()
            ctypes.c_int32.from_address(last).value = 7
        there = -there
        there[-1] = 7
        expect(torch.equal(numbers.cpu(), there), f"the GPU does not see what the host wrote into {size} bytes")
    return None


@question
def tensors_of_one_storage() -> Finding:
    whole = torch.zeros(12, device="cuda")
    loan = driver().loan()
    part, turned = loan.tensor(whole[6:]), loan.tensor(whole.view(3, 4).t())
    with loan:
        part.fill_(2)
        expect(turned.sum().item() == 12, "two tensors of one storage have two memories on the host")
    expect(whole.sum().item() == 12, "what the host wrote is not there")
    return None


if __name__ == "__main__":
    main()
