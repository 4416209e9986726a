"""Build other people's packages with CUDA C++ kernels, run a small program with each, and print one table.

    python tools/packages --work build/packages [NAME ...] [--again] [--rows FILE] [--seconds 600]
    python tools/packages --work build/packages --table            # the table of what has run
    python tools/packages --work build/packages --write            # put it into docs/packages.md, too
    python tools/packages --work build/packages --mirror "/mirror/{owner}+{name}/repo"   # clones that are here already

`rows.toml` lists the packages: where the source is, what is built of it, and a program whose result is known by
arithmetic. Sources are fetched into the working folder, never into this repository. A row that has a result and has
not changed since is not run again unless `--again` is given, so an interrupted run goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings to 3.10

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DOCUMENT = ROOT / "docs" / "packages.md"
BEGIN, END = "<!-- the table of tools/packages begins -->\n", "<!-- the table of tools/packages ends -->\n"
#: How a row ends, in the order of the table.
RESULTS = ("correct", "refused", "wrong", "not built", "crashed", "too slow", "not run")
#: Words in a line that says what is wrong, the best first.
TELLING = (
    "is not supported here",
    "nvcc: the flag",
    "fatal error:",
    " error: ",
    "undefined reference",
    "undefined symbol",
    "Error: ",
)


@dataclasses.dataclass
class Row:
    """A package of the table."""

    name: str
    version: str  # a release, or a commit
    source: str  # pypi:NAME, wheel:NAME or github:OWNER/NAME
    program: str
    build: str = "setup"  # or "load": `sources` as one extension, package_kernels; or "none"
    folder: str = "."  # of setup.py, or of the sources
    sources: list[str] = dataclasses.field(default_factory=list)
    #: C++ before and after the sources of a "load". What is after them gives their functions names in Python.
    before: str = ""
    binding: str = ""
    include: list[str] = dataclasses.field(default_factory=list)
    flags: list[str] = dataclasses.field(default_factory=list)
    also: dict[str, str] = dataclasses.field(default_factory=dict)  # folder: source
    needs: list[str] = dataclasses.field(default_factory=list)  # releases that are installed for it
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Libraries that see no CUDA: none, since what was built here can compute.
    hide: str = "none"
    #: What the error says where the package is refused on purpose.
    refused: str = ""

    @property
    def digest(self) -> str:
        """Return what changes when the row does."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def units(self) -> str:
        """Return what was built, for the table."""
        as_it_is = "wheel" if self.source.startswith("wheel:") else "by itself"
        return {"setup": "setup.py", "none": as_it_is}.get(self.build) or ", ".join(self.sources)


class Failed(Exception):
    """A step did not work: how the row ends, and the reason."""

    def __init__(self, result: str, reason: str) -> None:
        super().__init__(reason)
        self.result = result


class Run:
    """Fetches, builds and runs one row in a folder of its own, within a limit of time."""

    def __init__(self, row: Row, arguments: argparse.Namespace) -> None:
        self._row, self._arguments = row, arguments
        self._folder: Path = arguments.work.resolve() / row.name
        self._source, self._made = self._folder / "source", self._folder / "made"
        self._end = 0.0

    def read(self) -> dict[str, Any]:
        """Return the result of an earlier run of the same row."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self._folder / "result.json").read_text(encoding="utf-8"))
            if found["digest"] == self._row.digest:
                return found
        return {"result": "not run", "reason": "", "seconds": 0}

    def carry_out(self) -> dict[str, Any]:
        """Carry the row out, and write its result down."""
        result, reason, begin = "correct", "", time.monotonic()
        self._end = begin + self._arguments.seconds
        try:
            self._made.mkdir(parents=True, exist_ok=True)
            self._fetch()
            for lock in self._made.rglob("lock"):
                lock.unlink()  # of a build that was killed: the next would wait for it
            begin = time.monotonic()
            self._build()
            seconds = time.monotonic() - begin
            (self._made / "program.py").write_text(self._row.program, encoding="utf-8")
            self._python(str(self._made / "program.py"), otherwise="wrong")
        except Failed as error:
            seconds = time.monotonic() - begin
            is_refused = self._row.refused and self._row.refused in str(error)
            result, reason = "refused" if is_refused else error.result, str(error)
        found = {"result": result, "reason": reason, "seconds": round(seconds), "digest": self._row.digest}
        (self._folder / "result.json").write_text(json.dumps(found), encoding="utf-8")
        return found

    def _fetch(self) -> None:
        if self._source.exists():
            return
        scratch = self._folder / "fetching"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        self._fetch_one(self._row.source, self._row.version, scratch)
        for place, source in self._row.also.items():
            (scratch / place).mkdir(parents=True, exist_ok=True)
            self._fetch_one(source, "HEAD", scratch / place)
        if self._row.needs:
            self._pip(scratch, "install", "--target", str(self._made), *self._row.needs)
        scratch.rename(self._source)

    def _fetch_one(self, source: str, version: str, to: Path) -> None:
        kind, _, name = source.partition(":")
        if kind == "wheel":
            self._pip(to, "install", "--target", str(to), f"{name}=={version}")
        elif kind == "pypi":
            self._pip(
                to, "download", "--no-binary", ":all:", "--no-build-isolation", "-d", str(to), f"{name}=={version}"
            )
            with tarfile.open(next(to.glob("*.tar.gz"))) as file:
                file.extractall(to, filter="data")
            inner = next(path for path in to.iterdir() if path.is_dir())
            for path in inner.iterdir():
                path.rename(to / path.name)
        else:
            owner, _, short = name.partition("/")
            url = self._arguments.mirror.format(owner=owner, name=short) or f"https://github.com/{name}"
            self._step(["git", "clone", "-q", "--no-checkout", url, str(to)], to)
            self._step(["git", "-c", "advice.detachedHead=false", "checkout", "-q", version], to)

    def _pip(self, where: Path, *words: str) -> None:
        """Run pip with a GPU: metadata of a source may need one."""
        self._step([*self._activated(), "-m", "pip", "-q", words[0], "--no-deps", *words[1:]], where)

    def _build(self) -> None:
        row, where = self._row, self._source / self._row.folder
        if row.build == "setup":
            self._python("setup.py", "-q", "build_ext", "--inplace", otherwise="not built")
        elif row.build == "load":
            text = "".join(f'#include "{where / name}"\n' for name in row.sources)
            (self._made / "extension.cu").write_text(row.before + text + row.binding, encoding="utf-8")
            include = [str(self._source / name) for name in row.include]
            script = (
                "from torch.utils.cpp_extension import load\n"
                f"load('package_kernels', [r'{self._made}/extension.cu'], build_directory=r'{self._made}',\n"
                f"     verbose=True, extra_include_paths={include!r}, extra_cuda_cflags={row.flags!r})\n"
            )
            (self._made / "build.py").write_text(script, encoding="utf-8")
            self._python(str(self._made / "build.py"), otherwise="not built")

    def _activated(self) -> list[str]:
        hide = ["--hide-from", self._row.hide]
        return [sys.executable, "-m", "torchdevice_cuda", "--driver", self._arguments.driver, *hide]

    def _python(self, *words: str, otherwise: str) -> None:
        where = self._source / self._row.folder
        self._step([*self._activated(), *words], where, otherwise)

    def _step(self, command: list[str], where: Path, otherwise: str = "not run") -> None:
        # One compiler at a time: a package that starts one for each core may need more memory than there is.
        paths = os.pathsep.join(map(str, (self._source / self._row.folder, self._made, ROOT)))
        own = {"PYTHONPATH": paths, "MAX_JOBS": "1", "FORCE_CUDA": "1", "TORCHDEVICE_KERNEL_OPTIMIZATION": "0"}
        own["TORCH_EXTENSIONS_DIR"] = str(self._made / "extensions")
        environment = {**os.environ, **own, **self._row.environment}
        with open(self._made / "output.txt", "w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(
                command, cwd=where, env=environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                process.wait(max(1, self._end - time.monotonic()))
            except subprocess.TimeoutExpired:
                for each in (*list_descendants(process.pid), process.pid):  # ninja's are in groups of their own
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(each, signal.SIGKILL)
                process.wait()
                raise Failed("too slow", f"more than {self._arguments.seconds} s") from None
            output.seek(0)
            text = output.read()
        if process.returncode < 0:
            raise Failed("crashed", f"signal {-process.returncode}: {find_reason(text)}")
        if process.returncode:
            raise Failed(otherwise, find_reason(text))


def list_descendants(parent: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found = [parent]
    for one in found:
        found += [pid for pid, of in pairs if of == one]
    return found[1:]


def find_reason(text: str) -> str:
    """Return the line of an output that says what is wrong, without folders; else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = next((line for word in TELLING for line in lines if word in line), lines[-1] if lines else "no output")
    told = " ".join(word.rsplit("/", 1)[-1] if word.startswith("/") else word for word in found.split())
    return textwrap.shorten(told, 240, placeholder=" ...")


def write_table(runs: dict[str, tuple[Row, Run]]) -> str:
    """Return the results as a Markdown table, with a line that counts them."""
    lines = ["| package | version | built | result | seconds | reason |", "|---|---|---|---|---|---|"]
    counts = dict.fromkeys(RESULTS, 0)
    for row, run in runs.values():
        found = run.read()
        counts[found["result"]] += 1
        reason = found["reason"].replace("|", "\\|").replace("<", "&lt;")
        cells = [row.name, row.version[:12], row.units, found["result"], str(found["seconds"] or ""), reason]
        lines.append(f"| {' | '.join(cells)} |")
    said = ", ".join(f"{count} {result}" for result, count in counts.items() if count)
    return "\n".join([*lines, "", f"{len(runs)} packages: {said}.", ""])


def main() -> int:
    """Run the rows that are asked for."""
    parser = argparse.ArgumentParser(prog="tools/packages", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="packages; all by default")
    parser.add_argument("--work", type=Path, required=True, help="a folder outside of this repository's sources")
    parser.add_argument("--rows", type=Path, action="append", help="other tables of rows than rows.toml")
    parser.add_argument("--mirror", default="", help="where clones are, with {owner} and {name}")
    parser.add_argument("--driver", default="virtual")
    parser.add_argument("--seconds", type=int, default=600, help="limit of one row")
    parser.add_argument("--again", action="store_true", help="run rows that have a result")
    parser.add_argument("--table", action="store_true", help="print the table only")
    parser.add_argument("--write", action="store_true", help="print the table, and put it into docs/packages.md")
    arguments = parser.parse_args()
    runs: dict[str, tuple[Row, Run]] = {}
    for path in arguments.rows or [HERE / "rows.toml"]:
        for name, fields in tomllib.loads(path.read_text(encoding="utf-8")).items():
            row = Row(name=name, **fields)
            runs[name] = row, Run(row, arguments)
    if unknown := set(arguments.names) - set(runs):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    chosen = {name: one for name, one in runs.items() if not arguments.names or name in arguments.names}
    for name, (_, run) in () if arguments.table or arguments.write else chosen.items():
        if arguments.again or run.read()["result"] == "not run":
            found = run.carry_out()
            print(f"{name}: {found['result']} {found['reason']}", file=sys.stderr, flush=True)
    table = write_table(chosen)
    print(table, end="")
    if arguments.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        DOCUMENT.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return int(any(run.read()["result"] in ("wrong", "crashed") for _, run in chosen.values()))


if __name__ == "__main__":
    sys.exit(main())
