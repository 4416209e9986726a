"""Record the lines and branches that the tests run, in every process that they start, by test file.

Coverage begins wherever ``COVERAGE_PROCESS_START`` names a configuration: in new processes by the ``.pth`` file that it
installs, in forks because ``forking.py`` has it begin. Each file of tests is the context of what it ran.

Not recorded is what a process ran that was killed. SIGTERM kills, too: a handler of coverage's would be the program's
own, which the package leaves alone. Nor is what runs in environments that tests make.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from forking import Finished, Server

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "torchdevice_cuda"
FOLDER = ROOT / "build" / "tested"
DURATIONS = FOLDER / "durations.json"
#: Tests of things that are no part of the package: they start nothing of it, or only in environments of their own.
OTHERS = ("tests/mac_wheel", "tests/distributions", "tests/test_site.py", "tests/test_upstream.py", "tests/harness")

CONFIGURATION = """\
[run]
branch = true
parallel = true
source = {package}
data_file = {folder}/data
context = ${{COVERED_BY-}}
concurrency = multiprocessing,thread
# Programs that end at once, and forks that go on, are programs of users, too.
patch = _exit,execv,fork
disable_warnings = no-data-collected,module-not-measured,no-ctracer,couldnt-parse

[report]
# What only a checker of types reads, and what a protocol has for it alone.
exclude_also =
    if TYPE_CHECKING:
    ^\\s*\\.\\.\\.$
    @overload
precision = 1
skip_empty = true
"""


def files(paths: Iterable[str]) -> list[str]:
    """Return the files of tests below some paths, as the repository names them."""
    found: list[Path] = []
    for path in paths:
        whole = ROOT / path
        found += [whole] if whole.is_file() else sorted(whole.rglob("test_*.py"))
    names = [str(each.relative_to(ROOT)) for each in found]
    return [name for name in dict.fromkeys(names) if not name.startswith(OTHERS)]


def configure() -> Path:
    """Write the configuration; a path in it is absolute, since programs run in any folder."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    configuration = FOLDER / "coveragerc"
    configuration.write_text(CONFIGURATION.format(package=PACKAGE, folder=FOLDER), "utf-8")
    return configuration


def durations() -> dict[str, float]:
    """Return the duration of each recorded test file."""
    return json.loads(DURATIONS.read_text("utf-8")) if DURATIONS.exists() else {}


def record(names: Iterable[str], jobs: int) -> Iterator[tuple[str, Finished]]:
    """Run files of tests, each by a pytest of its own, and tell how they ended as they do."""
    configuration = str(configure())
    with Server(ROOT) as server, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {
            pool.submit(server.pytest, [name], {"COVERAGE_PROCESS_START": configuration, "COVERED_BY": name}): name
            for name in names
        }
        for one in concurrent.futures.as_completed(running):
            name, done = running[one], one.result()
            (FOLDER / (name.replace("/", "+") + ".log")).write_text(done.said, "utf-8")
            DURATIONS.write_text(json.dumps({**durations(), name: round(done.seconds, 1)}, indent=1), "utf-8")
            yield name, done


def coverage(*arguments: str) -> str:
    """Run a command of coverage and return its output."""
    command = [sys.executable, "-m", "coverage", *arguments, f"--rcfile={configure()}"]
    environment = {key: value for key, value in os.environ.items() if key != "COVERAGE_PROCESS_START"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"coverage {arguments[0]} failed with status {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def combine() -> None:
    """Make one record of those of all processes, and add it to what there is."""
    if any(FOLDER.glob("data.*")):
        coverage("combine", "--append", "--quiet")


def figures(places: Iterable[str], missing: bool) -> str:
    """Return the table of what was run, of some of the package or of all."""
    shown = ["report", *(["--show-missing"] if missing else [])]
    named = [f"{PACKAGE / place}{'' if place.endswith('.py') else '/*'}" for place in places]
    return coverage(*shown, *([f"--include={','.join(named)}"] if named else []))
