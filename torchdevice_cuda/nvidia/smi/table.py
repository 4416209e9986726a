"""The table that ``nvidia-smi`` prints by default."""

from __future__ import annotations

import time

from ..nvml import inventory
from ..nvml.inventory import MIB, Gpu
from .fields import Moment

_WIDTH = 89
_RULE = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
_EDGE = "+" + "-" * _WIDTH + "+"
_HEAD = """\
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|"""
_PROCESSES = """\
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|"""


def text(moment: Moment) -> str:
    """Return the whole table."""
    when = time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(moment.at))
    version, cuda = inventory.driver_version(), inventory.cuda_version()
    title = f" NVIDIA-SMI {version:<22} Driver Version: {version:<14} CUDA Version: {cuda:<8}"
    lines = [f"{when:<31}", _EDGE, f"|{title:<{_WIDTH}}|", _RULE, _HEAD]
    for gpu in moment.gpus:
        lines += [*_gpu(gpu), _RULE]
    lines += ["", _EDGE, _PROCESSES, *_users(moment.gpus), _EDGE]
    return "\n".join(lines) + "\n"


def _gpu(gpu: Gpu) -> list[str]:
    memory = f"{gpu.used // MIB}MiB / {gpu.device.memory // MIB:>6}MiB"
    heat = "N/A" if gpu.temperature is None else f"{gpu.temperature}C"
    first = f"{gpu.device.index:>4}  {_shortened(gpu.device.name, 27):<27} {'Off':>5}  "
    second = f" N/A  {heat:>4}    N/A {'N/A':>14} /  N/A  "
    return [
        f"|{first}|   {gpu.bus_id:>16} Off |{'N/A':>21} |",
        f"|{second}|{memory:>23} |{gpu.busy:>7}%      Default |",
        f"|{'':41}|{'':24}|{'N/A':>21} |",
    ]


def _users(gpus: list[Gpu]) -> list[str]:
    rows = [
        f"{gpu.device.index:>5}   N/A  N/A{user.pid:>16}      C   {_shortened(user.name, 37, end=True):<37} "
        f"{f'{user.held // MIB}MiB':>8} "
        for gpu in gpus
        for user in gpu.users
    ]
    return [f"|{row:<{_WIDTH}}|" for row in rows or ["  No running processes found"]]


def _shortened(text: str, width: int, end: bool = False) -> str:
    """Return a name that fits a column: its beginning, or for a path its end."""
    if len(text) <= width:
        return text
    return f"...{text[-(width - 3) :]}" if end else f"{text[: width - 3]}..."
