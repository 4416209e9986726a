"""A process tells what it holds of each device.

The file begins with a page of cells, one unsigned 64-bit number a device: the bytes that the process holds of it. The
page is mapped; whoever keeps the books stores into it when memory comes or goes. Under ``--clock gpu`` its second half
has the time that the devices were busy. What does not change follows as JSON.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import logging
import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import leftovers, trust
from ..settings import folders


def find_folder() -> Path:
    """The folder of this user; whether it exists or not."""
    return folders.runtime_dir() or folders.memory_dir() / f"torchdevice-cuda-{os.geteuid()}"


def _make_folder() -> Path:
    """Create the folder of this user, and check that nobody else can write it."""
    path = find_folder()
    with trust.open_folder(path, path, create=0o700, private=True):
        return path


PAGE = 4096
#: The first cell of the GPU's clock (native/csrc/clock/utilization.cpp).
CLOCK_CELL = 256
VERSION = 1
SUFFIX = ".gpu"
_UNFINISHED = ".part"
_log = logging.getLogger("torchdevice_cuda")


class Publication:
    """The file of this process, open and locked until it is withdrawn."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.address = _map(descriptor)
        self._path, self._opened = path, [descriptor]
        self._owner = os.getpid()
        self._cells = (ctypes.c_uint64 * (PAGE // 8)).from_address(self.address)

    def hold(self, device: int, size: int) -> None:
        """Tell that so many bytes of a device are held now; a forked child has nothing to tell."""
        if os.getpid() == self._owner:
            self._cells[device] = size

    def withdraw(self) -> None:
        """Tell nothing any more."""
        atexit.unregister(self.withdraw)
        if os.getpid() == self._owner:
            with contextlib.suppress(OSError):
                self._path.unlink()
            while self._opened:
                os.close(self._opened.pop())


def _map(descriptor: int) -> int:
    """Map the first page of a file for as long as the process lives: the compiled device may be storing there.

    Python's own mmap would keep a descriptor open with it.
    """
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    address = call(None, PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "the page of a publication cannot be mapped")
    return int(address)


def publish(driver: str, devices: Sequence[dict[str, Any]], resident_since: int | None = None) -> Publication | None:
    """Make the file; ``None`` where there is no place for it, which no program should fail for.

    ``resident_since``: the memory of the devices is what the process has in main memory beyond this, which readers can
    see for themselves.
    """
    pid = os.getpid()
    started = leftovers.identity(pid)
    about = {
        "version": VERSION,
        "pid": pid,
        "started": started,
        "driver": driver,
        "command": sys.executable or "python",
        "resident_since": resident_since,
        "devices": list(devices),
    }
    try:
        folder = _make_folder()
        leftovers.remove(folder, suffix=SUFFIX, age_s=0.0, is_alive=_is_alive)
        leftovers.remove(folder, suffix=_UNFINISHED)
        # Processes of two containers may have one number, and a process may publish again.
        name = f"{pid}-{started}-{os.urandom(4).hex()}"
        path, temporary = folder / f"{name}{SUFFIX}", folder / f".{name}{_UNFINISHED}"
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            leftovers.hold(descriptor)
            with open(descriptor, "r+b", closefd=False) as file:
                file.write(bytes(PAGE) + json.dumps(about).encode())
            made = Publication(path, descriptor)
            os.replace(temporary, path)
        except BaseException:
            os.close(descriptor)
            raise
    except (OSError, ValueError) as error:
        _log.info("other processes are not told of the GPUs that this one uses: %s", error)
        return None
    atexit.register(made.withdraw)
    return made


def _is_alive(name: str) -> bool:
    """Return whether a file's name tells of a process that runs here."""
    pid, _, rest = name.partition("-")
    return pid.isdecimal() and str(leftovers.identity(int(pid))) == rest.partition("-")[0]
