"""Decide which files torchdevice_cuda may load, execute or read again, and read and write them.

Whoever can write such a file, or replace a folder above it, runs code as the user. So every folder from / down to the
file, and the file, must belong to the user or to root, and nobody else may be able to replace any of them. They are
opened one from the other and checked as they were opened: no name is looked up twice. Three kinds of folders:

- above a root: links of the user or of root are followed (macOS's /tmp, a home folder that is a link). Others may
  write a folder if only owners can rename in it (the sticky bit), or if they are a group of the user alone.
- a root, which the user names (``TORCHDEVICE_CACHE_DIR``): no link. It may have the sticky bit, unless it is private.
- folders in it, which are ours: no links, and a wrong mode is corrected.

What is loaded as code has a digest, so that a damaged file is found before it ends the process. `put` and `get` keep
any bytes under a key; `provide` has a file for other processes, which is compared byte for byte.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .settings import folders

_MARK = b"\ntorchdevice-native sha256:"
_SEAL_LENGTH = len(_MARK) + hashlib.sha256().digest_size
#: A file that is being written; see `write`.
_SCRATCH = ".part"
_LINKS = 40
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# A named pipe must not block the process.
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A folder that may be passed through may not be readable.
_PASS = _OPEN | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
MISSING = "missing"


class Untrusted(OSError):
    """Why a file or folder may not be used."""


class Absent(Untrusted, FileNotFoundError):
    """There is no such file."""

    def __init__(self) -> None:
        super().__init__(MISSING)


# ---- who can write ---------------------------------------------------------------------------------------------------


def _check(status: os.stat_result, path: Path, *, shared: bool = False, above: bool = False) -> None:
    """Raise `Untrusted` if anyone but the user and root can have written what `status` describes.

    A `shared` folder may have the sticky bit. `above` a root a group of the user alone counts as the user.
    """
    if status.st_uid not in (os.geteuid(), 0) and not (above and _is_unmapped(status.st_uid)):
        raise Untrusted(f"{path} belongs to another user (uid {status.st_uid}), not to this user or root")
    writers = stat.S_IMODE(status.st_mode) & _OTHERS
    if not writers or stat.S_ISLNK(status.st_mode) or (shared and status.st_mode & stat.S_ISVTX):
        return
    if above and writers == stat.S_IWGRP and _is_private(status.st_gid, status.st_uid):
        return
    raise Untrusted(f"{path} can be written by others; chmod go-w takes that away")


def _is_private(group: int, owner: int) -> bool:
    """Return whether a group has no member but the owner and root, as far as the list of accounts says.

    Many systems give each user a group, which can write what the user creates.
    """
    import grp
    import pwd

    try:
        allowed = {pwd.getpwuid(owner).pw_name, pwd.getpwuid(0).pw_name}
        members = {*grp.getgrgid(group).gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group)}
    except KeyError:  # no account of that number
        return False
    return members <= allowed


def _is_unmapped(user: int) -> bool:
    """Return whether `user` stands for all without a number in this user namespace: /, in a container without root."""
    try:
        with open("/proc/sys/kernel/overflowuid", "rb") as file:
            if int(file.read()) != user:
                return False
        with open("/proc/self/uid_map", "rb") as file:
            ranges = [[int(word) for word in line.split()] for line in file]
    except (OSError, ValueError):
        return False
    return not any(first <= user < first + count for first, _, count in ranges)


# ---- folders ---------------------------------------------------------------------------------------------------------


def _explain(path: Path, error: OSError) -> Untrusted:
    what = "is a link, which is not followed" if path.is_symlink() else f"cannot be opened: {error.strerror}"
    return Untrusted(f"{path} {what}")


def _make_folder(directory: int, path: Path, name: str, mode: int) -> None:
    try:
        os.mkdir(name, mode, dir_fd=directory)
    except FileExistsError:
        pass
    except OSError as error:
        raise Untrusted(f"{path} cannot be created: {error.strerror}") from None


def _open_above(root: Path, create: bool) -> int:
    """Open the folder that holds a root, following links."""
    opened, here = os.open("/", _PASS), Path("/")
    pending, links = [*reversed(root.parent.parts[1:])], 0
    try:
        _check(os.fstat(opened), here, shared=True, above=True)
        while pending:
            name = pending.pop()
            here = here / name
            try:
                status = os.stat(name, dir_fd=opened, follow_symlinks=False)
            except FileNotFoundError:
                if not create:
                    raise Absent from None
                _make_folder(opened, here, name, 0o755)
                status = os.stat(name, dir_fd=opened, follow_symlinks=False)
            except OSError as error:
                raise _explain(here, error) from None
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _LINKS:
                    raise Untrusted(f"{root} leads through more than {_LINKS} links")
                _check(status, here, above=True)
                pending += reversed(Path(os.readlink(name, dir_fd=opened)).parts)
                here = here.parent
                continue
            try:
                inner = os.open(name, _PASS, dir_fd=opened)
            except OSError as error:
                raise _explain(here, error) from None
            os.close(opened)
            opened = inner
            _check(os.fstat(opened), here, shared=True, above=True)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _open_inner(directory: int, path: Path, name: str, create: int | None) -> int:
    """Open a root, or a folder of ours in another."""
    flags = _OPEN | os.O_DIRECTORY | os.O_RDONLY
    try:
        try:
            return os.open(name, flags, dir_fd=directory)
        except FileNotFoundError:
            if create is None:
                raise Absent from None
            _make_folder(directory, path, name, create)
            return os.open(name, flags, dir_fd=directory)
    except Untrusted:
        raise
    except OSError as error:
        raise _explain(path, error) from None


@contextlib.contextmanager
def open_folder(path: Path, root: Path, *, create: int | None = None, private: bool = False) -> Iterator[int]:
    """Open a root, or a folder in it, after checking every folder down to it.

    `create` is the mode of folders that are missing; folders in the root whose mode is wrong then get a right one.
    The sticky bit does not excuse a `private` root that others can write.
    """
    opened, here = _open_above(root, create is not None), root
    try:
        for name in ("", *path.relative_to(root).parts):
            here = here / name
            outer, opened = opened, _open_inner(opened, here, name or root.name or ".", create)
            os.close(outer)
            status = os.fstat(opened)
            if create is not None and name and status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
                os.fchmod(opened, stat.S_IMODE(status.st_mode) & ~_OTHERS)
                status = os.fstat(opened)
            _check(status, here, shared=not name and not private)
        yield opened
    finally:
        os.close(opened)


# ---- files -----------------------------------------------------------------------------------------------------------


def open_file(directory: int, path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file of a folder that is open, and check it."""
    try:
        opened = os.open(path.name, _OPEN | flags, dir_fd=directory)
    except FileNotFoundError:
        raise Absent from None
    except OSError as error:
        raise _explain(path, error) from None
    try:
        check_open(opened, path)
    except BaseException:
        os.close(opened)
        raise
    return opened


def check_open(opened: int, path: Path) -> None:
    """Raise `Untrusted` unless an open file is a plain one that nobody but the user and root can have written."""
    status = os.fstat(opened)
    if not stat.S_ISREG(status.st_mode):
        raise Untrusted(f"{path} is not a plain file")
    _check(status, path)


def read(path: Path, root: Path) -> bytes:
    """Read a file of a root, or of a folder in it."""
    with open_folder(path.parent, root) as directory, open(open_file(directory, path), "rb") as file:
        return file.read()


def write(path: Path, content: bytes, root: Path, mode: int = 0o644) -> None:
    """Write a file of a root, or of a folder in it: it appears whole, or not at all."""
    with open_folder(path.parent, root, create=0o755) as directory:
        _replace(directory, path, content, mode)


def _replace(directory: int, path: Path, content: bytes, mode: int) -> None:
    _remove_scratch(directory)
    scratch = f".{path.name}.{os.urandom(8).hex()}{_SCRATCH}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN
    with open(os.open(scratch, flags, 0o600, dir_fd=directory), "wb") as file:
        try:
            # The system releases the lock of a process that is killed. Some file systems have no locks.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            os.replace(scratch, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(scratch, dir_fd=directory)
            raise


def _remove_scratch(directory: int) -> None:
    """Remove files that killed processes were writing: nobody holds their locks."""
    for name in os.listdir(directory):
        if not (name.startswith(".") and name.endswith(_SCRATCH)):
            continue
        with contextlib.suppress(OSError), open(os.open(name, _OPEN | os.O_RDONLY, dir_fd=directory), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=directory)


def provide(path: Path, content: bytes, root: Path, mode: int = 0o644) -> None:
    """Have exactly this content at a path that other processes read or execute; replace a file that differs."""
    with open_folder(path.parent, root, create=0o755) as directory:
        with contextlib.suppress(Untrusted), open(open_file(directory, path), "rb") as file:
            is_as_wanted = os.fstat(file.fileno()).st_mode & mode == mode
            if is_as_wanted and file.read(len(content) + 1) == content:
                return
        try:
            _replace(directory, path, content, mode)
        except OSError as error:
            raise Untrusted(f"{path} is missing or differs, and cannot be written: {error.strerror}") from None


def provide_link(path: Path, target: Path, root: Path) -> None:
    """Have a link to `target` at a path that other processes follow; replace anything else there."""
    with open_folder(path.parent, root, create=0o755) as directory:
        with contextlib.suppress(OSError):
            _check(os.stat(path.name, dir_fd=directory, follow_symlinks=False), path)
            if os.readlink(path.name, dir_fd=directory) == str(target):
                return
        scratch = f".{path.name}.{os.urandom(8).hex()}"
        try:
            os.symlink(target, scratch, dir_fd=directory)
            os.replace(scratch, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(scratch, dir_fd=directory)
            raise Untrusted(f"{path} is missing or differs, and cannot be written: {error.strerror}") from None


def name_open(opened: int, path: Path) -> str:
    """Return a path that leads to an open file or folder, whatever `path` leads to by now.

    By process number, not "self": a debugger and the tools that turn addresses into names follow it too.
    """
    here = f"/proc/{os.getpid()}/fd/{opened}"
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(here), os.fstat(opened)):
            return here
    # macOS, or no /proc: there is no way to load an open file. What is left is the moment between this look and the
    # loader's, in which the user or root alone could put another file there.
    if not os.path.samestat(path.lstat(), os.fstat(opened)):
        raise Untrusted(f"{path} was replaced while it was being loaded")
    return str(path)


# ---- bytes under a key -----------------------------------------------------------------------------------------------


def put(area: str, key: str, content: bytes) -> str:
    """Keep bytes in the cache, with their digest; return why that is not possible, or an empty string."""
    try:
        root = folders.cache_dir()
        write(root / area / key, content + seal(content), root)
    except (OSError, folders.SettingsError) as error:
        return str(error)
    return ""


def get(area: str, key: str) -> tuple[bytes | None, str]:
    """Return the bytes that were kept under a key; or ``None``, and why there are none (`MISSING`, or a sentence)."""
    try:
        root = folders.cache_dir()
        path = root / area / key
        content = unseal(read(path, root))
    except (OSError, folders.SettingsError) as error:
        return None, str(error)
    return (None, f"{path} is damaged") if content is None else (bytes(content), "")


def seal(content: bytes | memoryview) -> bytes:
    """Return what is appended to a file to find damage: a digest, the SHA-256 of all before it."""
    # Of those in hashlib the fastest where the processor helps: 1.1 ms for a library of 1.4 MB.
    return _MARK + hashlib.sha256(content).digest()


def unseal(content: bytes) -> memoryview | None:
    """Return what is before the seal; ``None`` if that was damaged."""
    body, end = memoryview(content)[:-_SEAL_LENGTH], memoryview(content)[-_SEAL_LENGTH:]
    return body if end == seal(body) else None
