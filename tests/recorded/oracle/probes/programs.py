"""Whole programs in processes of their own: environments, forks, errors that nobody catches."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from recorded.oracle.probing import probe

FORKING = """
import multiprocessing
def work():
    try:
        print(torch.ones(1, device='cuda'), flush=True)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0], flush=True)
{}
child = multiprocessing.get_context('fork').Process(target=work)
child.start()
child.join()
print(child.exitcode)
"""


def children(*codes: str, **environment: str) -> list[Any]:
    """Return the output of other processes, the last line of their errors, and their exit status."""
    return ended([started(code, **environment) for code in codes])


def started(code: str, **environment: str) -> subprocess.Popen[str]:
    """Return another process like this one."""
    command = [*launcher(), "-c", "import torch\n" + code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, **environment}, **pipes)


def ended(processes: list[subprocess.Popen[str]]) -> list[Any]:
    out = []
    for process in processes:
        said, errors = process.communicate(timeout=280)
        out.append([said.strip(), errors.strip().splitlines()[-1:] if process.returncode else [], process.returncode])
    return out


def launcher() -> list[str]:
    """This interpreter, and whatever stands between it and the program."""
    given = os.environ.get("RECORD_LAUNCHER", "")
    return [sys.executable, *given.split()]


@probe(alone=True, slow=True)
def visible_devices() -> Any:
    ask = "print(torch.cuda.is_available(), torch.cuda.device_count())"
    return ended([started(ask, CUDA_VISIBLE_DEVICES=v) for v in ("", "0", "-1", "99", "0,0")])


@probe(alone=True, slow=True)
def no_devices_left() -> Any:
    return children(
        *(
            "torch.ones(1, device='cuda')",
            "torch.cuda.init()",
            "torch.cuda.current_device()",
            "torch.cuda.get_device_properties(0)",
            "print(torch.cuda.memory_allocated(), torch.cuda.is_bf16_supported(), torch.backends.cudnn.is_available())",
            "torch.Generator('cuda')",
        ),
        CUDA_VISIBLE_DEVICES="",
    )


@probe(alone=True, slow=True)
def processes_started() -> Any:
    fork = FORKING.format("torch.ones(1, device='cuda')")
    clean = FORKING.format("pass")
    return children(fork, clean)


@probe(alone=True, slow=True)
def uncaught_errors() -> Any:
    return children(
        *(
            "torch.ones(1, device='cuda') + torch.ones(2)[:1]",
            "x = torch.ones(2, device='cuda'); x[5]",
            "torch.cuda.set_device(9)",
            "torch.empty(1 << 45, device='cuda')",
        )
    )


@probe(alone=True, slow=True)
def environment_of_launches() -> Any:
    return ended(
        [
            started("x = torch.ones(2, device='cuda'); print((x @ x).item())", CUDA_LAUNCH_BLOCKING="1"),
            started(
                "print(torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)",
                TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1",
            ),
            started("torch.ones(1, device='cuda')", PYTORCH_CUDA_ALLOC_CONF="bogus:1"),
            started(
                "torch.ones(1, device='cuda'); print(torch.cuda.get_allocator_backend())",
                PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
            ),
            started(
                "torch.ones(1, device='cuda'); print(torch.cuda.memory_reserved())", PYTORCH_NO_CUDA_MEMORY_CACHING="1"
            ),
            started("print(torch.cuda.is_available(), torch.cuda.is_initialized())", PYTORCH_NVML_BASED_CUDA_CHECK="1"),
            started(
                "torch.cuda.init(); print(torch.cuda.memory._snapshot()['allocator_settings']['max_split_size'])",
                PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:128",
            ),
        ]
    )
