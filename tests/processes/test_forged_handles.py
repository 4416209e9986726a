"""Handles of CUDA IPC that no process has sent: CUDA's errors, no crash, and no memory but our own is mapped."""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child

from .peer import Peer, peer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="handles name descriptors on Linux only")
forged = child(VIRTUAL.with_settings(devices=2))
#: What a handle of memory consists of after CUDA's two bytes: process, descriptor, identity, offset, size.
_PIECE = struct.Struct("=qqQQQ")
KEPT: list[Any] = []
_WORDS = (
    "CUDA error: ",
    "received sharable handle from a future version",
    "cudaIpcEventHandle_t expects byte-like object of size 64",
)


# ----------------------------------------------------------------- for the other process
def send() -> tuple[Any, ...]:
    """Send a tensor and an event."""
    KEPT[:] = [torch.arange(1000.0, device="cuda"), torch.cuda.Event(interprocess=True)]
    KEPT[1].record()
    return (*KEPT[0].untyped_storage()._share_cuda_(), KEPT[1].ipc_handle())


def read() -> bool:
    """Return whether the received tensor has the sent values."""
    return torch.equal(KEPT[0].cpu(), torch.arange(1000.0))


def open_others(path: str) -> list[tuple[str, tuple[int, ...]]]:
    """Open what is none of our memory; how a handle would name it."""
    other = os.memfd_create("other")
    os.truncate(other, 1 << 16)
    ours = os.memfd_create("torchdevice_cuda (deleted)")
    os.truncate(ours, 1 << 16)
    with socket.socket() as wire:
        opened = {"file": os.open(path, os.O_RDWR), "memory": other, "name": ours, "socket": wire.detach()}
    opened["pipe"], _ = os.pipe()
    opened["folder"] = os.open("/", os.O_RDONLY)
    return [(what, (os.getpid(), file, os.fstat(file).st_ino, 0, 4096)) for what, file in opened.items()]


# ----------------------------------------------------------------------------- the tests
def _named(piece: tuple[int, ...]) -> bytes:
    return b"\3c" + _PIECE.pack(*piece).ljust(64, b"\0")


def _piece(handle: bytes) -> tuple[int, ...]:
    return _PIECE.unpack(handle[2 : 2 + _PIECE.size])


def _refusal(*sent: Any) -> str:
    with pytest.raises(RuntimeError) as error:
        torch.UntypedStorage._new_shared_cuda(*sent)
    return str(error.value).split("\n", 1)[0]


def _maps() -> str:
    return Path("/proc/self/maps").read_text()


@forged
def test_only_our_memory_is_mapped() -> None:
    sent = peer()(send)[:8]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" * 8192)
        file.flush()
        for what, piece in peer()(open_others, file.name):
            handle = _named(piece)
            assert _refusal(sent[0], handle, 16, 0, *sent[4:]) == "CUDA error: invalid resource handle", what
            event = handle[2:]
            with pytest.raises(RuntimeError, match="^CUDA error: "):
                torch.cuda.Event.from_ipc_handle("cuda", event)
        assert file.name not in _maps()
    assert "memfd:other" not in _maps()


@forged
def test_no_mapping_is_out_of_bounds() -> None:
    device, handle, size, offset, *rest = peer()(send)[:8]
    process, file, identity, start, length = _piece(handle)
    before = _maps().count("memfd:torchdevice_cuda")
    for piece in (
        (process, file, identity, start, length + (1 << 40)),
        (process, file, identity, start + (1 << 40), length),
        (process, file, identity, start, 0),
        (process, file, identity, start + 1, length),
        (process, file, identity + 1, start, length),
        (process, file + 1000, identity, start, length),
        (-process, file, identity, start, length),
        (1 << 62, file, identity, start, length),
    ):
        assert _refusal(device, _named(piece), size, offset, *rest) == "CUDA error: invalid resource handle", piece
    for wrong in ((size, length + 1), (length + 1, 0), (-1, 0), (size, -1), (size, length - 1), (1 << 62, 1 << 62)):
        assert _refusal(device, handle, *wrong, *rest) == "CUDA error: invalid resource handle", wrong
    with pytest.raises(ValueError, match="^Overflow when unpacking long long$"):
        torch.UntypedStorage._new_shared_cuda(device, handle, 1 << 70, offset, *rest)
    assert _maps().count("memfd:torchdevice_cuda") <= before + 1  # the slots, which are mapped once
    for index in (2, 256, -1, -256, 1 << 40):
        assert _refusal(index, handle, size, offset, *rest) == "CUDA error: invalid device ordinal", index
    assert torch.UntypedStorage._new_shared_cuda(device, handle, size, offset, *rest).nbytes() == size


@forged
def test_counters_that_are_none_change_nothing() -> None:
    """A counter's name may lead to a tensor's memory, or to none."""
    sent = peer()(send)
    handle, counter, index = sent[1], sent[4], sent[5]
    process, file, identity, start, _ = _piece(handle)
    release = torch.UntypedStorage._release_ipc_counter_cuda
    for name in (
        f"/torch_{process}_{file}_{identity:x}_{start:x}".encode(),
        counter + b"/../../etc/passwd",
        b"/torch_" + b"9" * 400,
        b"../../etc/passwd",
        b"",
        b"\xff\0\xff",
    ):
        for where in (0, 1, index, -1, 1 << 40):
            release(name, where)
        # What was sent can be received, whatever becomes of its counter.
        assert torch.UntypedStorage._new_shared_cuda(*sent[:4], name, *sent[5:8]).nbytes() == sent[2]
    assert peer()(read)


@forged
def test_a_handle_of_a_process_that_has_ended() -> None:
    other = Peer()
    sent = other(send)
    other.stop()
    assert _refusal(*sent[:8]) == "CUDA error: invalid resource handle"
    with pytest.raises(RuntimeError, match="^CUDA error: invalid resource handle"):
        torch.cuda.Event.from_ipc_handle("cuda", sent[8])


def _damage(dice: random.Random, value: Any) -> Any:
    """Change one of the values that a sender tells a receiver."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return dice.choice((-1, 0, 1, value + 1, value * 2, 1 << 31, 1 << 62, -(1 << 62), dice.getrandbits(63)))
    changed = bytearray(value)
    kind = dice.randrange(5)
    if kind == 0:
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    elif kind == 1:
        return bytes(changed[: dice.randrange(len(changed))])
    elif kind == 2:
        return bytes(changed) + dice.randbytes(dice.randint(1, 80))
    elif kind == 3:
        place = 8 * dice.randrange(len(changed) // 8)
        changed[place : place + 8] = dice.choice((b"\0" * 8, b"\xff" * 8, dice.randbytes(8)))
    else:
        return dice.randbytes(len(changed))
    return bytes(changed)


@forged
@pytest.mark.parametrize("seed", range(2))
def test_damaged_handles(seed: int) -> None:
    """A handle that can be opened can be read to its end; any other raises CUDA's error."""
    dice, opened = random.Random(seed), 0
    sent = peer()(send)
    for _ in range(300):
        values = list(sent[:8])
        for place in dice.sample(range(8), dice.randint(1, 2)):
            values[place] = _damage(dice, values[place])
        event = _damage(dice, sent[8])
        try:
            storage = torch.UntypedStorage._new_shared_cuda(*values)
        except RuntimeError as error:
            assert str(error).startswith(_WORDS), (values, error)
        else:
            opened += 1
            x = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            assert x.sum() >= 0
        try:
            torch.cuda.Event.from_ipc_handle("cuda", event).query()
        except RuntimeError as error:
            assert str(error).startswith(_WORDS), (event, error)
    assert opened > 10  # of what does not matter, such as the counter's
    assert peer()(read)
    assert torch.UntypedStorage._new_shared_cuda(*peer()(send)[:8]).nbytes() == sent[2]
