"""Calls every callable, in child processes that may crash: on stock torch first, then the same call on a driver."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

from record.places import PLACES  # noqa: E402

Found = dict[str, dict[str, Any]]
CHUNK = 400
#: Seconds of the processor for a callable's calls; seconds after which a process that does nothing is taken to hang: in
#: a call, between two (something is imported), and before the first (a driver is built). How often a callable may end
#: its process.
EACH, PATIENCE, IMPORTS, STARTS, LIVES = 12, 15, 60, 900, 6
#: When the last process may begin, where there is little time.
ENDS = [float("inf")]
#: What cannot be called here, by pattern of the name's beginning, with the reason.
LEFT_OUT = {
    "torch.hub.": "fetches from the network",
    "torch.multiprocessing.spawn": "starts processes",
    "torch.multiprocessing.start_processes": "starts processes",
    "torch.distributed.launch": "starts processes",
    "torch.backends.mps": "of Apple GPUs, not CUDA",
    "torch.mps.": "of Apple GPUs, not CUDA",
    "torch.distributed.breakpoint": "waits for a terminal",
}
DRIVERS = dict(PLACES)
#: Errors that are a callable's answer, whatever it is called with: what is abstract, removed, or of another build.
ANSWERS = re.compile(
    r"^NotImplementedError: (?!Could not run|\"|The operator)|was removed|is now removed|No constructor defined|"
    r"cannot create '|abstract class|Cannot instantiate|Protocols cannot be|not compiled with|not linked with|"
    r"is deprecated and|has been removed|<device> Generator does not|no longer supported|does not support|"
    r"is deprecated, use|not yet implemented|should not be called|should never be called|is not intended to use|"
    r"Type alias is not callable|Any cannot be instantiated|HPU device module is not|Missing: valgrind|"
    r"Backend doesn't support"
)
#: Errors of an operator that a device does not have: an answer of the device's.
REFUSALS = re.compile(r"Could not run 'aten::|not implemented for '|is not currently implemented|only supported on")
#: After these a process has lost its GPU.
FATAL = re.compile(r"CUDA error|device-side assert|illegal memory")
#: And these say that a call before had left its process in a state that is none of theirs.
LEFT_BEHIND = re.compile(r"Offset increment outside graph capture|DispatchStub: unsupported device typemeta")
#: What a process keeps, so that later calls in it would come to something else: these are made last.
LASTING = re.compile(r"register_pytree_node$|enter_dual_level$|serialization\.register_package$")


class Late(BaseException):
    """A call took too long."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Late

    # Of the processor, not of the clock: other programs may keep it from us.
    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def joined(device: str) -> None:
    """Functions of groups of processes need one."""
    import torch

    if not torch.distributed.is_initialized():
        backend = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)


def restore(device: str) -> None:
    """Puts back what a call may have changed for all."""
    import torch

    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    for kind in ("cpu", "cuda"):
        torch.set_autocast_enabled(kind, False)
    torch.autograd.set_detect_anomaly(False)
    joined(device)


def departures() -> set[tuple[str, str]]:
    """Return the fallbacks so far, with their backends."""
    if "torchdevice_cuda" not in sys.modules:
        return set()
    from torchdevice_cuda.report.departures import departures as counted

    return {(what, where) for _, what, where, _ in counted.rows()}


def made(call: Any, device: str) -> dict[str, Any]:
    """Make a call and summarize its result."""
    import torch
    from comparing import failure, summary

    before = departures()
    torch.manual_seed(7)
    state = torch.get_rng_state()
    try:
        value = call()
        if device == "cuda":
            torch.cuda.synchronize()
        told = summary(value)
    except Exception as error:
        return {"error": failure(error)}
    drawn = not torch.equal(state, torch.get_rng_state())
    if device == "cuda":
        drawn = drawn or torch.cuda.default_generators[0].get_offset() != 0 if offsets() else drawn
    left = sorted({where for _, where in departures() - before})
    return {"result": told, "drawn": drawn, **({"left": left} if left else {})}


@functools.cache
def offsets() -> bool:
    """Return whether the GPU's generator reports its offset."""
    import torch

    try:
        torch.cuda.default_generators[0].get_offset()
    except Exception:
        return False
    return True


def attempt(entry: Any, device: str, chosen: str | None, skipped: list[str], begin: Any) -> dict[str, Any]:
    """Calls a callable: as chosen, or the first way that works; where none does, the way that has an answer."""
    import comparing
    import samples
    from calls import calls

    errors: list[str] = []
    answer: dict[str, Any] | None = None
    refusal: dict[str, Any] | None = None
    if chosen is None or chosen.startswith(("sample", "module", "optimizer")):
        samples.load(entry.namespace)
    with limited(EACH):
        for key, call in calls(entry, device, chosen):
            if chosen is not None and key != chosen or key in skipped:
                continue
            begin(key)
            told = made(call, device)
            if chosen is None and "result" in told:
                # What differs from call to call is no more than drawn.
                second = made(call, device)
                told["drawn"] = told["drawn"] or "error" not in second and not comparing.same(told, second)
            if chosen is not None or "error" not in told:
                return {"call": key, **told}
            errors.append(told["error"])
            if answer is None and ANSWERS.search(told["error"]):
                answer = {"call": key, **told}
            elif refusal is None and device != "cpu" and REFUSALS.search(told["error"]):
                refusal = {"call": key, **told}
            if FATAL.search(told["error"]):
                break
    if chosen is not None and chosen not in skipped:
        # The tables of arguments have changed since it was chosen.
        return attempt(entry, device, None, skipped, begin)
    common = max(errors, key=errors.count) if errors else "there is nothing to call it with"
    return answer or refusal or {"none": common}


def work(names_file: str, out: str, device: str) -> None:
    """Call a chunk of callables in a child, and write one line for each at once."""
    import torch
    from listing import Callable_

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.chdir(tempfile.mkdtemp())
    sys.stdin.close()
    joined(device)
    rows = json.loads(Path(names_file).read_text())
    with open(out, "a") as file, open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):

        def say(line: dict[str, Any]) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        for row in rows:
            entry = Callable_(**row["entry"])
            say({"begin": entry.name, "key": None})

            def begin(key: str, name: str = entry.name) -> None:
                say({"begin": name, "key": key})

            try:
                told = attempt(entry, device, row["call"], row.get("skipped", []), begin)
            except Late:
                told = {"none": "Late: it took too long"}
            except BaseException as error:
                told = {"none": f"{type(error).__name__}: {str(error)[:150]}"}
            with contextlib.suppress(Exception):
                restore(device)
            try:
                say({"name": entry.name, "torch": torch.__version__, **told})
            except (TypeError, ValueError):
                say({"name": entry.name, "none": "its result cannot be written down"})
            if FATAL.search(told.get("error", told.get("none", ""))):
                break
    os._exit(0)


def _lasts(row: dict[str, Any]) -> bool:
    return bool(LASTING.search(row["entry"]["name"]))


class Silent(RuntimeError):
    """Processes that call nothing, with what they said."""


def run(driver: str, rows: list[dict[str, Any]], jobs: int = 1) -> dict[str, dict[str, Any]]:
    """Every callable on a driver. What ends its process is said to have."""
    found: dict[str, dict[str, Any]] = {}
    begins(driver)
    # Neighbours are alike, in what they cost and in how they end: each process gets some of all.
    count = max(2 * jobs, len(rows) // CHUNK + 1) if len(rows) > jobs else 1
    chunks = [sorted(rows[i::count], key=_lasts) for i in range(count)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(functools.partial(_chunk, driver), chunks):
            found |= part
            print(f"{driver}: {len(found)} of {len(rows)}", file=sys.stderr, flush=True)
    return found


def begins(driver: str) -> None:
    """Starts a process that calls nothing: what a driver has to build is built once, and what it says is heard."""
    with tempfile.TemporaryDirectory() as folder:
        process = _process(driver, [], Path(folder))
    if process.code != 0 and not process.late:
        raise Silent(f"{driver}: its processes end before they call anything ({process.code}): {process.said}")


def _chunk(driver: str, chunk: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Some callables, in as many processes as it takes: behind one that ended its process another goes on."""
    found: dict[str, dict[str, Any]] = {}
    lives: dict[str, int] = {}
    idle = 0
    with tempfile.TemporaryDirectory() as folder:
        while (rest := [row for row in chunk if row["entry"]["name"] not in found]) and time.monotonic() < ENDS[0]:
            process = _process(driver, rest, Path(folder))
            found |= process.found
            if process.late:
                break  # what it was at was not given its time
            ended = process.ended
            idle = 0 if process.found or ended is not None else idle + 1
            if idle == 2:
                raise Silent(f"{driver}: processes end before they call anything ({process.code}): {process.said}")
            if ended is not None:
                print(f"{driver}: {ended} {process.key or ''} ended its process", file=sys.stderr, flush=True)
                lives[ended] = lives.get(ended, 0) + (LIVES - 2 if process.hung else 1)
                row = next(row for row in chunk if row["entry"]["name"] == ended)
                if row["call"] is not None or process.key is None or lives[ended] >= LIVES:
                    found[ended] = {"call": process.key, "error": "Crash: its process ended, or hung"}
                else:
                    row.setdefault("skipped", []).append(process.key)
    return found


@dataclasses.dataclass
class Process:
    """The result of a process: its findings, the callable and call that it was at, and how it ended."""

    found: Found
    ended: str | None
    key: Any
    hung: bool
    #: whether it was ended because there was no time left
    late: bool
    code: int | None
    #: the last lines of what it said
    said: str


def _process(driver: str, rows: list[dict[str, Any]], folder: Path) -> Process:
    """Run one process over some callables until it finishes, dies, hangs, or runs out of time."""
    place = DRIVERS[driver]
    names, out, said = folder / "names.json", folder / "out", folder / "said"
    names.write_text(json.dumps(rows))
    out.write_text("")
    command = [sys.executable, *place.launcher, str(HERE / "work.py"), str(names), str(out), place.device]
    with said.open("wb") as errors:
        child = subprocess.Popen(command, env=place.make_environment(), stdout=subprocess.DEVNULL, stderr=errors)
    size, since, spent, late, busy = -1, time.monotonic(), 0.0, False, 0.0
    while child.poll() is None and not late:
        time.sleep(0.1)
        now, still = out.stat().st_size, time.monotonic() - since
        late = time.monotonic() > ENDS[0] + PATIENCE
        if now != size:
            size, since, spent, busy = now, time.monotonic(), processor(child.pid), 0.0
        elif still > PATIENCE and (used := processor(child.pid) - spent) > 1:
            # A loop that is not Python's hears no bell.
            since, spent, busy = time.monotonic(), spent + used, busy + used
            if busy > 2 * EACH and patience(out) == PATIENCE:
                break
        elif still > PATIENCE and still > patience(out):
            break
    hung = child.poll() is None
    if hung:
        child.kill()
        child.wait()
    begun, key, found = None, None, {}
    for line in out.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # the last one, cut off
        begun, key = row.get("begin", begun), row.get("key", key)
        if "name" in row:
            found[row.pop("name")] = row
    words = " | ".join(said.read_text(errors="replace").strip().splitlines()[-3:]) or "nothing"
    return Process(found, begun if begun not in found else None, key, hung, hung and late, child.returncode, words)


def patience(out: Path) -> int:
    """Return how long a process may be idle, by the last line that it wrote."""
    lines = out.read_text().splitlines()
    return STARTS if not lines else IMPORTS if '"key": null' in lines[-1] or '"name"' in lines[-1] else PATIENCE


def processor(pid: int | str) -> float:
    """Return the seconds of the processor that a process and those that it started have had; none when it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        started = {child for task in Path(f"/proc/{pid}/task").iterdir() for child in _started(task)}
    except OSError:
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(processor, started))


def _started(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except OSError:
        return []


def left_out(name: str) -> str:
    return next((why for start, why in LEFT_OUT.items() if name.startswith(start)), "")


def rows_for(entries: list[Any], chosen: dict[str, str] | None) -> list[dict[str, Any]]:
    """Write the rows of a run: the chosen calls. Without a choice, or if a callable has none, the run looks for one."""
    return [
        {"entry": dataclasses.asdict(entry), "call": (chosen or {}).get(entry.name)}
        for entry in entries
        if not left_out(entry.name)
    ]
