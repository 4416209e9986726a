"""The wheels for macOS: asked of pip, kept in the user's cache, read as the archives that they are."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from macho import Library
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

#: What a Mac of today takes: torch's wheels name the oldest macOS that they run on.
PLATFORMS = ("macosx_14_0_arm64", "macosx_11_0_arm64")
#: The Python that the wheels are for. All torch that we support has wheels for it.
PYTHON = "3.12"
#: One download takes no longer: the largest has some 140 MB.
PATIENCE_S = 900


class Wheel:
    """A wheel file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        name, self.version, _, _ = parse_wheel_filename(path.name)
        self.name = str(name)
        self._archive = zipfile.ZipFile(path)

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def release(self) -> tuple[int, ...]:
        """Return the first two parts of its version."""
        return self.version.release[:2]

    @functools.cached_property
    def files(self) -> frozenset[str]:
        """Return the paths of all that is in it."""
        return frozenset(self._archive.namelist())

    def bytes(self, name: str) -> bytes:
        """Read a file."""
        return self._archive.read(name)

    def text(self, name: str) -> str:
        """Read a text file."""
        return self.bytes(name).decode("utf-8")

    def matching(self, begin: str, end: str) -> Iterator[str]:
        """Return the paths that begin and end so."""
        return (name for name in sorted(self.files) if name.startswith(begin) and name.endswith(end))

    def library(self, name: str) -> Library:
        """Parse one of the wheel's libraries."""
        with tempfile.TemporaryDirectory() as folder:
            return Library(Path(self._archive.extract(name, folder)))

    def unpack(self, folder: Path, *begin: str) -> None:
        """Put the files whose paths begin so into a folder."""
        self._archive.extractall(folder, [name for name in self.files if name.startswith(begin)])


def download(requirement: str, folder: Path) -> str:
    """Have pip put the wheel of a project for a Mac into a folder, if it is not there; why that was not possible."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", PYTHON, "--dest", str(folder), requirement]
    command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"pip took more than {PATIENCE_S} s"
    said = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    return "" if done.returncode == 0 else (said or [f"pip ended with {done.returncode}"])[-1]


def find(requirement: str, folder: Path) -> Wheel | None:
    """Return the newest wheel in a folder that a requirement allows."""
    wanted, found = Requirement(requirement), dict[Version, Path]()
    for path in folder.glob("*.whl"):
        name, version, _, _ = parse_wheel_filename(path.name)
        if name == canonicalize_name(wanted.name) and wanted.specifier.contains(version, prereleases=True):
            found[version] = path
    return Wheel(found[max(found)]) if found else None
