"""256 MiB on the second GPU, as each monitor shows them in a process of its own."""

import json
import os
import subprocess
import sys

import pynvml
import torch

COMMANDS = {
    "gpustat": ["-m", "gpustat", "-cp", "--no-color"],
    "nvitop": ["-m", "nvitop", "-1", "--ascii"],
    "GPUtil": ["-c", "import GPUtil; print([(gpu.name, gpu.memoryUsed) for gpu in GPUtil.getGPUs()])"],
}


def error(function, *arguments) -> str:
    try:
        function(*arguments)
    except pynvml.NVMLError as raised:
        return str(raised)
    return "none"


held = torch.ones(64 << 20, device="cuda:1")
found = {name: subprocess.check_output([sys.executable, *words], text=True) for name, words in COMMANDS.items()}
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(1)
found["users"] = [
    [each.pid == os.getpid(), each.usedGpuMemory] for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
]
found["used"] = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used
found["power"] = error(pynvml.nvmlDeviceGetPowerUsage, handle)
found["third"] = error(pynvml.nvmlDeviceGetHandleByIndex, 2)
print(json.dumps(found))
