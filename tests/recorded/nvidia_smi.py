"""nvidia-smi: the fields that it lists, the heads that it prints for them, and how it refuses."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from typing import Any

RECORD = "nvidia-smi-580.json"
NEEDS = "nvidia-smi"
#: Asked for by these names, some are printed under others.
HEADS = """
index name uuid driver_version memory.total memory.used memory.free utilization.gpu utilization.memory temperature.gpu
power.draw power.limit pci.bus_id compute_cap pstate count timestamp fan.speed clocks.sm clocks.mem clocks.max.sm
display_mode display_active persistence_mode ecc.mode.current serial gpu_serial gpu_uuid mig.mode.current
memory.reserved compute_mode vbios_version pcie.link.gen.current pcie.link.width.current temperature.memory
accounting.mode encoder.stats.sessionCount clocks_throttle_reasons.active driver_model.current pci.domain pci.bus
pci.device pci.device_id pci.sub_device_id inforom.img enforced.power.limit power.default_limit power.min_limit
power.max_limit clocks.gr clocks.video clocks.max.gr clocks.max.mem power.management
ecc.errors.corrected.volatile.total utilization.encoder utilization.decoder power.draw.average power.draw.instant
""".split()
REFUSED = """
-x
-q|-d|NOPE
-i|7
-i|abc
-i|0|-L
--query-gpu=name|--format=json
--query-gpu=name|--format=csv,foo
--query-gpu=nope|--format=csv
--query-gpu=name,nope|--format=csv
--format=csv
--query-gpu=name , index|--format=csv
--query-gpu=Name|--format=csv
-i|3|--query-gpu=index|--format=csv
--query-compute-apps=nope|--format=csv
dmon|-c|1|-s|z
dmon|-i|9|-c|1
nonsense
--nonsense
-z
--loop=1|-L
""".strip().splitlines()
_FIELD = re.compile(r'"[\w.-]+"( or "[\w.-]+")*$')


def run_tool(*words: str) -> tuple[int, str]:
    """Return the tool's exit status and what it prints."""
    done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def read_fields(text: str) -> list[list[str]]:
    """Return the names of each field that a help text lists."""
    return [re.findall(r'"([^"]+)"', line) for line in map(str.strip, text.splitlines()) if _FIELD.match(line)]


def list_fields() -> dict[str, list[list[str]]]:
    topics = {"gpu": "--help-query-gpu", "users": "--help-query-compute-apps"}
    return {kind: read_fields(run_tool(topic)[1]) for kind, topic in topics.items()}


def list_heads() -> dict[str, str]:
    return {name: run_tool(f"--query-gpu={name}", "--format=csv")[1].partition("\n")[0] for name in HEADS}


def list_refusals() -> list[list[Any]]:
    return [[line.split("|"), *run_tool(*line.split("|"))] for line in REFUSED]


def list_cases() -> dict[str, Callable[[], Any]]:
    return {"fields": list_fields, "heads": list_heads, "refusals": list_refusals}
