"""Fields of ``--query-gpu`` and ``--query-compute-apps``: one row per field, with its unit and its source.

A field of NVIDIA's tool that no host has is ``[N/A]``, as on a GPU without the sensor.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..nvml import inventory
from ..nvml.inventory import MIB, Gpu, User

UNKNOWN = "[N/A]"


@dataclasses.dataclass(frozen=True)
class Moment:
    """One reading of the machine, from which rows are created."""

    gpus: list[Gpu]
    at: float = dataclasses.field(default_factory=time.time)

    @property
    def stamp(self) -> str:
        """Return the time of the reading, in the tool's format."""
        return time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(self.at)) + f".{int(self.at * 1000) % 1000:03d}"


@dataclasses.dataclass(frozen=True)
class Field:
    """A figure: its column name, its unit, and its function; ``None``: unknown here."""

    name: str
    unit: str = ""
    value: Callable[[Any, Moment], object] | None = None

    @property
    def head(self) -> str:
        """Return its name with the unit."""
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    def text(self, of: Any, moment: Moment, units: bool) -> str:
        """Return its value."""
        value = None if self.value is None else self.value(of, moment)
        if value is None:
            return UNKNOWN
        return f"{value} {self.unit}" if self.unit and units else str(value)


def _mib(size: int) -> int:
    return size // MIB


def _fields(*rows: Field) -> dict[str, Field]:
    return {row.name: row for row in rows}


def _unknown(names: str, unit: str = "") -> list[Field]:
    return [Field(name, unit) for name in names.split()]


def _below(stem: str, names: str) -> list[Field]:
    return [Field(f"{stem}.{name}") for name in names.split()]


_REASONS = (
    "supported active gpu_idle applications_clocks_setting sw_power_cap hw_slowdown hw_thermal_slowdown "
    "hw_power_brake_slowdown sw_thermal_slowdown sync_boost"
)
_OF_GPU: dict[str, Field] = _fields(
    Field("timestamp", value=lambda gpu, moment: moment.stamp),
    Field("driver_version", value=lambda gpu, moment: inventory.driver_version()),
    Field("count", value=lambda gpu, moment: len(moment.gpus)),
    Field("name", value=lambda gpu, moment: gpu.device.name),
    Field("uuid", value=lambda gpu, moment: gpu.device.uuid),
    Field("index", value=lambda gpu, moment: gpu.device.index),
    Field("pci.bus_id", value=lambda gpu, moment: gpu.bus_id),
    Field("pci.domain", value=lambda gpu, moment: "0x0000"),
    Field("pci.bus", value=lambda gpu, moment: f"0x{gpu.device.bus:02X}"),
    Field("pci.device", value=lambda gpu, moment: "0x00"),
    Field("display_mode", value=lambda gpu, moment: "Disabled"),
    Field("display_active", value=lambda gpu, moment: "Disabled"),
    Field("persistence_mode", value=lambda gpu, moment: "Disabled"),
    Field("compute_mode", value=lambda gpu, moment: "Default"),
    Field("compute_cap", value=lambda gpu, moment: ".".join(map(str, gpu.device.capability))),
    Field("memory.total", "MiB", lambda gpu, moment: _mib(gpu.device.memory)),
    Field("memory.reserved", "MiB", lambda gpu, moment: 0),
    Field("memory.used", "MiB", lambda gpu, moment: _mib(gpu.used)),
    Field("memory.free", "MiB", lambda gpu, moment: _mib(gpu.free)),
    Field("utilization.gpu", "%", lambda gpu, moment: gpu.busy),
    Field("utilization.memory", "%", lambda gpu, moment: gpu.busy),
    Field("temperature.gpu", value=lambda gpu, moment: "N/A" if gpu.temperature is None else gpu.temperature),
    Field("temperature.memory", value=lambda gpu, moment: "N/A"),
    *(
        Field(name, "MHz", lambda gpu, moment: gpu.device.clock_mhz or None)
        for name in "clocks.current.graphics clocks.current.sm clocks.max.graphics clocks.max.sm".split()
    ),
    *(
        Field(name, "MHz", lambda gpu, moment: gpu.device.memory_clock_mhz or None)
        for name in "clocks.current.memory clocks.max.memory".split()
    ),
    *_unknown(
        "pci.device_id pci.sub_device_id pci.baseClass pci.subClass vgpu_driver_capability.heterogenous_multivGPU "
        "vgpu_device_capability.fractional_multiVgpu vgpu_device_capability.heterogeneous_timeSlice_profile "
        "vgpu_device_capability.heterogeneous_timeSlice_sizes vgpu_device_capability.homogeneous_placements "
        "vgpu_device_capability.mig_timeSlicing vgpu_device_capability.mig_timeSlicing_mode "
        "pcie.link.gen.current pcie.link.gen.gpucurrent pcie.link.gen.max pcie.link.gen.gpumax pcie.link.gen.hostmax "
        "pcie.link.width.current pcie.link.width.max addressing_mode driver_model.current driver_model.pending "
        "vbios_version inforom.img inforom.oem inforom.ecc inforom.pwr gpu_recovery_action "
        "gom.current gom.pending pstate display_attached inforom.checksum_validation hostname "
        "accounting.mode accounting.buffer_size serial dramEncryption.mode.current dramEncryption.mode.pending "
        "ecc.mode.current ecc.mode.pending temperature.gpu.tlimit power.management mig.mode.current "
        "mig.mode.pending fabric.state fabric.status gsp.mode.current gsp.mode.default c2c.mode "
        "protected_memory.total protected_memory.used protected_memory.free "
        "encoder.stats.sessionCount encoder.stats.averageFps encoder.stats.averageLatency retired_pages.pending "
        "retired_pages.single_bit_ecc.count retired_pages.double_bit.count platform.chassis_serial_number "
        "platform.slot_number platform.tray_index platform.host_id platform.peer_type platform.module_id "
        "platform.gpu_fabric_guid fabric.cliqueId fabric.clusterUuid"
    ),
    *_below(
        "fabric.health",
        "summary bandwidth route_recovery_in_progress route_unhealthy access_timeout_recovery incorrect_configuration "
        "partition_assigned",
    ),
    *_below(
        "clocks_event_reasons_counters",
        "sw_power_cap sync_boost sw_thermal_slowdown hw_thermal_slowdown hw_power_brake_slowdown",
    ),
    *_below("ecc.errors.uncorrected.volatile.sram", "parity secded"),
    *_below("ecc.errors.uncorrected.aggregate.sram", "parity secded thresholdExceeded l2 sm mcu pcie other"),
    *_below(
        "remapped_rows",
        "correctable correctable_inactive uncorrectable uncorrectable_inactive pending failure "
        "histogram.max histogram.high histogram.partial histogram.low histogram.none",
    ),
    *_below(
        "power_smoothing",
        "delayed_power_smoothing_supported primary_power_floor secondary_power_floor "
        "min_primary_floor_activation_offset min_primary_floor_activation_point window_multiplier",
    ),
    *(
        field
        for whose in ("curr_profile", "admin_override")
        for field in _below(
            f"power_smoothing.{whose}",
            "secondary_power_floor primary_floor_act_window_multiplier primary_floor_tar_window_multiplier "
            "primary_floor_act_offset",
        )
    ),
    *_below("clocks_event_reasons", _REASONS),
    *_unknown(
        "power.draw power.draw.average power.draw.instant power.limit enforced.power.limit power.default_limit "
        "power.min_limit power.max_limit module.power.draw.average module.power.draw.instant module.power.limit "
        "module.enforced.power.limit module.power.default_limit module.power.min_limit module.power.max_limit",
        "W",
    ),
    *_unknown("fan.speed utilization.encoder utilization.decoder utilization.jpeg utilization.ofa", "%"),
    *_unknown(
        "clocks.current.video clocks.applications.graphics clocks.applications.memory "
        "clocks.default_applications.graphics clocks.default_applications.memory",
        "MHz",
    ),
    *(
        field
        for errors in ("corrected", "uncorrected")
        for life in ("volatile", "aggregate")
        for field in _below(
            f"ecc.errors.{errors}.{life}",
            "device_memory dram register_file l1_cache l2_cache texture_memory cbu sram total",
        )
    ),
)
_OF_USER: dict[str, Field] = _fields(
    Field("timestamp", value=lambda pair, moment: moment.stamp),
    Field("gpu_name", value=lambda pair, moment: pair[0].device.name),
    Field("gpu_bus_id", value=lambda pair, moment: pair[0].bus_id),
    Field("gpu_serial"),
    Field("gpu_uuid", value=lambda pair, moment: pair[0].device.uuid),
    Field("pid", value=lambda pair, moment: pair[1].pid),
    Field("process_name", value=lambda pair, moment: pair[1].name),
    Field("used_gpu_memory", "MiB", lambda pair, moment: _mib(pair[1].held)),
)
#: Other names of fields; the table header has the field's own.
_ALIASES_OF_GPU = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "gpu_serial": "serial",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.video": "clocks.current.video",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
    "clocks.applications.gr": "clocks.applications.graphics",
    "clocks.applications.mem": "clocks.applications.memory",
    "clocks.default_applications.gr": "clocks.default_applications.graphics",
    "clocks.default_applications.mem": "clocks.default_applications.memory",
    "inforom.image": "inforom.img",
    # names in drivers before 535
    **{f"clocks_throttle_reasons.{reason}": f"clocks_event_reasons.{reason}" for reason in _REASONS.split()},
    "inforom.power": "inforom.pwr",
    "gpu_operation_mode.current": "gom.current",
    "gpu_operation_mode.pending": "gom.pending",
    "retired_pages.sbe": "retired_pages.single_bit_ecc.count",
    "retired_pages.dbe": "retired_pages.double_bit.count",
    "remapped_rows.sbe": "remapped_rows.correctable",
    "remapped_rows.dbe": "remapped_rows.uncorrectable",
    "gpu.power.draw.average": "power.draw.average",
    "gpu.power.draw.instant": "power.draw.instant",
    "gpu.power.requested_limit": "power.limit",
    "gpu.power.current_limit": "enforced.power.limit",
    "gpu.power.default_limit": "power.default_limit",
    "gpu.power.min_limit": "power.min_limit",
    "gpu.power.max_limit": "power.max_limit",
    "module.power.requested_limit": "module.power.limit",
    "module.power.current_limit": "module.enforced.power.limit",
}
_ALIASES_OF_USER = {"name": "process_name", "used_memory": "used_gpu_memory"}


def find(name: str, fields: Mapping[str, Field], aliases: Mapping[str, str]) -> Field | None:
    """Return the field with a name, if there is one."""
    return fields.get(aliases.get(name, name))


def of_gpu(name: str) -> Field | None:
    """Return a field of ``--query-gpu``."""
    return find(name, _OF_GPU, _ALIASES_OF_GPU)


def of_user(name: str) -> Field | None:
    """Return a field of ``--query-compute-apps``."""
    return find(name, _OF_USER, _ALIASES_OF_USER)


def names(of_users: bool) -> list[list[str]]:
    """Return every field, with all its names."""
    fields, aliases = (_OF_USER, _ALIASES_OF_USER) if of_users else (_OF_GPU, _ALIASES_OF_GPU)
    return [[name, *(other for other, own in aliases.items() if own == name)] for name in fields]


def users(gpus: list[Gpu]) -> list[tuple[Gpu, User]]:
    """Return each process with each GPU that it uses."""
    return [(gpu, user) for gpu in gpus for user in gpu.users]
