"""Build other people's packages with CUDA C++ kernels, run a small program with each, and print one table.

    python tools/packages --work build/packages [NAME ...] [--again] [--driver virtual] [--seconds 1800]
    python tools/packages --work build/packages --table            # the table of what has run
    python tools/packages --work build/packages --mirror "/mirror/{owner}+{name}/repo"   # clones that are here already
    python tools/packages --work build/packages fused-ssim --source fused-ssim=../fused-ssim

`rows.toml` lists the packages: where the source is, how it is built, and a program whose result is known by arithmetic.
Sources are fetched into the working folder, never into this repository. A row that has a result is not run again
unless `--again` is given, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings to 3.10

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: How a row ends, in the order of the table.
RESULTS = ("correct", "refused", "wrong", "not built", "crashed", "too slow", "not run")


@dataclasses.dataclass
class Row:
    """A package of the table."""

    name: str
    version: str
    source: str  # pypi:NAME, github:OWNER/NAME or wheel:NAME
    program: str
    build: str = "setup"  # or "load": some sources as one extension; or "none"
    folder: str = "."
    sources: list[str] = dataclasses.field(default_factory=list)
    #: C++ after the sources of a "load": Python's names for their functions.
    binding: str = ""
    include: list[str] = dataclasses.field(default_factory=list)
    flags: list[str] = dataclasses.field(default_factory=list)
    also: dict[str, str] = dataclasses.field(default_factory=dict)  # folder: source
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Libraries that see no CUDA: none, since what was built here can compute.
    hide: str = "none"
    #: What the error says where the package is refused on purpose.
    refused: str = ""


def read_rows() -> list[Row]:
    """Return the table."""
    with open(HERE / "rows.toml", "rb") as file:
        return [Row(name=name, **fields) for name, fields in tomllib.load(file).items()]


class Failed(Exception):
    """A step did not work: how the row ends, and the reason."""

    def __init__(self, result: str, reason: str) -> None:
        """Keep both."""
        super().__init__(reason)
        self.result = result


class Runner:
    """Fetches, builds and runs rows in a working folder."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Keep the arguments."""
        self._work: Path = arguments.work.resolve()
        self._driver: str = arguments.driver
        self._seconds: int = arguments.seconds
        self._mirror: str = arguments.mirror
        self._given = dict(entry.split("=", 1) for entry in arguments.source)

    def run(self, row: Row) -> dict[str, Any]:
        """Carry a row out, and write its result down."""
        begin = time.monotonic()
        try:
            folder = self._fetch(row)
            built = time.monotonic()
            self._build(row, folder)
            seconds = time.monotonic() - built
            self._check(row, folder)
            found: dict[str, Any] = {"result": "correct", "reason": "", "build": round(seconds)}
        except Failed as error:
            found = {"result": error.result, "reason": str(error), "build": round(time.monotonic() - begin)}
            if row.refused and row.refused in str(error):
                found["result"] = "refused"
        path = self._work / row.name / "result.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**found, "version": row.version}), encoding="utf-8")
        return found

    def read(self, row: Row) -> dict[str, Any] | None:
        """Return the result of an earlier run of the same version."""
        try:
            found: dict[str, Any] = json.loads((self._work / row.name / "result.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if found.get("version") == row.version else None

    def _fetch(self, row: Row) -> Path:
        folder = self._work / row.name / "source"
        if not folder.exists():
            scratch = folder.with_name("fetching")
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            self._fetch_one(self._given.get(row.name, row.source), row.version, scratch)
            for place, source in row.also.items():
                (scratch / place).mkdir(parents=True, exist_ok=True)
                self._fetch_one(source, "HEAD", scratch / place)
            scratch.rename(folder)
        return folder

    def _fetch_one(self, source: str, version: str, to: Path) -> None:
        kind, _, name = source.partition(":")
        if kind == "pypi" or kind == "wheel":
            self._fetch_release(kind, name, version, to)
        elif kind == "github":
            owner, _, short = name.partition("/")
            url = self._mirror.format(owner=owner, name=short) if self._mirror else f"https://github.com/{name}"
            self._fetch_commit(url, version, to)
        elif Path(source).is_dir() and not (Path(source) / "HEAD").exists():
            shutil.copytree(source, to, dirs_exist_ok=True)
        else:
            self._fetch_commit(source, version, to)

    def _fetch_release(self, kind: str, name: str, version: str, to: Path) -> None:
        pip = [sys.executable, "-m", "pip"]
        if kind == "wheel":
            self._step([*pip, "install", "-q", "--no-deps", "--target", str(to), f"{name}=={version}"], to)
            return
        with_source = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(to)]
        self._step([*pip, "download", "-q", *with_source, f"{name}=={version}"], to)
        archive = next(to.glob("*.tar.gz"))
        with tarfile.open(archive) as file:
            file.extractall(to, filter="data")
        inner = next(path for path in to.iterdir() if path.is_dir())
        for path in inner.iterdir():
            path.rename(to / path.name)

    def _fetch_commit(self, url: str, version: str, to: Path) -> None:
        clone = to.with_name(f"{to.name}.git")
        shutil.rmtree(clone, ignore_errors=True)
        if Path(url).is_dir():
            clone = Path(url)
        else:
            self._step(["git", "clone", "-q", "--bare", url, str(clone)], self._work)
        # A clone may lack large files; what of the tree is there is enough.
        packed = subprocess.run(["git", "-C", clone, "archive", version], capture_output=True, check=False)
        archive = to / "source.tar"
        archive.write_bytes(packed.stdout)
        done = subprocess.run(["tar", "xf", archive.name], cwd=to, capture_output=True, text=True, check=False)
        archive.unlink()
        if not any(to.iterdir()):
            raise Failed("not run", f"no source: {packed.stderr.decode().strip()} {done.stderr.strip()}")

    def _build(self, row: Row, folder: Path) -> None:
        where = folder / row.folder
        if row.build == "setup":
            self._python(row, ["setup.py", "-q", "build_ext", "--inplace"], where, "not built")
        elif row.build == "load":
            text = "".join(f'#include "{where / name}"\n' for name in row.sources) + row.binding
            made = folder.parent / "made"
            made.mkdir(exist_ok=True)
            (made / "extension.cu").write_text(text, encoding="utf-8")
            include = [str(folder / name) for name in row.include]
            script = (
                "from torch.utils.cpp_extension import load\n"
                f"load('package_kernels', [r'{made}/extension.cu'], build_directory=r'{made}', verbose=True,\n"
                f"     extra_include_paths={include!r}, extra_cuda_cflags={['-O0', *row.flags]!r})\n"
            )
            (made / "build.py").write_text(script, encoding="utf-8")
            self._python(row, [str(made / "build.py")], made, "not built")

    def _check(self, row: Row, folder: Path) -> None:
        program = folder.parent / "program.py"
        program.write_text(row.program, encoding="utf-8")
        self._python(row, [str(program)], folder / row.folder, "wrong")

    def _python(self, row: Row, words: list[str], where: Path, otherwise: str) -> None:
        paths = [str(where), str(where.parent / "made"), str(where.parents[0].parent / "made"), str(ROOT)]
        paths += [str(self._work / row.name / "made")]
        environment = {"PYTHONPATH": os.pathsep.join(paths), "MAX_JOBS": "1", "FORCE_CUDA": "1", **row.environment}
        command = [sys.executable, "-m", "torchdevice_cuda", "--driver", self._driver, "--hide-from", row.hide, *words]
        self._step(command, where, environment, otherwise)

    def _step(
        self, command: list[str], where: Path, environment: dict[str, str] | None = None, otherwise: str = "not run"
    ) -> None:
        try:
            done = subprocess.run(
                command, cwd=where, env={**os.environ, **(environment or {})}, capture_output=True, text=True,
                errors="replace", timeout=self._seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed("too slow", f"more than {self._seconds} s: {' '.join(command[-3:])}") from None
        if done.returncode < 0:
            raise Failed("crashed", f"signal {-done.returncode}: {' '.join(command[-3:])}")
        if done.returncode:
            raise Failed(otherwise, find_reason(done.stderr + done.stdout))


def find_reason(text: str) -> str:
    """Return the line of an output that says what is wrong: ours first, then a compiler's, then the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for word in ("is not supported here", "fatal error:", " error: ", "undefined reference", "Error: "):
        for line in lines:
            if word in line:
                return line[-300:]
    return lines[-1][-300:] if lines else "no output"


def write_table(rows: list[Row], runner: Runner) -> str:
    """Return the results as a Markdown table, with a line that counts them."""
    lines = ["| package | version | built from | result | build | reason |", "|---|---|---|---|---|---|"]
    counts = dict.fromkeys(RESULTS, 0)
    for row in rows:
        found = runner.read(row) or {"result": "not run", "reason": "", "build": 0}
        counts[found["result"]] += 1
        how = "some sources" if row.build == "load" else {"setup": "setup.py", "none": "its wheel"}[row.build]
        reason = found["reason"].replace("|", "\\|")
        seconds = f"{found['build']} s" if found["build"] else ""
        lines.append(f"| {row.name} | {row.version[:12]} | {how} | {found['result']} | {seconds} | {reason} |")
    said = ", ".join(f"{count} {result}" for result, count in counts.items() if count)
    return "\n".join([*lines, "", f"{len(rows)} packages: {said}."])


def main() -> int:
    """Run the rows that are asked for."""
    parser = argparse.ArgumentParser(prog="tools/packages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="packages; all by default")
    parser.add_argument("--work", type=Path, required=True, help="a folder outside of this repository's sources")
    parser.add_argument("--mirror", default="", help="where clones are, with {owner} and {name}")
    parser.add_argument("--source", action="append", default=[], metavar="NAME=PATH", help="another source for a row")
    parser.add_argument("--driver", default="virtual")
    parser.add_argument("--seconds", type=int, default=1800, help="limit of one step")
    parser.add_argument("--again", action="store_true", help="run rows that have a result")
    parser.add_argument("--table", action="store_true", help="print the table only")
    arguments = parser.parse_args()
    rows, runner = read_rows(), Runner(arguments)
    unknown = set(arguments.names) - {row.name for row in rows}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    chosen = [row for row in rows if not arguments.names or row.name in arguments.names]
    for row in () if arguments.table else chosen:
        if arguments.again or runner.read(row) is None:
            found = runner.run(row)
            print(f"{row.name}: {found['result']} {found['reason']}", file=sys.stderr, flush=True)
    print(write_table(chosen, runner))
    return int(any((runner.read(row) or {}).get("result") in ("wrong", "crashed") for row in chosen))


if __name__ == "__main__":
    sys.exit(main())
