"""Run PyTorch's own tests under a driver, test by test, and compare what becomes of them with what is expected.

    python tools/upstream.py --source PYTORCH_CHECKOUT                      # every file of which something is expected
    python tools/upstream.py --source PYTORCH_CHECKOUT test_cuda.py -k graph --driver virtual
    python tools/upstream.py --source PYTORCH_CHECKOUT test_torch.py --sample 200 --seed 1 --also names.txt
    python tools/upstream.py --source PYTORCH_CHECKOUT test_cuda.py --resume # what an earlier run did not come to
    python tools/upstream.py --source PYTORCH_CHECKOUT test_cuda.py --again  # what did not pass in an earlier run
    python tools/upstream.py --source PYTORCH_CHECKOUT --table               # what the results say; nothing is run

The tests are those of the checkout, best of the release that is installed; none is kept here. ``tests/upstream`` says
what is expected of a file: which tests do not pass under which driver, what they do instead, and why. A test that no
line names is to pass, or to be skipped by its own words. Exits 1 if anything is otherwise, a test that passes against
what is expected too, and a line that no test answers to in a run of the whole file.

A process runs one test after the other and writes down what becomes of each. Where it dies, or a test takes too long,
that test is said to have crashed, or to hang, and another process goes on behind it. What fails is tried once more in a
process of its own: what the tests before it left behind is not its fault.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import fnmatch
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings to 3.10

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[1]
EXPECTED = ROOT / "tests" / "upstream"
#: Memory that does not depend on the machine; two halves of it do not fit, as on a GPU, where a context takes some.
_MEMORY = {"TORCHDEVICE_MEMORY": "8194MiB"}
DRIVERS: dict[str, dict[str, str]] = {"virtual": _MEMORY, "mps": {"TORCHDEVICE_EMULATE_MPS": "1"}, "cpu": _MEMORY}
#: What can become of a test. The last two are said by who waits for the process, the others by pytest.
OUTCOMES = ("passed", "skipped", "failed", "crashed", "hangs")
#: What no line has to name.
ORDINARY = ("passed", "skipped")
#: The variable that names the file in which the process writes down what becomes of its tests.
RECORD = "UPSTREAM_RECORD"
STARTING = 120  # seconds: a file of tests may make thousands of them when it is imported
LONGEST_WORDS = 300
#: The head of what --table prints, for docs/compatibility.md.
HEAD = "| file | tests in it | run | passed | skipped | otherwise | of those run |"


# ------------------------------------------------------------ inside the process
class Recorder:
    """A plugin of pytest: a line when a test begins, another when it is over, each in the file at once."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._verdict, self._words = "passed", ""

    def _write(self, **line: object) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """The tests there are."""
        self._write(event="collected", tests=[item.nodeid for item in session.items])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a test begins."""
        self._verdict, self._words = "passed", ""
        self._write(event="began", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A part of it is over: making it ready, the test, one of its subtests, clearing away."""
        expected_to_fail = hasattr(report, "wasxfail")
        if report.failed and self._verdict != "failed":
            self._verdict, self._words = "failed", _words_of(report)
        elif report.skipped and self._verdict == "passed" and not expected_to_fail:
            self._verdict, self._words = "skipped", _words_of(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """All of it is."""
        self._write(event="over", test=nodeid, outcome=self._verdict, words=self._words)


def _words_of(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")[:LONGEST_WORDS]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return next((line for line in text.splitlines() if line.strip()), "")[:LONGEST_WORDS]


def pytest_configure(config: pytest.Config) -> None:
    """Pytest has loaded this file as a plugin."""
    if path := os.environ.get(RECORD):
        config.pluginmanager.register(Recorder(path))


# -------------------------------------------------------------------- around it
#: Ended with this one, however it ends.
_running: set[subprocess.Popen[bytes]] = set()


@dataclasses.dataclass
class Run:
    """A file of tests under a driver, in one process after the other."""

    source: Path
    suite: str
    driver: str
    limit: float  # seconds for one test

    def _begin(self, arguments: Sequence[str], record: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            **DRIVERS[self.driver],
            RECORD: str(record),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "tools"), os.environ.get("PYTHONPATH")])),
        }
        line = [sys.executable, "-m", "torchdevice_cuda", "--driver", self.driver, "-m", "pytest", "-q", "--tb=short"]
        line += ["-p", "upstream", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", *arguments]
        process = subprocess.Popen(
            line, cwd=self.source / "test", env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        _running.add(process)
        return process

    def tests(self, words: str | None) -> list[str]:
        """Return the tests of the file; those that pytest's ``-k`` leaves of them."""
        with tempfile.TemporaryDirectory() as folder:
            record, log = Path(folder, "record"), Path(folder, "log")
            with log.open("wb") as output:
                chosen = ["-k", words] if words else []
                process = self._begin(["--collect-only", self.suite, *chosen], record, output)
                try:
                    process.wait(STARTING)
                finally:
                    _end(process)
            for line in _lines(record):
                return list(line["tests"])
            raise SystemExit(f"{self.suite} cannot be read:\n{log.read_text(errors='replace')[-2000:]}")

    def results(self, tests: Sequence[str], log: IO[bytes]) -> Iterator[dict[str, Any]]:
        """Run the tests and yield each outcome."""
        left = collections.deque(tests)
        while left:
            before = len(left)
            with tempfile.TemporaryDirectory() as folder:
                record, names = Path(folder, "record"), Path(folder, "tests")
                record.touch()
                names.write_text("\n".join(left))
                process = self._begin([f"@{names}"], record, log)
                try:
                    for result in self._watched(process, record):
                        left.remove(result["test"])
                        yield result
                finally:
                    _end(process)
            if len(left) == before:  # it did not come as far as a test
                yield {"test": left.popleft(), "outcome": "crashed", "words": f"exit status {process.returncode}"}

    def _watched(self, process: subprocess.Popen[bytes], record: Path) -> Iterator[dict[str, Any]]:
        read, underway, since = 0, None, time.monotonic()
        while True:
            ended = process.poll() is not None
            lines = list(_lines(record))
            for line in lines[read:]:
                since = time.monotonic()
                underway = line["test"] if line["event"] == "began" else None
                if line["event"] == "over":
                    yield {name: line[name] for name in ("test", "outcome", "words")}
            read = len(lines)
            if ended:
                if underway:
                    yield {"test": underway, "outcome": "crashed", "words": _status(process.returncode)}
                return
            if time.monotonic() - since > (self.limit if underway else STARTING):
                if underway:
                    yield {"test": underway, "outcome": "hangs", "words": f"after {self.limit:.0f} s"}
                return
            time.sleep(0.1)


def _status(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _running.discard(process)


def _lines(record: Path) -> Iterator[dict[str, Any]]:
    """Return the written lines: a process that is ended may leave half a line."""
    for line in record.read_text().splitlines(keepends=True) if record.exists() else ():
        if line.endswith("\n"):
            yield json.loads(line)


def _latest(results: Path) -> list[dict[str, Any]]:
    """Return the last outcome of each test."""
    return list({line["test"]: line for line in _lines(results)}.values())


# --------------------------------------------------------------- what is expected
@dataclasses.dataclass
class Line:
    """Tests of a file that do something else than pass under some drivers, and why."""

    tests: list[str]
    drivers: list[str]
    outcome: str
    reason: str
    used: bool = False

    def names(self, test: str, driver: str) -> bool:
        """Return whether it names a test."""
        return driver in self.drivers and any(fnmatch.fnmatchcase(test, pattern) for pattern in self.tests)


@dataclasses.dataclass
class Expectations:
    """The expectations of ``tests/upstream`` for a file."""

    lines: list[Line]
    least: Mapping[str, int]  # how many pass, by driver

    @classmethod
    def read(cls, path: Path) -> Expectations:
        """From its file; one that is not there expects every test to pass."""
        found = tomllib.loads(path.read_text()) if path.exists() else {}
        lines = [Line(**entry) for entry in found.pop("expected", ())]
        least = found.pop("least", {})
        for line in lines:
            for what, value, allowed in (("outcome", [line.outcome], OUTCOMES), ("drivers", line.drivers, DRIVERS)):
                if wrong := [name for name in value if name not in allowed]:
                    raise SystemExit(f"{path}: {what} {wrong[0]!r} is none of {', '.join(allowed)}")
        if found:
            raise SystemExit(f"{path}: nobody knows {', '.join(found)}")
        return cls(lines, least)

    def complaints(self, results: Iterable[Mapping[str, Any]], driver: str, *, whole: bool) -> Iterator[str]:
        """List the results that differ from the expectations, one line each."""
        passed = 0
        for result in results:
            test, outcome = result["test"].partition("::")[2], result["outcome"]
            passed += outcome == "passed"
            line = next((line for line in self.lines if line.names(test, driver)), None)
            if line is None:
                if outcome not in ORDINARY:
                    yield f"{test} {outcome}: {result['words']}"
                continue
            line.used = True
            if outcome != line.outcome:
                yield f"{test} {outcome}, expected: {line.outcome} ({line.reason}) {result['words']}".rstrip()
        if whole:
            for line in self.lines:
                if driver in line.drivers and not line.used:
                    yield f"no test answers to {', '.join(line.tests)} ({line.reason})"
            if passed < self.least.get(driver, 0):
                yield f"{passed} passed, at least {self.least[driver]} are expected"


# --------------------------------------------------------------------- the command
def _run(run: Run, tests: Sequence[str], results: Path, jobs: int, *, once: bool) -> None:
    """All of them, in some processes at a time, each result written as it comes."""
    lock, shares = threading.Lock(), [tests[i::jobs] for i in range(jobs)]
    done = 0

    def work(share: Sequence[str], log: Path) -> None:
        nonlocal done
        with log.open("ab") as output:
            for result in run.results(share, output):
                with lock, results.open("a") as file:
                    done += 1
                    file.write(json.dumps(result) + "\n")
                    if result["outcome"] not in ORDINARY:
                        print(f"{done}/{len(tests)} {result['test']}: {result['outcome']}", flush=True)

    def alone() -> None:
        """Run failed tests alone, since others may have caused the failure: the result alone counts."""
        failed = [line["test"] for line in _latest(results) if line["outcome"] == "failed" and line["test"] in tests]
        with results.with_suffix(".alone.log").open("ab") as output, results.open("a") as file:
            for result in itertools.chain.from_iterable(run.results([test], output) for test in failed):
                file.write(json.dumps(result) + "\n")
                file.flush()

    threads = [
        threading.Thread(target=work, args=(share, results.with_suffix(f".{i}.log")), daemon=True)
        for i, share in enumerate(shares)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(tests) > 1 and not once:
            alone()
    finally:
        for process in list(_running):
            _end(process)


def _chosen(run: Run, options: argparse.Namespace, results: Path) -> list[str]:
    """Return the tests to run now. What there are, and how they were chosen, is written down beside the results."""
    if options.again:
        return [line["test"] for line in _latest(results) if line["outcome"] not in ORDINARY]
    tests = run.tests(options.words)
    there, part = len(tests), [f"-k {options.words}"] if options.words else []
    if options.sample is not None and options.sample < there:
        kept = set(random.Random(options.seed).sample(tests, options.sample))
        part += [f"{options.sample} by seed {options.seed}"] if kept else []
        if options.also:
            kept.update(options.also.read_text().splitlines())
            part.append("some by name")
        tests = [test for test in tests if test in kept]
    if not options.resume:
        results.unlink(missing_ok=True)
    results.with_suffix(".json").write_text(json.dumps({"there": there, "part": ", ".join(part)}))
    done = {line["test"] for line in _lines(results)}
    return [test for test in tests if test not in done]


def _row(suite: str, found: Sequence[Mapping[str, Any]], how: Mapping[str, Any]) -> str:
    """Return a line of the published table. The ratio is of what ran: a test that skips itself says nothing of us."""
    counts = collections.Counter(line["outcome"] for line in found)
    passed, skipped, part = counts["passed"], counts["skipped"], how["part"] or "all"
    ran = len(found) - skipped
    ratio = f"{100 * passed / ran:.1f}%" if ran else "-"
    return f"| {suite} | {how['there']} | {part} | {passed} | {skipped} | {ran - passed} | {ratio} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", help="files below test/ of the checkout (those in tests/upstream)")
    parser.add_argument("--source", type=Path, required=True, help="a checkout of PyTorch")
    parser.add_argument("--driver", choices=DRIVERS, default="virtual")
    parser.add_argument("-k", dest="words", help="tests whose names have this, as pytest's")
    parser.add_argument("--sample", type=int, help="so many of the tests, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--also", type=Path, help="a file that names tests, one a line, which a sample has besides")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one test (180)")
    parser.add_argument("--once", action="store_true", help="what fails is not tried again by itself")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--resume", action="store_true", help="run what an earlier run did not come to")
    parser.add_argument("--again", action="store_true", help="run what did not pass in an earlier run, nothing else")
    parser.add_argument("--table", action="store_true", help="compare the results that are there; run nothing")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "upstream", help="for results and logs")
    options = parser.parse_args(arguments)
    rows, sound = [], True
    known = [str(path.relative_to(EXPECTED).with_suffix(".py")) for path in sorted(EXPECTED.rglob("*.toml"))]
    for suite in options.suites or known:
        if not (options.source / "test" / suite).is_file():
            parser.error(f"there is no {suite} in {options.source / 'test'}")
        run = Run(options.source.resolve(), suite, options.driver, options.limit)
        results = (options.folder / options.driver / suite).with_suffix(".jsonl").resolve()
        results.parent.mkdir(parents=True, exist_ok=True)
        if not options.table:
            _run(run, _chosen(run, options, results), results, options.jobs, once=options.once)
        if not results.with_suffix(".json").exists():
            parser.error(f"nothing was run of {suite} on {options.driver} in {options.folder}")
        found, how = _latest(results), json.loads(results.with_suffix(".json").read_text())
        expectations = Expectations.read((EXPECTED / suite).with_suffix(".toml"))
        wrong = list(expectations.complaints(found, options.driver, whole=not how["part"]))
        counts = collections.Counter(line["outcome"] for line in found)
        shown = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
        rows.append(_row(suite, found, how))
        sound = sound and not wrong
        print(f"{suite} on {options.driver}: {shown or 'no tests'}; {len(wrong)} otherwise than expected", flush=True)
        print("".join(f"  {complaint}\n" for complaint in wrong), end="", flush=True)
    if options.table:
        print("\n".join(["", HEAD, "|---" * HEAD.count("| ") + "|", *rows]))
    return 0 if sound else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what it has started ends with it
    sys.exit(main())
