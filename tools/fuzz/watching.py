"""The process that starts those which compute: it knows which program each is at, whatever becomes of it."""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from stock import REASON, ask_stock, has_the_same

HERE = Path(__file__).resolve().parent
#: Seconds that one program may take on a busy machine; past them it hangs.
PATIENCE = {"operators": 180, "programs": 180, "compiled": 900}
ASSERTED = "a program that was being written failed a kernel's assertion, which ends the use of a GPU"
#: A process that died as often as this will die again.
DEATHS = 20


class Job:
    """A sequence of worker processes; if one dies or hangs, the next one continues after that program."""

    def __init__(self, options: argparse.Namespace, number: int, folder: Path, until: float) -> None:
        self._options, self._number, self._folder, self._until = options, number, folder, until
        self._patience = PATIENCE[options.what]
        self.findings: list[dict[str, Any]] = []
        self.totals: collections.Counter[str] = collections.Counter()
        self.explained: collections.Counter[str] = collections.Counter()
        self.ops: collections.Counter[str] = collections.Counter()
        self.parts: list[Path] = []

    def work(self) -> None:
        """Work until the time is up or everything is done."""
        first = self._number if self._options.only is None else self._options.only
        for turn in range(DEATHS):
            at = self._run(first, turn)
            if at is None:
                return
            if _fails_an_assertion(at[1]):
                self.explained[ASSERTED] += 1
            else:
                self.findings.append(
                    {"seed": f"{self._options.seed}/{at[0]}", "op": "", "difference": at[1], "program": ""}
                )
            first = at[0] + self._options.jobs

    def _run(self, first: int, turn: int) -> tuple[int, str] | None:
        """Run one process; the program at which it died, and how."""
        options = self._options
        now = self._folder / f"now-{self._number}-{turn}"
        last = first + 1 if options.only is not None else 1 << 60
        if options.programs is not None:
            last = min(last, options.programs)
        given = {**vars(options), "first": first, "last": last, "stride": options.jobs, "now": str(now)}
        given["pair"] = name_pair(options)
        given["seconds"] = max(1.0, self._until - time.monotonic())
        if options.record is not None:
            self.parts.append(self._folder / f"part-{self._number}-{turn}")
            given["record"] = str(self.parts[-1])
        for name in ("compare", "findings"):
            given[name] = str(given[name]) if given[name] else None
        command = [sys.executable]
        environment = dict(os.environ)
        if options.driver != "stock":
            command += ["-m", "torchdevice_cuda", "--driver", options.driver, "--policy", "faithful"]
            environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), environment.get("PYTHONPATH", "")])
        if options.driver == "mps":
            environment["TORCHDEVICE_EMULATE_MPS"] = "1"
        if options.what == "compiled":
            environment["TORCHINDUCTOR_CACHE_DIR"] = str(self._folder / "compiled")
            environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        command += [str(HERE / "worker.py"), json.dumps(given)]
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
            hung = threading.Event()
            watcher = threading.Thread(target=_end_if_it_hangs, args=(process, now, hung, self._patience), daemon=True)
            watcher.start()
            assert process.stdout is not None
            counts: dict[str, Any] = {}
            for line in process.stdout:
                if line.startswith("{"):
                    said = json.loads(line)
                    counts = said.get("counts", counts)
                    if "finding" in said:
                        self._judge(said["finding"])
            status = process.wait()
            self._add(counts)
            if status == 0:
                return None
            errors.seek(0)
            text = errors.read()[-3000:]
        program = int(now.read_text() or first) if now.exists() else first
        how = f"hung for {self._patience} s" if hung.is_set() else f"died with status {status}"
        return program, f"the process {how}\n{text}"

    def _judge(self, finding: dict[str, Any]) -> None:
        """Report what was found, unless stock's compiler has the same fault."""
        again = finding.pop("again", None)
        if again is not None and self._options.driver != "stock":
            stocks = ask_stock(again, self._folder, self._options.plant)
            if has_the_same(again["found"], stocks):
                self.explained[REASON] += 1
                return
            finding["stock"] = [f"{one['field']} of {one['name']}: {one['detail'][:300]}" for one in stocks]
        self.findings.append(finding)
        print_finding(finding)

    def _add(self, counts: dict[str, Any]) -> None:
        self.explained.update(counts.pop("explained", {}))
        self.ops.update(counts.pop("ops", {}))
        self.totals.update(counts)


def _fails_an_assertion(text: str) -> bool:
    """Tell whether a process died because a program that was not compiled yet gave a kernel wrong elements."""
    return "in write_group" in text and "device-side assert triggered" in text


def _end_if_it_hangs(process: subprocess.Popen[str], now: Path, hung: threading.Event, patience: float) -> None:
    started = time.monotonic()
    while process.poll() is None:
        time.sleep(0.5)
        try:
            idle = time.time() - now.stat().st_mtime
        except FileNotFoundError:
            idle = time.monotonic() - started
        if idle > patience:
            hung.set()
            process.kill()
            return


def name_pair(options: argparse.Namespace) -> str:
    """Name the reference and the device as rows of explained differences do."""
    device = "host" if options.device == "cpu" else "cuda" if options.driver == "stock" else options.driver
    if options.what == "compiled":
        return f"eager:{device}"
    return f"{'cuda' if options.compare else options.against}:{device}"


def print_finding(finding: dict[str, Any]) -> None:
    """Print what was found."""
    once = "" if finding.get("is steady", True) else " (not when it was tried again)"
    print(f"FOUND {finding['seed']} {finding['op']}: {finding['difference']}{once}\n{finding['program']}", flush=True)
    if "stock" in finding:
        print(f"on stock's CPU: {'; '.join(finding['stock']) or 'no difference'}", flush=True)


def watch(options: argparse.Namespace) -> int:
    """Run the jobs; print what they found and did."""
    unlimited = options.programs is not None or options.only is not None or options.compare is not None
    until = time.monotonic() + (options.seconds or (1e9 if unlimited else 60))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        jobs = [Job(options, number, Path(folder), until) for number in range(options.jobs)]
        threads = [threading.Thread(target=job.work) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if options.record is not None:
            from recording import join

            join([part for job in jobs for part in job.parts if part.exists()], options.record)
    findings = [finding for job in jobs for finding in job.findings]
    for finding in findings:
        if not finding["program"]:
            print_finding(finding)
    totals: collections.Counter[str] = collections.Counter()
    explained: collections.Counter[str] = collections.Counter()
    ops: collections.Counter[str] = collections.Counter()
    for job in jobs:
        totals.update(job.totals)
        explained.update(job.explained)
        ops.update(job.ops)
    for reason, count in explained.most_common():
        print(f"explained {count}: {reason}")
    if options.findings is not None:
        options.findings.mkdir(parents=True, exist_ok=True)
        (options.findings / "findings.json").write_text(json.dumps(findings, indent=1))
    parts = [
        f"{totals['programs']} programs",
        f"{totals['operators']} calls of {len(ops)} operators",
        f"{totals['differentiated']} programs with gradients",
        f"{totals['refused']} calls refused by both",
        *([f"{totals['graphs']} graphs compiled"] if options.what == "compiled" else []),
        f"{sum(explained.values())} differences explained",
        f"{len(findings)} found",
    ]
    print(f"{options.what} on {options.driver}, seed {options.seed}: {', '.join(parts)}")
    if not totals["programs"]:
        print("no program was executed", file=sys.stderr)
    return int(bool(findings) or not totals["programs"])
