"""Calls every callable, in child processes that may crash: on stock torch first, then the same call on a driver."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
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
CHUNK = 250
#: Seconds for a callable's calls, and for a process to say something.
EACH, PATIENCE = 6, 60
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
DRIVERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "stock": ([], {}),
    "virtual": (["-m", "torchdevice_cuda", "--driver", "virtual"], {}),
    "mps": (["-m", "torchdevice_cuda", "--driver", "mps", "--policy", "faithful"], {"TORCHDEVICE_EMULATE_MPS": "1"}),
    "cpu": (["-m", "torchdevice_cuda", "--driver", "cpu"], {}),
}


class Late(BaseException):
    """A call took too long."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Late

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def summary(value: Any, depth: int = 0) -> Any:
    """What a result is like: types, shapes, dtypes, and numbers if they are few."""
    import torch

    if isinstance(value, torch.Tensor):
        kept: list[Any] = [str(value.dtype), list(value.shape)]
        if value.layout is torch.strided and value.numel() <= 256 and not value.is_quantized:
            there = value.detach().cpu()
            there = torch.view_as_real(there.resolve_conj()).flatten() if there.is_complex() else there.flatten()
            kept.append([x if x == x and abs(x) < 1e30 else str(x) for x in there.double().tolist()])
        return kept
    if isinstance(value, (bool, int, str, float, type(None))) and depth:
        return value if not isinstance(value, str) or len(value) < 40 else type(value).__name__
    if isinstance(value, (list, tuple)) and depth < 3:
        return [summary(part, depth + 1) for part in value[:8]]
    return type(value).__name__


def close(a: Any, b: Any) -> bool:
    """Whether two summaries are the same; numbers within what kernels may differ by."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return abs(a - b) <= 1e-4 + 1e-3 * max(abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    return bool(a == b)


def without_numbers(a: Any) -> Any:
    """A summary of what was drawn at random: dtypes and shapes."""
    if isinstance(a, list) and a and isinstance(a[0], str) and a[0].startswith("torch."):
        return a[:2]
    if isinstance(a, list):
        return [without_numbers(part) for part in a]
    return None if isinstance(a, (int, float)) else a


def restore() -> None:
    """Puts back what a call may have changed for all."""
    import torch

    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.use_deterministic_algorithms(False)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_enabled("cuda", False)


def departures() -> set[tuple[str, str]]:
    """What has left the accelerator so far, and where it went."""
    if "torchdevice_cuda" not in sys.modules:
        return set()
    from torchdevice_cuda.report.departures import departures as counted

    return {(what, where) for _, what, where, _ in counted.rows()}


def attempt(entry: Any, device: str, chosen: int | None) -> dict[str, Any]:
    """Calls a callable: as chosen, or the first way that works."""
    import torch
    from calls import calls

    errors: list[str] = []
    with limited(EACH):
        for number, call in enumerate(calls(entry, device)):
            if chosen is not None and number != chosen:
                continue
            before = departures()
            torch.manual_seed(7)
            drawn = torch.get_rng_state()
            try:
                value = call()
                if device == "cuda":
                    torch.cuda.synchronize()
                told = summary(value)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"[:200])
                if chosen is not None:
                    return {"error": errors[-1]}
                continue
            random = not torch.equal(drawn, torch.get_rng_state())
            left = sorted({where for _, where in departures() - before})
            return {"call": number, "result": told, "random": random, "left": left}
    return {"error": errors[0] if errors else "there is nothing to call it with"}


def work(names_file: str, out: str, device: str) -> None:
    """What a child does: a chunk of callables, one line for each as soon as it is known."""
    import torch
    from listing import Callable_

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.chdir(tempfile.mkdtemp())
    sys.stdin.close()
    # Functions of groups of processes need one.
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    rows = json.loads(Path(names_file).read_text())
    with open(out, "a") as file, open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for row in rows:
            entry = Callable_(**row["entry"])
            file.write(json.dumps({"begin": entry.name}) + "\n")
            file.flush()
            try:
                told = attempt(entry, device, row["call"])
            except Late:
                told = {"error": "Late: it took too long"}
            except BaseException as error:
                told = {"error": f"{type(error).__name__}: {str(error)[:150]}"}
            with contextlib.suppress(Exception):
                restore()
            try:
                line = json.dumps({"name": entry.name, **told})
            except (TypeError, ValueError):
                line = json.dumps({"name": entry.name, "error": "its result cannot be written down"})
            file.write(line + "\n")
            file.flush()
    os._exit(0)


def run(driver: str, rows: list[dict[str, Any]], jobs: int = 1) -> dict[str, dict[str, Any]]:
    """Every callable on a driver. What ends its process is said to have."""
    found: dict[str, dict[str, Any]] = {}
    chunks = [rows[i : i + CHUNK] for i in range(0, len(rows), CHUNK)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(functools.partial(_chunk, driver), chunks):
            found |= part
            print(f"{driver}: {len(found)} of {len(rows)}", file=sys.stderr, flush=True)
    return found


def _chunk(driver: str, chunk: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Some callables, in as many processes as it takes: behind one that ended its process another goes on."""
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while rest := [row for row in chunk if row["entry"]["name"] not in found]:
            told = _process(driver, rest, Path(folder))
            if not told:
                break  # it does not even begin
            found |= told
    return found


def _process(driver: str, rows: list[dict[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """One process over some callables, until it is done, ends or says nothing for long."""
    launcher, environment = DRIVERS[driver]
    names, out = folder / "names.json", folder / "out"
    names.write_text(json.dumps(rows))
    out.write_text("")
    device = "cpu" if driver == "stock" else "cuda"
    command = [sys.executable, *launcher, str(HERE / "__main__.py"), "work", str(names), str(out), device]
    child = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    size, since = -1, time.monotonic()
    while child.poll() is None and time.monotonic() - since < PATIENCE:
        time.sleep(0.2)
        now = out.stat().st_size
        if now != size:
            size, since = now, time.monotonic()
    if child.poll() is None:
        child.kill()
        child.wait()
    begun, found = None, {}
    for line in out.read_text().splitlines():
        row = json.loads(line)
        begun = row.get("begin", begun)
        if "name" in row:
            found[row.pop("name")] = row
    if begun is not None and begun not in found:
        found[begun] = {"error": "Crash: its process ended, or hung"}
    return found


def left_out(name: str) -> str:
    return next((why for start, why in LEFT_OUT.items() if name.startswith(start)), "")


def rows_for(entries: list[Any], reference: dict[str, dict[str, Any]] | None) -> list[dict[str, Any]]:
    """What a run is asked: with a reference, the calls that worked there; those of CUDA alone are looked for."""
    rows = []
    for entry in entries:
        if left_out(entry.name):
            continue
        told = (reference or {}).get(entry.name, {})
        only_cuda = entry.namespace.startswith("torch.cuda")
        if reference is None and only_cuda or reference is not None and not only_cuda and "call" not in told:
            continue
        rows.append({"entry": dataclasses.asdict(entry), "call": told.get("call")})
    return rows
