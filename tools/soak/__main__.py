"""The soak: processes that do everything at once, in random order, and end in every way; nothing may be left behind.

    python tools/soak --seconds 1200 [--steps 10000] [--seed N] [--places virtual mps cpu] [--plant LEAK]

In each place one process stays for the whole time and takes its own measure after warming up and at the end, and one
trains for so many steps and measures itself after a tenth of them and at the end. Beside them others live briefly and
end at random: by themselves, by an error, ``os._exit``, SIGTERM, SIGKILL, their own or ours.
It prints its seed, and a table; its exit status is 1 if anything was left, hung, or ended otherwise than it meant to.
``--plant`` has the processes that stay leak something, to see that it is found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import process as soaking  # noqa: E402

#: The libraries that a place loads.
NATIVE = {"virtual": ("cuda",), "mps": ("mps", "calls")}
#: By how much figures may differ between the warmed-up process and its end.
BOUNDS: dict[str, float] = {"resident MiB": 48}
#: Seconds that a step of training takes at most, on a machine that does a dozen things at once.
STEP_S = 0.2
#: A process that is told to end has so many seconds; one that works, those of its longest action.
PATIENCE = soaking.LIMIT + 30
#: What our processes may leave in the system's shared memory has their process id in its name.
SHARED_MEMORY = Path("/dev/shm")


class Soak:
    """A soak test run."""

    def __init__(self, seconds: float, steps: int, seed: int, places: list[str], plant: str) -> None:
        self.seconds, self.steps, self.places, self.plant = seconds, steps, places, plant
        self.dice = random.Random(seed)
        self.failures: list[str] = []
        self.endings: dict[str, dict[str, int]] = {place: {} for place in places}
        self.processes: set[int] = set()

    def run(self, folder: Path) -> list[dict[str, Any]]:
        """Let them all work in a folder; the figures of those that stay."""
        self.folder, self.cache = folder, folder / "cache"
        self._copy_cache()
        cached = _listing(self.cache)
        residents = [(place, *self._start(place, "resident", self.seconds)) for place in self.places if self.seconds]
        trainers = [
            (f"{place}, training", *self._start(place, "trainer", self.steps)) for place in self.places if self.steps
        ]
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and not self.failures:
            self._mortal(self.dice.choice(self.places))
        rows = []
        for place, child, work in [*residents, *trainers]:
            left = max(0.0, end - time.monotonic()) + (STEP_S * self.steps if "training" in place else 0)
            status, out, err = self._finish(child, work, left + PATIENCE)
            if status != 0:
                self.failures.append(f"{place}: the process that stays ended with {status}\n{err[-6000:]}")
                continue
            rows.append({"place": place, **json.loads(out.splitlines()[-1])})
            self._compare(rows[-1])
        if _listing(self.cache) != cached:
            self.failures.append(f"the cache has changed: {set(_listing(self.cache)) ^ set(cached)}")
        left = [path.name for path in SHARED_MEMORY.glob("torch_*") if int(path.name.split("_")[1]) in self.processes]
        if left:
            self.failures.append(f"shared memory was left: {left}")
        return rows

    def _copy_cache(self) -> None:
        """Libraries in a cache of their own: whoever else builds on this machine is none of our business."""
        from torchdevice_cuda.native import build

        self.cache.mkdir()
        for place in self.places:
            for kind in NATIVE.get(place, ()):
                library = Path(build.library(kind))
                shutil.copytree(library.parent, self.cache / library.parent.name)

    def _start(self, place: str, role: str, seconds: float) -> tuple[subprocess.Popen[bytes], Path]:
        work = Path(tempfile.mkdtemp(dir=self.folder))
        for name in ("tmp", "reports"):
            (work / name).mkdir()
        environment = {
            **os.environ,
            "TMPDIR": str(work / "tmp"),
            "SOAK_REPORTS": str(work / "reports"),
            "TORCHDEVICE_CACHE_DIR": str(self.cache),
            # torch's own cache, which it makes as soon as there is an optimizer, and keeps.
            "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH")])),
        }
        if place == "mps":
            environment["TORCHDEVICE_EMULATE_MPS"] = "1"
        words = [place, role, str(self.dice.randrange(1 << 30)), str(seconds), self.plant if role != "mortal" else ""]
        with open(work / "out", "wb") as out, open(work / "err", "wb") as err:
            child = subprocess.Popen(
                [sys.executable, str(HERE / "process.py"), *words],
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )
        self.processes.add(child.pid)
        return child, work

    def _finish(self, child: subprocess.Popen[bytes], work: Path, seconds: float) -> tuple[int, str, str]:
        """Wait for a process and return how it ended; the processes that it started must have ended, too."""
        try:
            child.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            self.failures.append(f"a process did not end in {seconds:.0f} s: {child.args}")
        time.sleep(0.05)  # an orphan of an ended process may still be on its way out
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, 0)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:  # workers see within seconds that their parent is gone
                os.killpg(child.pid, 0)
                time.sleep(0.2)
            if not self.plant:
                self.failures.append(f"processes outlive the one that started them: {child.args}")
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return child.returncode, (work / "out").read_text(errors="replace"), (work / "err").read_text(errors="replace")

    def _mortal(self, place: str) -> None:
        """Run a short-lived process, and kill it in some cases."""
        child, work = self._start(place, "mortal", 0)
        ours = self.dice.choice([None, None, None, signal.SIGTERM, signal.SIGKILL])
        if ours is not None:
            time.sleep(self.dice.random() * 6)
            child.send_signal(ours)
        status, out, err = self._finish(child, work, PATIENCE)
        said = [json.loads(line)["ending"] for line in out.splitlines() if line.startswith("{")]
        meant = {soaking.ENDINGS[ending] for ending in said} | ({-ours} if ours is not None else set())
        if status not in meant:
            self.failures.append(f"{place}: {said} ended with {status}, ours: {ours}\n{err[-6000:]}")
        name = said[0] if said and ours is None else f"ours: {ours.name}" if ours is not None else "early"
        self.endings[place][name] = self.endings[place].get(name, 0) + 1
        orderly = status in (0, 1, 3)
        left = os.listdir(work / "tmp")
        if orderly and left:
            self.failures.append(f"{place}: {said} left temporary files: {left}")
        reports = os.listdir(work / "reports")
        if orderly and not any(report.startswith(f"mortal-{child.pid}.") for report in reports):
            self.failures.append(f"{place}: {said} left no report but {reports}\n{err[-2000:]}")
        if any(report.startswith(".") for report in reports) and status != -signal.SIGKILL:
            self.failures.append(f"{place}: {said} left half a report: {reports}")
        shutil.rmtree(work)

    def _compare(self, row: dict[str, Any]) -> None:
        is_host = row["place"].partition(",")[0] == "cpu"
        for name, before in row["warm"].items():
            after = row["end"][name]
            # The cpu driver's device memory is the resident memory of the process.
            bound = BOUNDS["resident MiB"] * (1 << 20) if is_host and name == "device bytes" else BOUNDS.get(name, 0)
            if after > before + bound:
                self.failures.append(f"{row['place']}: {name} went from {before} to {after}")


def _listing(folder: Path) -> list[str]:
    """Every file of a cache but locks, which stay by design."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix != ".lock")


def table(rows: list[dict[str, Any]], endings: dict[str, dict[str, int]]) -> str:
    """Return the figures, to be pasted into a page."""
    names = list(rows[0]["warm"]) if rows else []
    head = ["place", "rounds", "activations", "brief processes", *names]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        changes = [f"{row['warm'][name]:g} -> {row['end'][name]:g}" for name in names]
        brief = sum(endings[row["place"]].values()) if row["place"] in endings else 0
        lines.append([row["place"], row["rounds"], row["cycles"], brief, *changes])
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def main() -> int:
    from actions import PLANTS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--places", nargs="+", choices=[*soaking.PLACES], default=[*soaking.PLACES])
    parser.add_argument("--plant", choices=[*PLANTS], default="")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    print(f"seed {seed}, {options.seconds:g} s in {', '.join(options.places)}", flush=True)
    soak = Soak(options.seconds, options.steps, seed, options.places, options.plant)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        rows = soak.run(Path(folder))
    print(table(rows, soak.endings))
    print("brief processes:", json.dumps(soak.endings))
    for failure in soak.failures:
        print("FAILED:", failure)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
