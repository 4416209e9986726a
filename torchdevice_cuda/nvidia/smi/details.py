"""``nvidia-smi -q``: all that is known of each GPU, as text or as XML. Both are written from one tree."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from ..nvml import inventory
from ..nvml.inventory import MIB, Gpu, User
from .fields import Moment
from .request import Refusal

_COLUMN, _PROCESS_COLUMN = 55, 42
_UNKNOWN = "N/A"


class Leaf(NamedTuple):
    """A line: its words, its tag and its value."""

    words: str
    tag: str
    value: str = _UNKNOWN


class Branch(NamedTuple):
    """Lines below a title. ``section`` is what ``-d`` calls it."""

    words: str
    tag: str
    below: Sequence[Leaf | Branch]
    section: str = ""


def version() -> str:
    """The text of ``--version``."""
    driver, cuda = inventory.driver_version(), inventory.cuda_version()
    rows = [
        ("NVIDIA-SMI version", driver),
        ("NVML version", ".".join(driver.split(".")[:2])),
        ("DRIVER version", driver),
        ("CUDA Version", cuda),
    ]
    return "".join(f"{words:<20}: {value}\n" for words, value in rows)


def _mib(size: int) -> str:
    return f"{size // MIB} MiB"


def _mhz(value: int) -> str:
    return f"{value} MHz" if value else _UNKNOWN


def _celsius(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value} C"


def _clocks(words: str, tag: str, gpu: Gpu, section: str = "CLOCK") -> Branch:
    clock, memory = _mhz(gpu.device.clock_mhz), _mhz(gpu.device.memory_clock_mhz)
    return Branch(
        words,
        tag,
        [
            Leaf("Graphics", "graphics_clock", clock),
            Leaf("SM", "sm_clock", clock),
            Leaf("Memory", "mem_clock", memory),
            Leaf("Video", "video_clock"),
        ],
        section,
    )


def _unknown(words: str, tag: str, section: str, rows: str) -> Branch:
    """A branch of which no host knows anything; rows are ``words=tag``."""
    pairs = (row.partition("=") for row in rows.split(", "))
    return Branch(words, tag, [Leaf(name, key) for name, _, key in pairs], section)


def _process(user: User) -> list[Leaf]:
    return [
        Leaf("GPU instance ID", "gpu_instance_id"),
        Leaf("Compute instance ID", "compute_instance_id"),
        Leaf("Process ID", "pid", str(user.pid)),
        Leaf("Type", "type", "C"),
        Leaf("Name", "process_name", user.name),
        Leaf("Used GPU Memory", "used_memory", _mib(user.held)),
    ]


def tree(gpu: Gpu) -> list[Leaf | Branch]:
    """All that is known of a GPU, and the names of what is not."""
    device = gpu.device
    busy = f"{gpu.busy} %"
    return [
        Leaf("Product Name", "product_name", device.name),
        Leaf("Product Brand", "product_brand", "NVIDIA"),
        Leaf("Product Architecture", "product_architecture"),
        Leaf("Display Mode", "display_mode", "Disabled"),
        Leaf("Display Active", "display_active", "Disabled"),
        Leaf("Persistence Mode", "persistence_mode", "Disabled"),
        Leaf("Addressing Mode", "addressing_mode"),
        Branch("MIG Mode", "mig_mode", [Leaf("Current", "current_mig"), Leaf("Pending", "pending_mig")]),
        Leaf("Accounting Mode", "accounting_mode"),
        Leaf("Serial Number", "serial"),
        Leaf("GPU UUID", "uuid", device.uuid),
        Leaf("Minor Number", "minor_number", str(device.index)),
        Leaf("VBIOS Version", "vbios_version"),
        Branch(
            "PCI",
            "pci",
            [
                Leaf("Bus", "pci_bus", f"0x{device.bus:02X}"),
                Leaf("Device", "pci_device", "0x00"),
                Leaf("Domain", "pci_domain", "0x0000"),
                Leaf("Device Id", "pci_device_id"),
                Leaf("Bus Id", "pci_bus_id", gpu.bus_id),
                Leaf("Sub System Id", "pci_sub_system_id"),
            ],
        ),
        Leaf("Fan Speed", "fan_speed"),
        Leaf("Performance State", "performance_state"),
        Branch(
            "FB Memory Usage",
            "fb_memory_usage",
            [
                Leaf("Total", "total", _mib(device.memory)),
                Leaf("Reserved", "reserved", "0 MiB"),
                Leaf("Used", "used", _mib(gpu.used)),
                Leaf("Free", "free", _mib(gpu.free)),
            ],
            "MEMORY",
        ),
        _unknown("BAR1 Memory Usage", "bar1_memory_usage", "MEMORY", "Total=total, Used=used, Free=free"),
        Leaf("Compute Mode", "compute_mode", "Default"),
        Branch(
            "Utilization",
            "utilization",
            [
                Leaf("GPU", "gpu_util", busy),
                Leaf("Memory", "memory_util", busy),
                Leaf("Encoder", "encoder_util"),
                Leaf("Decoder", "decoder_util"),
                Leaf("JPEG", "jpeg_util"),
                Leaf("OFA", "ofa_util"),
            ],
            "UTILIZATION",
        ),
        _unknown("ECC Mode", "ecc_mode", "ECC", "Current=current_ecc, Pending=pending_ecc"),
        Branch(
            "Temperature",
            "temperature",
            [
                Leaf("GPU Current Temp", "gpu_temp", _celsius(gpu.temperature)),
                Leaf("GPU T.Limit Temp", "gpu_temp_tlimit"),
                Leaf("GPU Shutdown Temp", "gpu_temp_max_threshold"),
                Leaf("GPU Slowdown Temp", "gpu_temp_slow_threshold"),
                Leaf("GPU Max Operating Temp", "gpu_temp_max_gpu_threshold"),
                Leaf("GPU Target Temperature", "gpu_target_temperature"),
                Leaf("Memory Current Temp", "memory_temp"),
                Leaf("Memory Max Operating Temp", "gpu_temp_max_mem_threshold"),
            ],
            "TEMPERATURE",
        ),
        _unknown(
            "GPU Power Readings",
            "gpu_power_readings",
            "POWER",
            "Average Power Draw=average_power_draw, Instantaneous Power Draw=instant_power_draw, "
            "Current Power Limit=current_power_limit, Requested Power Limit=requested_power_limit, "
            "Default Power Limit=default_power_limit, Min Power Limit=min_power_limit, Max Power Limit=max_power_limit",
        ),
        _clocks("Clocks", "clocks", gpu),
        _clocks("Max Clocks", "max_clocks", gpu),
    ]


#: What ``-d`` may name.
SECTIONS = (
    "MEMORY UTILIZATION ECC TEMPERATURE POWER CLOCK COMPUTE PIDS PERFORMANCE SUPPORTED_CLOCKS PAGE_RETIREMENT "
    "ACCOUNTING ENCODER_STATS SUPPORTED_GPU_TARGET_TEMP VOLTAGE FBC_STATS ROW_REMAPPER RESET_STATUS"
).split()


def text(moment: Moment, sections: Sequence[str], xml: bool) -> str:
    """All of it, or the sections that were named."""
    for section in sections:
        if section not in SECTIONS:
            raise Refusal("Failed to parse --display/-d flags")
    return _xml(moment, sections) if xml else _plain(moment, sections)


#: Lines outside of branches that belong to a section.
_LEAVES = {"compute_mode": "COMPUTE", "performance_state": "PERFORMANCE"}


def _kept(gpu: Gpu, sections: Sequence[str]) -> list[Leaf | Branch]:
    if not sections:
        return tree(gpu)
    return [
        node for node in tree(gpu) if (node.section if isinstance(node, Branch) else _LEAVES.get(node.tag)) in sections
    ]


def _line(words: str, value: str, depth: int = 0, column: int = _COLUMN) -> str:
    return f"{' ' * 4 * depth}{words}".ljust(column) + f": {value}"


def _plain(moment: Moment, sections: Sequence[str]) -> str:
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        _line("Timestamp", time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(moment.at))),
        _line("Driver Version", inventory.driver_version()),
        _line("CUDA Version", inventory.cuda_version()),
        "",
        _line("Attached GPUs", str(len(moment.gpus))),
    ]
    for gpu in moment.gpus:
        lines.append(f"GPU {gpu.bus_id}")
        for node in _kept(gpu, sections):
            lines += _plain_node(node, 1)
        if not sections or "PIDS" in sections:
            lines += _plain_users(gpu)
        lines.append("")
    return "\n".join(lines) + "\n"


def _plain_users(gpu: Gpu) -> list[str]:
    if not gpu.users:
        return [_line("Processes", "None", 1)]
    lines = ["    Processes"]
    for user in gpu.users:
        rows = _process(user)
        lines += [_line(row.words, row.value, 2 if at < 3 else 3, _PROCESS_COLUMN) for at, row in enumerate(rows)]
    return lines


def _plain_node(node: Leaf | Branch, depth: int) -> list[str]:
    if isinstance(node, Leaf):
        return [_line(node.words, node.value, depth)]
    lines = [f"{' ' * 4 * depth}{node.words}"]
    for each in node.below:
        lines += _plain_node(each, depth + 1)
    return lines


def _xml(moment: Moment, sections: Sequence[str]) -> str:
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">',
        "<nvidia_smi_log>",
        f"\t<timestamp>{time.strftime('%a %b %e %H:%M:%S %Y', time.localtime(moment.at))}</timestamp>",
        f"\t<driver_version>{inventory.driver_version()}</driver_version>",
        f"\t<cuda_version>{inventory.cuda_version()}</cuda_version>",
        f"\t<attached_gpus>{len(moment.gpus)}</attached_gpus>",
    ]
    for gpu in moment.gpus:
        lines.append(f'\t<gpu id="{gpu.bus_id}">')
        for node in _kept(gpu, sections):
            lines += _xml_node(node, 2)
        if not sections or "PIDS" in sections:
            lines.append("\t\t<processes>")
            for user in gpu.users:
                lines += _xml_node(Branch("", "process_info", _process(user)), 3)
            lines.append("\t\t</processes>")
        lines.append("\t</gpu>")
    return "\n".join([*lines, "</nvidia_smi_log>", ""])


def _xml_node(node: Leaf | Branch, depth: int) -> list[str]:
    tabs = "\t" * depth
    if isinstance(node, Leaf):
        return [f"{tabs}<{node.tag}>{escape(node.value)}</{node.tag}>"]
    lines = [f"{tabs}<{node.tag}>"]
    for each in node.below:
        lines += _xml_node(each, depth + 1)
    return [*lines, f"{tabs}</{node.tag}>"]
