"""Distributions built from the files of the repository, and fresh environments to install them in.

What torch needs is not installed again: an environment sees the tester's packages, but those of this project, through
links. So pip knows of it, takes it for installed, and leaves it alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

from harness import Finished, clean_environment, run
from harness.processes import ROOT

_OURS = ("torchdevice", "__editable__", "_distutils", "distutils-precedence", "pip")
_BACKEND = "import sys; sys.path[:0] = sys.argv[3:]; import {0} as b; b.build_{1}(sys.argv[1])"


def tree(folder: Path, version: str | None = None) -> Path:
    """Return the files that git knows or would know, as they are now; under another version, if that is asked for."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if version is not None:
        init = folder / "torchdevice_cuda" / "__init__.py"
        lines = init.read_text().splitlines()
        (number,) = [number for number, line in enumerate(lines) if line.startswith("__version__ = ")]
        lines[number] = f'__version__ = "{version}"'
        init.write_text("\n".join(lines) + "\n")
    return folder


def build(project: Path, kind: str, out: Path) -> Path:
    """Return a wheel or an sdist, by the project's own backend, with the tester's setuptools."""
    in_tree = (project / "_build").is_dir()
    code = _BACKEND.format("backend" if in_tree else "setuptools.build_meta", kind)
    out.mkdir(exist_ok=True)
    before = set(out.iterdir())
    done = run([sys.executable, "-c", code, str(out), "", *(["_build"] if in_tree else [])], folder=project)
    assert done.status == 0, done
    (made,) = set(out.iterdir()) - before
    return made


class Environment:
    """A virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        links = folder.with_name(f"{folder.name}-seen")
        links.mkdir(parents=True)
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if not entry.name.startswith(_OURS) and entry.name != "__pycache__":
                (links / entry.name).symlink_to(entry)
        venv.create(folder, with_pip=True, symlinks=True)
        self.python = folder / "bin" / "python"
        self.site = Path(
            self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").out.strip(),
        )
        # Some versions of Python put an old setuptools there, and torch requires a new one.
        self.run("-m", "pip", "uninstall", "--quiet", "--yes", "setuptools")
        (self.site / "seen.pth").write_text(f"{links}\n")

    def run(self, *words: str | Path, check: bool = True, timeout: float = 300, **variables: str) -> Finished:
        """Run its Python outside the checkout."""
        return self.command([str(self.python), *map(str, words)], variables, check=check, timeout=timeout)

    def command(
        self, words: list[str], variables: Mapping[str, str], *, check: bool = True, timeout: float = 300
    ) -> Finished:
        """Run a command that finds this environment's programs first."""
        environment = clean_environment(**variables)
        if "PYTHONPATH" not in variables:
            environment.pop("PYTHONPATH")
        environment["PATH"] = os.pathsep.join([str(self.folder / "bin"), variables.get("PATH", environment["PATH"])])
        done = run(words, environment=environment, folder=self.folder, timeout=timeout)
        assert not check or done.status == 0, done
        return done

    def pip(self, *words: str | Path) -> Finished:
        """Run its pip without an index."""
        return self.run("-m", "pip", "--disable-pip-version-check", *words, PIP_NO_INDEX="1", PIP_EXTRA_INDEX_URL="")

    def files(self) -> set[str]:
        """List all files in the environment, except the compiled files of other packages."""
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}
        return {name for name in found if "__pycache__" not in name or "torchdevice" in name}
