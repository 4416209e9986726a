"""``nvidia-smi -q``: the host's figures of each GPU, as text or as XML. Both are written from one tree."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Union
from xml.sax.saxutils import escape

from ..nvml import inventory
from ..nvml.inventory import MIB, Gpu, User
from .fields import Moment
from .request import Refusal

_COLUMN, _PROCESS_COLUMN = 55, 42
#: By title and XML tag: a value, or a subtree.
Tree = Mapping[tuple[str, str], Union[str, "Tree"]]
#: Sections that ``-d`` may name; those without figures of the host are empty.
_SECTIONS = (
    "MEMORY UTILIZATION ECC TEMPERATURE POWER CLOCK COMPUTE PIDS PERFORMANCE SUPPORTED_CLOCKS PAGE_RETIREMENT "
    "ACCOUNTING ENCODER_STATS SUPPORTED_GPU_TARGET_TEMP VOLTAGE FBC_STATS ROW_REMAPPER RESET_STATUS"
).split()
#: The sections of tags.
_SECTION_OF = {
    "fb_memory_usage": "MEMORY",
    "compute_mode": "COMPUTE",
    "utilization": "UTILIZATION",
    "temperature": "TEMPERATURE",
    "clocks": "CLOCK",
    "max_clocks": "CLOCK",
}


def version() -> str:
    """Return the text of ``--version``."""
    driver, cuda = inventory.driver_version(), inventory.cuda_version()
    rows = [
        ("NVIDIA-SMI version", driver),
        ("NVML version", ".".join(driver.split(".")[:2])),
        ("DRIVER version", driver),
        ("CUDA Version", cuda),
    ]
    return "".join(f"{words:<20}: {value}\n" for words, value in rows)


def _known(value: int | None, unit: str) -> str:
    return f"{value} {unit}" if value else "N/A"


def _process(user: User) -> Tree:
    return {
        ("GPU instance ID", "gpu_instance_id"): "N/A",
        ("Compute instance ID", "compute_instance_id"): "N/A",
        ("Process ID", "pid"): str(user.pid),
        ("Type", "type"): "C",
        ("Name", "process_name"): user.name,
        ("Used GPU Memory", "used_memory"): f"{user.held // MIB} MiB",
    }


def _tree(gpu: Gpu, sections: Sequence[str]) -> Tree:
    """Return all properties of a GPU, or those of the named sections."""
    device = gpu.device
    clocks: Tree = {
        ("Graphics", "graphics_clock"): _known(device.clock_mhz, "MHz"),
        ("SM", "sm_clock"): _known(device.clock_mhz, "MHz"),
        ("Memory", "mem_clock"): _known(device.memory_clock_mhz, "MHz"),
    }
    tree: Tree = {
        ("Product Name", "product_name"): device.name,
        ("Product Brand", "product_brand"): "NVIDIA",
        ("Display Mode", "display_mode"): "Disabled",
        ("Display Active", "display_active"): "Disabled",
        ("Persistence Mode", "persistence_mode"): "Disabled",
        ("GPU UUID", "uuid"): device.uuid,
        ("Minor Number", "minor_number"): str(device.index),
        ("PCI", "pci"): {
            ("Bus", "pci_bus"): f"0x{device.bus:02X}",
            ("Device", "pci_device"): "0x00",
            ("Domain", "pci_domain"): "0x0000",
            ("Bus Id", "pci_bus_id"): gpu.bus_id,
        },
        ("FB Memory Usage", "fb_memory_usage"): {
            ("Total", "total"): f"{device.memory // MIB} MiB",
            ("Reserved", "reserved"): "0 MiB",
            ("Used", "used"): f"{gpu.used // MIB} MiB",
            ("Free", "free"): f"{gpu.free // MIB} MiB",
        },
        ("Compute Mode", "compute_mode"): "Default",
        ("Utilization", "utilization"): {
            ("GPU", "gpu_util"): f"{gpu.busy} %",
            ("Memory", "memory_util"): f"{gpu.busy} %",
        },
        ("Temperature", "temperature"): {("GPU Current Temp", "gpu_temp"): _known(gpu.temperature, "C")},
        ("Clocks", "clocks"): clocks,
        ("Max Clocks", "max_clocks"): clocks,
    }
    return {name: value for name, value in tree.items() if not sections or _SECTION_OF.get(name[1]) in sections}


def text(moment: Moment, sections: Sequence[str], xml: bool) -> str:
    """Return the whole text, or the named sections."""
    if not set(sections) <= set(_SECTIONS):
        raise Refusal("Failed to parse --display/-d flags")
    head: Tree = {
        ("Timestamp", "timestamp"): time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(moment.at)),
        ("Driver Version", "driver_version"): inventory.driver_version(),
        ("CUDA Version", "cuda_version"): inventory.cuda_version(),
        ("Attached GPUs", "attached_gpus"): str(len(moment.gpus)),
    }
    return (_xml if xml else _plain)(moment, sections, head)


def _plain(moment: Moment, sections: Sequence[str], head: Tree) -> str:
    *first, last = _plain_lines(head, 0)
    lines = ["", "==============NVSMI LOG==============", "", *first, "", last]
    for gpu in moment.gpus:
        lines += [f"GPU {gpu.bus_id}", *_plain_lines(_tree(gpu, sections), 1)]
        if not sections or "PIDS" in sections:
            lines += _plain_users(gpu)
        lines.append("")
    return "\n".join(lines) + "\n"


def _line(words: str, value: object, depth: int, column: int = _COLUMN) -> str:
    return f"{' ' * 4 * depth}{words}".ljust(column) + f": {value}"


def _plain_lines(tree: Tree, depth: int) -> list[str]:
    lines: list[str] = []
    for (words, _), value in tree.items():
        if isinstance(value, str):
            lines.append(_line(words, value, depth))
        else:
            lines += [f"{' ' * 4 * depth}{words}", *_plain_lines(value, depth + 1)]
    return lines


def _plain_users(gpu: Gpu) -> list[str]:
    if not gpu.users:
        return [_line("Processes", "None", 1)]
    lines = ["    Processes"]
    for user in gpu.users:
        for at, ((words, _), value) in enumerate(_process(user).items()):
            lines.append(_line(words, value, 2 if at < 3 else 3, _PROCESS_COLUMN))
    return lines


def _xml(moment: Moment, sections: Sequence[str], head: Tree) -> str:
    lines = ['<?xml version="1.0" ?>', '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">', "<nvidia_smi_log>"]
    lines += _xml_lines(head, 1)
    for gpu in moment.gpus:
        lines += [f'\t<gpu id="{gpu.bus_id}">', *_xml_lines(_tree(gpu, sections), 2)]
        if not sections or "PIDS" in sections:
            lines.append("\t\t<processes>")
            for user in gpu.users:
                lines += _xml_lines({("", "process_info"): _process(user)}, 3)
            lines.append("\t\t</processes>")
        lines.append("\t</gpu>")
    return "\n".join([*lines, "</nvidia_smi_log>", ""])


def _xml_lines(tree: Tree, depth: int) -> list[str]:
    lines: list[str] = []
    tabs = "\t" * depth
    for (_, tag), value in tree.items():
        if isinstance(value, str):
            lines.append(f"{tabs}<{tag}>{escape(value)}</{tag}>")
        else:
            lines += [f"{tabs}<{tag}>", *_xml_lines(value, depth + 1), f"{tabs}</{tag}>"]
    return lines
