"""Builds every artefact of a release, tries each in an environment of its own, and lists them: publishing is left.

    python tools/release.py dist                    # sdists, wheels, the native wheel for this Python, the site
    python tools/release.py dist --without site     # "native" and "site" can be left out
    twine upload dist/*.whl dist/*.tar.gz           # what is then to be done, but for the native wheels and the site

Environments get torch from constraints.txt. A native wheel fits one torch, one Python and one platform: run it by each
Python that is to be served. The exit status is 1 where an artefact does not build, install or work.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
MAIN, SHIM, NATIVE = "torchdevice_cuda", "torchdevice_cuda_shim", "torchdevice_cuda_native"
#: A CUDA program, and what it prints.
PROGRAM = "import torch; x = torch.ones(2, device='cuda'); print((x + x).sort().values.tolist(), x.device)"
PRINTED = "[2.0, 2.0] cuda:0"
#: No compiler can be found there.
NOWHERE = {"PATH": "/nowhere", "CXX": ""}


class Failed(Exception):
    """An artefact does not build, install or work; the message says which and why."""


def call(*words: str | Path, folder: Path | None = None, **environment: str) -> str:
    """Run a command and return what it printed; raise Failed with the end of what it said if it fails."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("TORCHDEVICE_")}
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env={**given, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        shown = " ".join(str(word) for word in words[:6])
        raise Failed(f"{shown} ended with status {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


class Environment:
    """A fresh virtual environment, with torch."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True, symlinks=True)
        self.python = folder / "bin" / "python"
        self.install("torch", "numpy")

    def install(self, *words: str | Path) -> None:
        """Have pip install something."""
        call(self.python, "-m", "pip", "install", "--quiet", "-c", CONSTRAINTS, *words)

    def run(self, *words: str | Path, **environment: str) -> str:
        """Run its Python outside the repository."""
        return call(self.python, *words, folder=self.python.parent, **environment).strip()


def build_sources(out: Path, scratch: Path) -> None:
    """Build sdists, and wheels of what is in those, from what git has."""
    tools = scratch / "tools"
    venv.create(tools, with_pip=True, symlinks=True)
    call(tools / "bin" / "python", "-m", "pip", "install", "--quiet", "build", "twine")
    tree = scratch / "tree"
    tree.mkdir()
    archive = scratch / "tree.tar"
    call("git", "archive", "--output", archive, "HEAD", folder=ROOT)
    with tarfile.open(archive) as file:
        file.extractall(tree, filter="data")
    for project in (tree, tree / "shim"):
        call(tools / "bin" / "python", "-m", "build", "--outdir", out, project)
    call(tools / "bin" / "python", "-m", "twine", "check", "--strict", *sorted(out.glob("*")))


def build_native(out: Path, scratch: Path) -> None:
    """Build the native wheel with what the main wheel installs, and have auditwheel look at it."""
    environment = Environment(scratch / "builder")
    environment.install(*out.glob(f"{MAIN}-*.whl"))
    made = environment.run("-m", "torchdevice_cuda", "--driver", "virtual", "--build", "--wheel-dir", out)
    if sys.platform == "linux":
        environment.install("auditwheel")
        said = environment.run("-m", "auditwheel", "show", made.splitlines()[-1])
        print(" ".join(line.strip() for line in said.splitlines() if "consistent" in line or "tag:" in line))


def build_site(out: Path, scratch: Path) -> None:
    """Build the site, as an archive."""
    environment = Environment(scratch / "site-builder")
    environment.install(f"{ROOT}[docs]")
    call(environment.python, "-m", "mkdocs", "build", "--strict", "--site-dir", scratch / "site", folder=ROOT)
    shutil.make_archive(str(out / "site"), "gztar", scratch / "site")


def expect(found: str, wanted: str, what: str) -> None:
    """Raise Failed where a program printed something else."""
    if found != wanted:
        raise Failed(f"{what} printed {found!r}, not {wanted!r}")


def try_sdist(out: Path, scratch: Path) -> None:
    """Install what has no wheel, and run the driver that is not compiled."""
    environment = Environment(scratch / "from-sdist")
    environment.install(*out.glob(f"{MAIN}-*.tar.gz"), *out.glob(f"{SHIM}-*.tar.gz"))
    program = environment.run("-m", "torchdevice_cuda", "--driver", "cpu", "-c", PROGRAM)
    expect(program, PRINTED.replace("cuda:0", "cpu"), "a program on the driver cpu")


def try_wheels(out: Path, scratch: Path) -> None:
    """Install the wheels by their names, and run a program without a compiler: by the command, and by the shim."""
    native = sorted(out.glob(f"{NATIVE}-*.whl"))
    environment = Environment(scratch / "from-wheels")
    environment.install("--find-links", out, "torchdevice-cuda", "torchdevice-cuda-shim", *native)
    call(environment.python, "-m", "pip", "check")
    driver, printed = ("virtual", PRINTED) if native else ("cpu", PRINTED.replace("cuda:0", "cpu"))
    given = {"TORCHDEVICE_CACHE_DIR": str(scratch / "cache"), "TORCHDEVICE_DRIVER": driver, **NOWHERE}
    expect(environment.run("-m", "torchdevice_cuda", "-c", PROGRAM, **given), printed, "a program")
    expect(environment.run("-c", PROGRAM, TORCHDEVICE_AUTO="1", **given), printed, "a program under the shim")


def main() -> int:
    """Build, try and list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where artefacts go; it has to be new or empty")
    parser.add_argument("--without", action="append", default=[], choices=("native", "site"))
    options = parser.parse_args()
    out: Path = options.folder.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        print(f"release: {out} is not empty; name a new folder", file=sys.stderr)
        return 2
    steps: list[tuple[str, Callable[[Path, Path], None]]] = [("sources", build_sources)]
    steps += [
        (name, step) for name, step in (("native", build_native), ("site", build_site)) if name not in options.without
    ]
    steps += [("sdists", try_sdist), ("wheels", try_wheels)]
    with tempfile.TemporaryDirectory() as name:
        for what, step in steps:
            try:
                step(out, Path(name))
            except Failed as error:
                print(f"release: {what}: {error}", file=sys.stderr)
                return 1
            print(f"{what}: done")
    for path in sorted(out.iterdir()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"{path.stat().st_size:>12,}  {digest[:16]}  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
