"""The destination of a report: a file, which appears whole or not at all, or a stream, open from the start."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import stat
import sys
import tempfile
import time

from .. import leftovers
from ..settings import BY_FIELD, Settings, SettingsError

STANDARD_ERROR = "-"
#: Names of this process's own descriptors. They may refer to a file, which contains the program's output.
_DESCRIPTORS = ("/dev/std", "/dev/fd/", "/proc/")
#: Seconds that the reader of a pipe has to read: without a reader a process must not hang at its end.
_PATIENCE = 5.0
#: The prefix of temporary files beside a report.
_PREFIX = ".torchdevice-report-"
#: Bytes written to test for free space; most reports are smaller.
_PROBE = b"\0" * 4096

#: Streams that are held open until the report is written. The reader of a FIFO sees its end when it is closed, so it
#: cannot be opened for a check and opened again to write.
_held: dict[str, int] = {}


def check(settings: Settings) -> None:
    """Raise a settings error if the report cannot be written: report it before the work."""
    named = settings.report
    if named is None:
        return
    try:
        _probe(named)
    except OSError as error:
        option = BY_FIELD["report"]
        spelled = f"{option.flag} ({option.variable})={named!r}"
        raise SettingsError(f"{spelled} cannot be written: {error.strerror}; allowed: {option.allowed}") from None


def write(named: str, text: str) -> None:
    """Write the report; raise the system's error if that has become impossible."""
    data = text.encode("utf-8", "backslashreplace")
    if named == STANDARD_ERROR:
        if _has_standard_error():
            sys.stderr.write(text)
            sys.stderr.flush()
    elif _is_stream(named):
        _send(_stream(named), data)
    else:
        _replace(named, data)


def announce(named: str) -> None:
    """Print where the report is, in one line; a stream needs none."""
    if named == STANDARD_ERROR or _is_stream(named) or not _has_standard_error():
        return
    with contextlib.suppress(OSError, ValueError):
        print(f"torchdevice_cuda: the report is in {os.path.abspath(named)!r}", file=sys.stderr)


def release(named: str | None) -> None:
    """Close the stream of a report that has been written."""
    descriptor = None if named is None else _held.pop(named, None)
    if descriptor is not None:
        os.close(descriptor)


def complain(named: str, error: OSError) -> None:
    """Print one line that a report was not written: at the end an exception would have no handler."""
    if named != STANDARD_ERROR and _has_standard_error():
        with contextlib.suppress(OSError):
            reason = error.strerror or error
            print(f"torchdevice_cuda: the report {named!r} was not written: {reason}", file=sys.stderr)


def beside(named: str, process: int) -> str:
    """Return the path for another process of the program; a stream takes reports one after the other."""
    if named == STANDARD_ERROR or _is_stream(named):
        return named
    stem, suffix = os.path.splitext(named)
    return f"{stem}.{process}{suffix}"


def _has_standard_error() -> bool:
    """Return whether the program has left it open. A failed write would fail the interpreter's last flush."""
    if sys.stderr is None or sys.stderr.closed:
        return False
    try:
        os.fstat(sys.stderr.fileno())
    except io.UnsupportedOperation:  # another object replaces it
        return True
    except OSError:
        return False
    return True


def _is_stream(named: str) -> bool:
    try:
        found = os.stat(named)
    except OSError:
        return False
    return not stat.S_ISREG(found.st_mode) or named.startswith(_DESCRIPTORS)


def _stream(named: str) -> int:
    if named not in _held:
        # Without a reader, opening a FIFO would wait for one; with O_NONBLOCK it is an error.
        _held[named] = os.open(named, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return _held[named]


def _probe(named: str) -> None:
    if named == STANDARD_ERROR:
        if not _has_standard_error():
            raise OSError(errno.EBADF, "there is no standard error")
        return
    if _is_stream(named):
        try:
            _stream(named)
        except OSError as error:
            nobody = error.errno == errno.ENXIO
            raise OSError(error.errno, "nobody reads this pipe" if nobody else os.strerror(error.errno or 0)) from None
        return
    exists = os.path.exists(named)
    if exists and not os.access(named, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    try:
        _room(os.path.dirname(os.path.realpath(named)))
    except PermissionError:
        if not exists:  # a writable file in a folder that is not: it is overwritten in place
            raise


def _room(folder: str) -> None:
    """Check that a file can be created and filled in a folder; no file stays that looks like a report."""
    leftovers.remove(folder, _PREFIX)
    descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    try:
        if os.write(descriptor, _PROBE) < len(_PROBE):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)  # some file systems report only then that they are full
    finally:
        os.close(descriptor)
        os.unlink(name)


def _send(descriptor: int, data: bytes) -> None:
    """Write to a stream with a time limit."""
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    end = time.monotonic() + _PATIENCE
    while data:
        if not ready.poll(max(0.0, end - time.monotonic()) * 1000):
            raise OSError(errno.ETIMEDOUT, "nobody reads it")
        data = data[os.write(descriptor, data) :]


def _replace(named: str, data: bytes) -> None:
    """Write a file in one step: a partial report is never visible, even if the process dies meanwhile."""
    path = os.path.realpath(named)
    temporary = os.path.join(os.path.dirname(path), f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with open(temporary, "wb") as file:
            leftovers.hold(file.fileno())
            file.write(data)
        if os.path.exists(path):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if not os.path.exists(path):
            raise
        # The folder is not writable, or the file is a mount.
        with open(path, "wb") as file:
            file.write(data)
