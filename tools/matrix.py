"""Run what depends on torch's version on several of its releases, one after the other, and print one table.

    python tools/matrix.py                                       # VERSIONS, but for what was done at this commit
    python tools/matrix.py --versions 2.15.0 --checks surface compile
    python tools/matrix.py --python python3.13 --versions 2.13.0 # another interpreter, which has a row of its own
    python tools/matrix.py --here --checks smoke                 # the torch of this interpreter: nothing is installed
    python tools/matrix.py --table                               # what the results say; nothing is run

Each version gets an environment of its own with the tests' requirements, in which the checks run on this checkout, and
which is removed afterwards. Results are written as they come, so that a run that was ended goes on where it was. pip
decides which build of a version it is (its own settings, such as ``PIP_EXTRA_INDEX_URL``, can name another index); the
table says which it was. Exits 1 if a check fails that is not in ``KNOWN``, or one passes that is.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from torchdevice_cuda import _compat  # noqa: E402

OLDEST, NEWEST = (f"{major}.{minor}.0" for major, minor in (_compat.MINIMUM, _compat.NEWEST_KNOWN))
VERSIONS = (OLDEST, "2.8.0", "2.10.0", "2.13.0", "2.14.1", NEWEST)
#: What a CUDA build, its libraries and their downloads take while they are installed.
SPACE = 12 * 2**30
INSTALLING = 1800
DRIVERS: dict[str, dict[str, str]] = {"virtual": {}, "mps": {"TORCHDEVICE_EMULATE_MPS": "1"}, "cpu": {}}
#: What of the caller's environment would change what is checked.
SETTINGS = ("TORCHDEVICE_", "TORCH_ALLOW_REDIRECTS", "CUDA_VISIBLE_DEVICES", "PYTHON")

#: What tells which torch an interpreter has.
TORCH = "__import__('torch').__version__"

Results = dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Step:
    """A command line of the interpreter, and what the environment has for it."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Check:
    """Steps that have to succeed within a time, and the figures of their output that the table shows."""

    seconds: int
    steps: tuple[Step, ...]
    figure: str = r"(\d+) passed"
    #: It never succeeds as a whole: no figure may be below that of another version.
    compared: bool = False


def on_drivers(*arguments: str, drivers: Iterable[str] = DRIVERS) -> tuple[Step, ...]:
    """Return a program of ours, or an option, on each driver."""
    given = {driver: ("-m", "torchdevice_cuda", "--driver", driver, *arguments) for driver in drivers}
    return tuple(Step(line, DRIVERS[driver]) for driver, line in given.items())


def tests(marks: str, *chosen: str) -> Step:
    """Tests of ours with those marks, the slow ones among them too."""
    return Step(("-m", "pytest", "-m", marks, *chosen))


def probes(*drivers: str) -> Check:
    """Compare the answers of drivers to our probes with an H200's."""
    steps = tuple(Step(("tools/record", "compare", "oracle", "--driver", driver)) for driver in drivers)
    return Check(1200, steps, r"(\d+) of \d+ \([\d.]+%\) facts as on", compared=True)


#: What needs the emulated Apple GPU is apart: the emulation is ours alone, and has limits of its own.
CHECKS: dict[str, Check] = {
    "build": Check(900, on_drivers("--build", drivers=("virtual", "mps")), figure=r"(?!)"),  # none
    "surface": Check(
        300,
        tuple(Step(("tools/gap.py", "--installed", "--driver", driver)) for driver in ("virtual", "cpu")),
        r"(\d+ missing, \d+ different)",
    ),
    "facts": Check(300, (tests("not mps", "tests/test_facts.py"),)),
    "smoke": Check(
        900,
        (
            *on_drivers("examples/hello_cuda.py", drivers=("virtual", "cpu")),
            tests(
                "not slow",
                "tests/test_programs.py",
                "tests/drivers/test_virtual.py::test_training_agrees_with_the_cpu",
                "tests/drivers/test_virtual.py::test_layers_and_fused_optimizers",
            ),
        ),
    ),
    "compile": Check(
        900,
        (
            tests(
                "not mps",
                "tests/translate/test_triton.py::test_code_for_the_host_compiles[cpu]",
                "tests/translate/test_triton.py::test_code_for_the_host_compiles[virtual after dynamo]",
                "tests/test_programs.py::test_compile_with_inductor[cpu after]",
                "tests/drivers/test_virtual.py::test_compile_really_compiles",
            ),
        ),
    ),
    "mps": Check(
        900,
        (
            *on_drivers("examples/hello_cuda.py", drivers=("mps",)),
            tests(
                "mps",
                "tests/test_facts.py",
                "tests/mps/test_everyday.py",
                "tests/mps/test_wide.py",
                "tests/mps/test_native_kernels.py::test_compiled_by_inductor",
            ),
        ),
    ),
    "oracle": probes("virtual", "cpu"),
    "oracle mps": probes("mps"),
}
#: How many of the recorded facts a release answers in its own way: they ask for names that came later
#: (``AcceleratorError``, ``torch.accelerator``'s memory, streams as contexts), or for words that it has changed.
OTHERWISE = {"2.6": 16, "2.7": 12, "2.8": 2, "2.14": 2, "2.15": 2}
#: (version or its beginning, check) of what fails, and why.
KNOWN: dict[tuple[str, str], str] = {}


class Failed(Exception):
    """A failed command or environment."""


# ---------------------------------------------------------------------- commands
def command(line: Sequence[str], environment: Mapping[str, str], log: IO[bytes], seconds: float) -> int:
    """Its exit status. Past its time it is ended, with what it started."""
    log.write(f"$ {' '.join(line)}\n".encode())
    log.flush()
    process = subprocess.Popen(
        line, cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"still running after {seconds:.0f} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def reason(text: str) -> str:
    """Return the lines of a log that say what is wrong: those of pytest and pip, an exception's, or else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"(FAILED|ERROR)\b", line)]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    return "; ".join(told[:4] or raised[-1:] or lines[-1:])


def commit() -> str:
    """Return the commit that is checked out, and what else makes its files differ from it."""
    head, changed = (
        subprocess.run(["git", *line], cwd=ROOT, check=True, capture_output=True).stdout
        for line in (("rev-parse", "--short=10", "HEAD"), ("diff", "HEAD"))
    )
    return head.decode().strip() + (f"+{hashlib.sha256(changed).hexdigest()[:8]}" if changed else "")


def of_interpreter(python: str, expression: str) -> str:
    """Return the value of an expression there, as text."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    done = subprocess.run(
        [python, "-c", f"import platform; print({expression})"], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise Failed(reason(done.stderr))
    return done.stdout.strip()


# ------------------------------------------------------------------ environments
@dataclasses.dataclass(frozen=True)
class Place:
    """An interpreter with a torch, and the environment that its checks run in."""

    python: str
    environment: Mapping[str, str]

    @classmethod
    def of(cls, python: str, folder: Path | None) -> Place:
        """With what is compiled kept in a folder, to be removed with it; or where it always is."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        own = {} if folder is None else {
            "PATH": f"{folder / 'bin'}{os.pathsep}{kept.get('PATH', os.defpath)}",
            "TORCHDEVICE_CACHE_DIR": str(folder / "native"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        }  # fmt: skip
        return cls(python, {**kept, **own, "PYTHONPATH": str(ROOT)})


def installed(version: str, python: str, folder: Path, log: Path) -> Place:
    """An environment in a folder with that torch. One that an earlier run left is completed."""
    free = shutil.disk_usage(folder.parent).free
    print(f"torch {version}: {free / 2**30:.0f} GiB are free, up to {SPACE / 2**30:.0f} are needed", flush=True)
    if free < SPACE:
        raise Failed(f"{free / 2**30:.1f} GiB free of the {SPACE / 2**30:.0f} that an environment may take")
    place = Place.of(str(folder / "bin" / "python"), folder)
    constraints = log.with_suffix(".constraints")
    pinned = (ROOT / "constraints.txt").read_text().splitlines(keepends=True)
    constraints.write_text("".join(line for line in pinned if not line.startswith("torch==")))
    lines = (
        (python, "-m", "venv", str(folder)),
        (place.python, "-m", "pip", "install", "-c", str(constraints), "-e", ".[test]", f"torch=={version}"),
    )
    with log.open("wb") as output:
        for line in lines:
            if command(line, place.environment, output, INSTALLING):
                raise Failed(reason(log.read_text(errors="replace")))
    return place


# ------------------------------------------------------------------------ running
def checked(check: Check, place: Place, log: Path) -> dict[str, Any]:
    """Run a check; return whether its steps succeeded, their figures, and how long they took."""
    began, why = time.monotonic(), ""
    with log.open("wb") as output:
        for step in check.steps:
            line = [place.python, *step.arguments]
            left = check.seconds - (time.monotonic() - began)
            try:
                status = command(line, {**place.environment, **step.environment}, output, left)
            except Failed as error:
                why = str(error)
                break
            if status and not check.compared:
                why = reason(log.read_text(errors="replace")) or f"exit status {status}"
                break
    printed = re.sub(r"^\$ .*", "", log.read_text(errors="replace"), flags=re.MULTILINE)
    figures = re.findall(check.figure, printed)
    if check.compared and not why and len(figures) != len(check.steps):
        why = f"{len(figures)} figures of {len(check.steps)}"
    return {"ok": not why, "why": why, "figures": figures, "seconds": round(time.monotonic() - began), "log": str(log)}


class Matrix:
    """The file of results, and the folder that it, the logs and the environments are in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "results.json"
        self.rows: Results = json.loads(self.file.read_text()) if self.file.exists() else {}

    def keep(self, row: str, **facts: Any) -> None:
        """Remember something of a row; what was measured is not lost with the process."""
        self.rows.setdefault(row, {"checks": {}}).update(facts)
        self._write()

    def keep_check(self, row: str, name: str, result: dict[str, Any]) -> None:
        """Store the result of one of its checks."""
        self.rows[row]["checks"][name] = result
        self._write()

    def _write(self) -> None:
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(self.rows, indent=1) + "\n")
        beside.replace(self.file)

    def done(self, row: str, name: str, now: str) -> bool:
        """Return whether a check has been run on these files."""
        result = self.rows.get(row, {}).get("checks", {}).get(name)
        return result is not None and result["commit"] == now

    def run(self, version: str | None, python: str, names: Sequence[str], options: argparse.Namespace) -> str:
        """The checks of a version that are not done, or of the torch that is there. The row's name."""
        now, number = commit(), of_interpreter(python, "platform.python_version()")
        built = "" if version else of_interpreter(python, TORCH)
        row = f"torch-{version}-py{number}" if version else f"torch-{built}-here-py{number}"
        wanted = [name for name in names if options.again or not self.done(row, name, now)]
        for name in sorted(set(names) - set(wanted)):
            print(f"{row} {name}: done already", flush=True)
        if not wanted:
            return row
        logs, environment = self.folder / "logs", self.folder / row
        logs.mkdir(parents=True, exist_ok=True)
        self.keep(row, python=number, torch=version or built, why="")
        try:
            place = Place.of(python, None)
            if version is not None:
                place = installed(version, python, environment, logs / f"{row}-install.log")
                self.keep(row, torch=of_interpreter(place.python, TORCH))
            for name in wanted:
                result = checked(CHECKS[name], place, logs / f"{row}-{name}.log")
                self.keep_check(row, name, {**result, "commit": now})
                print(f"{row} {name}: {result['why'] or 'ok'} ({result['seconds']} s)", flush=True)
        except Failed as error:
            self.keep(row, why=str(error))
        finally:
            if version is not None and not options.keep:
                shutil.rmtree(environment, ignore_errors=True)
        return row

    # -------------------------------------------------------------------- the table
    def verdict(self, row: str, name: str) -> tuple[str, str]:
        """``ok``, ``FAILED``, ``known``, ``PASSES`` (and is known to fail) or nothing, and why."""
        result = self.rows[row]["checks"].get(name)
        if result is None:
            return "", ""
        why: str = result["why"] or self._behind(row, name)
        known = next((text for (version, check), text in KNOWN.items()
                      if check == name and f"{self.rows[row]['torch']}.".startswith(f"{version}.")), None)  # fmt: skip
        if known is None:
            return ("FAILED", why) if why else ("ok", "")
        return ("known", known) if why else ("PASSES", f"no longer fails: {known}")

    def _behind(self, row: str, name: str) -> str:
        """Return the figure that is below that of another version by more than expected, if figures are compared."""
        if not CHECKS[name].compared:
            return ""
        spared = OTHERWISE.get(".".join(self.rows[row]["torch"].split(".")[:2]), 0)
        mine = self.rows[row]["checks"][name]["figures"]
        for other, facts in self.rows.items():
            theirs = facts["checks"].get(name, {"figures": ()})["figures"]
            for place, (here, there) in enumerate(zip(mine, theirs, strict=False)):
                if int(here) + spared < int(there):
                    return f"{here} in place {place + 1}, {there} in {other}"
        return ""

    def table(self, rows: Iterable[str], now: str) -> tuple[str, bool]:
        """Some rows as text, with what is wrong below them, and whether nothing is."""
        head = ["torch", "python", *CHECKS]
        lines, notes = [head, ["---"] * len(head)], []
        sound = True
        for row in rows:
            facts = self.rows[row]
            cells = [facts["torch"], facts["python"]]
            if facts["why"]:
                sound = False
                notes.append(f"{row}: not installed: {facts['why']}")
            for name in CHECKS:
                word, why = self.verdict(row, name)
                result = facts["checks"].get(name, {"figures": (), "commit": now})
                earlier = "" if result["commit"] == now else "*"
                cells.append(" ".join([word + earlier, *dict.fromkeys(result["figures"])]).strip())
                if why:
                    sound = sound and word == "known"
                    notes.append(f"{row} {name}: {word}: {why} ({result['log']})")
                if earlier:
                    notes.append(f"* {row} {name} was run at {result['commit']}")
            lines.append(cells)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        drawn = ("| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines)
        return "\n".join([*drawn, "", *notes]).rstrip(), sound


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", nargs="+", default=VERSIONS, help=f"of torch ({' '.join(VERSIONS)})")
    parser.add_argument("--checks", nargs="+", choices=CHECKS, default=list(CHECKS), help="all of them")
    parser.add_argument("--here", action="store_true", help="the torch of the interpreter; no environment is made")
    parser.add_argument("--python", default=sys.executable, help="the interpreter (the one that runs this)")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "matrix", help="for all that is written")
    parser.add_argument("--again", action="store_true", help="run what is done, too")
    parser.add_argument("--keep", action="store_true", help="do not remove the environments")
    parser.add_argument("--table", action="store_true", help="print the table; run nothing")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    matrix = Matrix(options.folder.resolve())
    rows = list(matrix.rows)
    if not options.table:
        python = shutil.which(options.python)
        if python is None:
            parser.error(f"there is no {options.python}")
        wanted = [None] if options.here else options.versions
        try:
            rows = [matrix.run(version, python, options.checks, options) for version in wanted]
        except Failed as error:
            parser.error(f"{options.python} cannot be used: {error}")
    text, sound = matrix.table(rows, commit())
    print(text)
    return 0 if sound else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it has started ends with it
    sys.exit(main())
