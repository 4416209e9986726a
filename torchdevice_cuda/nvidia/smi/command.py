"""``python -m torchdevice_cuda nvidia-smi``: NVIDIA's tool, as far as a host has the figures."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from ...settings import Settings
from ..nvml import inventory
from ..nvml.inventory import Gpu
from . import details, fields, monitors, table
from .fields import Moment
from .placing import is_ours
from .request import NOT_FOUND, Refusal, Request, parse

_HELP = """\
NVIDIA System Management Interface, over the GPUs that torchdevice_cuda shows to programs

    nvidia-smi                               a table of the GPUs and the processes that use them
    nvidia-smi -L                            one line for each GPU
    nvidia-smi -q [-x] [-d SECTION,...]      all that is known, as text or as XML
    nvidia-smi --query-gpu=FIELD,... --format=csv[,noheader][,nounits]
    nvidia-smi --query-compute-apps=FIELD,... --format=csv[,noheader][,nounits]
    nvidia-smi --help-query-gpu, --help-query-compute-apps
    nvidia-smi dmon, pmon [-c COUNT] [-d SECONDS] [-s METRICS] [-o DT]
    -i ID,...   these GPUs only: a number, a uuid or a bus id
    -l SECONDS, -lms MILLISECONDS            again and again
    -f FILE     into a file

Each process of the user that uses a GPU tells what it holds; what a host cannot tell is N/A.
"""


def main(words: Sequence[str], settings: Settings) -> int:
    """Run one command line; return the exit code."""
    real = _real(settings)
    if real is not None:
        return subprocess.run([real, *words], check=False).returncode
    try:
        request = parse(words)
        with _output(request) as out:
            return _answer(request, settings, out)
    except Refusal as refusal:
        print(refusal)
        return refusal.code
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # A reader such as `head` has closed the pipe; the interpreter flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _real(settings: Settings) -> str | None:
    """Return NVIDIA's own tool, if there may be a real GPU and the tool sees one."""
    if settings.driver not in ("auto", "cuda"):
        return None
    path = os.pathsep.join(folder for folder in os.get_exec_path() if not is_ours(folder))
    found = shutil.which("nvidia-smi", path=path)
    if found is None:
        return None
    try:
        listed = subprocess.run([found, "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found if listed.returncode == 0 and "GPU " in listed.stdout else None


@contextlib.contextmanager
def _output(request: Request) -> Iterator[TextIO]:
    if request.file is None:
        yield sys.stdout
        return
    try:
        with open(request.file, "w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise Refusal(f"Failed to open file {request.file}: {error.strerror}") from None


def _answer(request: Request, settings: Settings, out: TextIO) -> int:
    if request.what in _FIXED:
        out.write(_FIXED[request.what]())
        return 0
    head, done = True, 0
    while True:
        needs_load = request.what not in ("list", "users")
        moment = Moment(_chosen(inventory.now(settings, needs_load), request.ids))
        out.write(_TEXTS[request.what](request, moment, head))
        out.flush()
        head, done = False, done + 1
        if request.every is None or (request.count is not None and done >= request.count):
            return 0
        time.sleep(request.every)


def _chosen(gpus: list[Gpu], ids: list[str]) -> list[Gpu]:
    if not ids:
        return gpus
    found = [gpu for gpu in gpus if any(_is(gpu, each) for each in ids)]
    if not found:
        raise Refusal("No devices were found", NOT_FOUND)
    return found


def _is(gpu: Gpu, wanted: str) -> bool:
    return wanted in (str(gpu.device.index), gpu.device.uuid) or gpu.bus_id.endswith(wanted.upper())


def _listed(request: Request, moment: Moment, head: bool) -> str:
    return "".join(f"GPU {gpu.device.index}: {gpu.device.name} (UUID: {gpu.device.uuid})\n" for gpu in moment.gpus)


def _csv(request: Request, moment: Moment, head: bool) -> str:
    units = "nounits" not in request.format
    rows: list[str] = []
    if head and "noheader" not in request.format:
        rows.append(", ".join(field.head for field in request.fields))
    subjects = moment.gpus if request.what == "gpu" else fields.users(moment.gpus)
    rows += [", ".join(field.text(subject, moment, units) for field in request.fields) for subject in subjects]
    return "".join(f"{row}\n" for row in rows)


def _names(of_users: bool) -> str:
    switch = "--query-compute-apps" if of_users else "--query-gpu"
    rows = [" or ".join(f'"{name}"' for name in every) for every in fields.names(of_users)]
    return f'List of valid properties to query for the switch "{switch}":\n\n' + "".join(f"{row}\n" for row in rows)


_FIXED: dict[str, Callable[[], str]] = {
    "help": lambda: _HELP,
    "help-gpu": lambda: _names(False),
    "help-users": lambda: _names(True),
    "version": details.version,
    "excluded": lambda: "No excluded devices found.\n",
}
_TEXTS = {
    "table": lambda request, moment, head: table.text(moment),
    "list": _listed,
    "gpu": _csv,
    "users": _csv,
    "details": lambda request, moment, head: details.text(moment, request.sections, request.xml),
    "dmon": monitors.dmon,
    "pmon": monitors.pmon,
}
