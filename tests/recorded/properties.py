"""Results of torch.cuda.get_device_properties, without those that differ between GPUs of one model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

RECORD = "h200-properties.json"
NAMES = """L2_cache_size clock_rate gcnArchName is_integrated is_multi_gpu_board major max_threads_per_block
max_threads_per_multi_processor memory_bus_width memory_clock_rate minor multi_processor_count name
regs_per_multiprocessor shared_memory_per_block shared_memory_per_block_optin shared_memory_per_multiprocessor
total_memory warp_size""".split()


def read_properties() -> dict[str, Any]:
    found = torch.cuda.get_device_properties(0)
    return {name: getattr(found, name) for name in NAMES}


def list_cases() -> dict[str, Callable[[], Any]]:
    return {"properties": read_properties}
