"""The table of settings: for each a field of :class:`Settings` and an :class:`Option`, and the drivers.

``--help``, shell completion and the tables of ``docs/settings.md`` are written from this table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from . import gpus, hidden, sanitizer, stand_ins, world
from .setting_support import CPU, CUDA, MPS, VIRTUAL, Ignored, Refused
from .values import (
    read_bytes,
    read_capability,
    read_count,
    read_destination,
    read_name,
    read_one_of,
    read_streams,
    write_lower,
    write_streams,
    write_version,
)
from .variables import SWITCH_VALUES, read_switch, write_switch

DEFAULT_CAPABILITY = (7, 0)
#: The GPU model whose times were recorded.
REHEARSED = "h200"
#: Every driver, in the order in which ``auto`` tries them, with its module.
DRIVERS = {
    CUDA: "torchdevice_cuda.drivers.cuda.driver",
    MPS: "torchdevice_cuda.drivers.mps.driver",
    VIRTUAL: "torchdevice_cuda.drivers.virtual.driver",
    CPU: "torchdevice_cuda.drivers.cpu.driver",
}
#: Groups of ``--help``.
GPU, RUNNING, OUTPUT = "the GPU that the program sees", "how it runs", "what is reported"
APPLE = "Apple GPUs"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The user's choices. A field that is ``None`` leaves the choice to the driver."""

    driver: str = "auto"
    policy: str | None = None
    allow_redirects: bool = False
    identity: str = "cuda"
    float64: str = "downcast"
    devices: int = 1
    memory: int | None = None
    gpu: str | None = None
    capability: tuple[int, int] | None = None
    name: str | None = None
    log_level: str = "WARNING"
    report: str | None = None
    fallback: str = "allow"
    mlx: str = "auto"
    refusal_cache: str = "memory"
    visible_devices: str | None = None
    build: bool = True
    emulate_mps: bool = False
    nvidia_smi: bool = False
    hide_from: tuple[str, ...] = hidden.DEFAULT
    compile: str = "cpp"
    triton: str = "compiled"
    check_streams: str = "off"
    clock: str = "host"
    rehearse: str = "off"
    #: the ranks of the rehearsal; ``None``: process groups are real
    world: world.World | None = None
    stand_ins: tuple[str, ...] = ()
    #: the seed of an adversarial order; ``None``: work runs when it is issued
    streams: int | None = None
    #: the tools that check kernels, with the seed of the order of blocks; see :mod:`.sanitizer`
    sanitize: str = ""

    @property
    def profile(self) -> gpus.Gpu | None:
        """Return the GPU model that the device reports; a rehearsal is for an H200 if none is chosen."""
        chosen = self.gpu or (REHEARSED if self.rehearse != "off" else None)
        return None if chosen is None else gpus.find(chosen)

    @property
    def claimed_capability(self) -> tuple[int, int]:
        """Return the chosen compute capability, else the profile's, else one for which programs use portable code."""
        of_profile = DEFAULT_CAPABILITY if self.profile is None else self.profile.capability
        return of_profile if self.capability is None else self.capability


@dataclasses.dataclass(frozen=True)
class Option:
    """The external form of a field of :class:`Settings`: its names, its reader and its description."""

    field: str
    group: str
    #: for ``--help`` and ``docs/settings.md``
    help: str
    allowed: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    variable: str = ""
    #: whether there is an option that takes a value
    has_flag: bool = True
    #: an option without a value that sets the opposite of the default, and its help
    switch: tuple[str, str] | None = None
    #: what the option without a value means; a value then follows an equals sign
    bare: str = ""
    #: the values, if they are few
    choices: tuple[str, ...] = ()
    #: a page of ``docs`` with details
    link: str = ""
    #: whether it affects the choice of the driver
    chooses_driver: bool = False
    #: drivers on which it has no effect
    exceptions: Mapping[str, Ignored | Refused] = dataclasses.field(default_factory=dict, hash=False)
    #: the field's name in the release before; it is accepted for one release
    old_field: str | None = None

    def __post_init__(self) -> None:
        """Derive the variable from the field."""
        object.__setattr__(self, "variable", self.variable or _name_variable(self.field))

    @property
    def flag(self) -> str | None:
        """Return the option that takes a value."""
        return _name_flag(self.field) if self.has_flag else None

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the variable, then its old name."""
        return (self.variable, *(() if self.old_field is None else (_name_variable(self.old_field),)))

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the option that takes a value, then its old name."""
        return tuple(_name_flag(name) for name in (self.field, self.old_field) if name is not None and self.has_flag)


def _name_variable(field: str) -> str:
    return f"TORCHDEVICE_{field.upper()}"


def _name_flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _choice(
    field: str, group: str, help: str, *choices: str, fold: Callable[[str], str] = str.lower, **more: Any
) -> Option:
    return Option(field, group, help, ", ".join(choices), read_one_of(*choices, fold=fold), choices=choices, **more)


def _switch(field: str, group: str, help: str, write: Callable[[Any], str] = write_switch, **more: Any) -> Option:
    return Option(field, group, help, SWITCH_VALUES, read_switch, write, has_flag=False, choices=("1", "0"), **more)


def _on(drivers: tuple[str, ...], exception: Ignored | Refused) -> dict[str, Ignored | Refused]:
    return dict.fromkeys(drivers, exception)


_ONE_DEVICE = {CPU: Ignored("the CPU is the only device")}
_ONLY_MPS = _on(tuple(name for name in DRIVERS if name != MPS), Ignored("only an Apple GPU lacks operators and dtypes"))


OPTIONS: tuple[Option, ...] = (
    Option(
        "driver",
        GPU,
        "driver that implements the GPU",
        ", ".join(("auto", *DRIVERS)),
        lambda text: read_one_of("auto", *DRIVERS)(text),
        choices=("auto", *DRIVERS),
        link="drivers.md",
        chooses_driver=True,
    ),
    Option(
        "gpu",
        GPU,
        "GPU model to report, with its name, capability, multiprocessors, clocks and, except on mps, memory",
        "a profile such as h200 (--gpu list), or a file such as ./my-gpu.toml",
        gpus.read,
        link="gpus.md",
        exceptions={CUDA: Refused("the real GPU determines which kernels run")},
    ),
    Option(
        "devices",
        GPU,
        "number of GPUs",
        "a whole number from 1 to 64",
        read_count,
        exceptions={
            CUDA: Refused("the program sees the installed GPUs; CUDA_VISIBLE_DEVICES hides some of them"),
            MPS: Refused("there is one Apple GPU, so tensors on a second would be on the first"),
        },
    ),
    Option(
        "memory",
        GPU,
        "memory of each GPU",
        "a size of 1 byte to 8191 PiB such as 512MiB, 16GiB or 8e9",
        read_bytes,
        exceptions={
            CUDA: Refused("the GPU's memory is fixed; torch.cuda.set_per_process_memory_fraction limits its use")
        },
    ),
    Option(
        "capability",
        GPU,
        "compute capability to report; the default, 7.0, makes programs choose portable kernels",
        "a compute capability such as 7.0 or 9.0",
        read_capability,
        write_version,
        exceptions={CUDA: Refused("the real GPU determines which kernels run")},
    ),
    Option(
        "name",
        GPU,
        "device name to report",
        "any text",
        read_name,
        exceptions={CUDA: Ignored("the GPU has its own name")},
    ),
    Option(
        "visible_devices",
        GPU,
        "GPUs that the program sees; read until the first use of CUDA",
        "as CUDA reads it",
        str,
        variable="CUDA_VISIBLE_DEVICES",
        has_flag=False,
    ),
    _choice(
        "policy",
        RUNNING,
        "device for requests that do not name CUDA",
        "accelerate",
        "faithful",
        link="drivers.md#policy",
        exceptions=_ONE_DEVICE,
    ),
    _switch(
        "allow_redirects",
        RUNNING,
        "true selects the policy accelerate; false keeps the driver's default",
        write_lower,
        variable="TORCH_ALLOW_REDIRECTS",
        exceptions=_ONE_DEVICE,
    ),
    _switch(
        "build",
        RUNNING,
        "whether the virtual GPU may be compiled",
        switch=("--no-build", "do not compile the virtual GPU"),
        chooses_driver=True,
    ),
    _switch(
        "nvidia_smi",
        RUNNING,
        "whether an nvidia-smi that shows these GPUs is on the program's PATH",
        variable="TORCHDEVICE_WITH_NVIDIA_SMI",
        switch=("--with-nvidia-smi", "put an nvidia-smi that shows these GPUs on the program's PATH"),
        link="monitoring.md",
        exceptions={CUDA: Ignored("NVIDIA's nvidia-smi is used")},
    ),
    Option(
        "hide_from",
        RUNNING,
        "libraries that see no CUDA",
        "names, default, none",
        hidden.read,
        hidden.write,
        link="monitoring.md#libraries-that-see-no-cuda",
        exceptions={CUDA: Ignored("a GPU runs the kernels of these libraries")},
    ),
    _choice(
        "compile",
        RUNNING,
        "language of the code that torch.compile generates for the GPU",
        "cpp",
        "triton",
        link="triton.md#torchcompile",
        exceptions={
            CUDA: Ignored("torch generates Triton for a real GPU"),
            MPS: Ignored("torch generates Metal for an Apple GPU"),
            CPU: Ignored("tensors are CPU tensors, for which torch generates C++"),
        },
    ),
    _choice(
        "triton",
        RUNNING,
        "how Triton kernels run (compiled for the host, by Triton's interpreter)",
        *("compiled", "interpreted"),
        link="triton.md",
        exceptions={CUDA: Ignored("a GPU runs Triton kernels itself")},
    ),
    _choice(
        "check_streams",
        RUNNING,
        "what to do about races: accesses of memory that no stream, event or wait orders",
        *("off", "warn", "error"),
        link="races.md",
        exceptions={
            CUDA: Refused("the order of work on a real GPU is not observed; run with --driver virtual"),
            MPS: Refused("the order of work on an Apple GPU is not observed; run with --driver virtual"),
            CPU: Refused("without a compiled device the order of work is not observed; run with --driver virtual"),
        },
    ),
    _choice(
        "clock",
        RUNNING,
        "whose time streams and events keep: this machine's, or that which the GPU of --gpu would need",
        *("host", "gpu"),
        link="rehearsal.md",
        exceptions={
            CUDA: Refused("a real GPU keeps its own time; run with --driver virtual"),
            MPS: Refused("an Apple GPU keeps its own time; run with --driver virtual"),
            CPU: Refused("without a compiled device there are no streams to time; run with --driver virtual"),
        },
    ),
    _choice(
        "rehearse",
        RUNNING,
        "predict a run on the GPU of --gpu without computing large tensors; strict: reading their values is an error",
        *("off", "on", "strict"),
        bare="on",
        link="rehearsal.md#rehearse",
        exceptions={
            CUDA: Refused("a real GPU computes; run with --driver virtual"),
            MPS: Refused("an Apple GPU computes; run with --driver virtual"),
            CPU: Refused("without a compiled device every tensor is computed; run with --driver virtual"),
        },
    ),
    Option(
        "world",
        RUNNING,
        "ranks of a rehearsal: one runs, the others and the time of collectives are simulated",
        world.ALLOWED,
        world.read,
        world.write,
        link="rehearsal.md#many-gpus",
        exceptions={
            CUDA: Refused("a real GPU does not rehearse; run with --driver virtual"),
            MPS: Refused("an Apple GPU does not rehearse; run with --driver virtual"),
            CPU: Refused("without a compiled device nothing is rehearsed; run with --driver virtual"),
        },
    ),
    Option(
        "sanitize",
        RUNNING,
        "tools that check CUDA C++ and Triton kernels, named after compute-sanitizer's",
        sanitizer.ALLOWED,
        sanitizer.read,
        sanitizer.write,
        link="sanitize.md",
        exceptions={CUDA: Refused("NVIDIA's compute-sanitizer checks the kernels of a real GPU")},
    ),
    Option(
        "stand_ins",
        RUNNING,
        "packages with CUDA kernels that stand-ins replace if they are not installed or do not load",
        f"names ({', '.join(stand_ins.STAND_INS)}), {stand_ins.ALL}, {stand_ins.NONE}",
        stand_ins.read,
        stand_ins.write,
        link="packages.md#stand-ins",
    ),
    Option(
        "streams",
        RUNNING,
        "when work of streams runs: at once, or when something waits for it, in an order that the seed chooses",
        "eager, adversarial, adversarial:SEED (the seed is a whole number, 0 by default)",
        read_streams,
        write_streams,
        link="adversarial-streams.md",
        exceptions={
            CUDA: Refused("a real GPU orders its work itself"),
            MPS: Refused("the Apple GPU orders its work itself"),
            CPU: Refused("tensors are CPU tensors, whose operators run at once"),
        },
    ),
    _switch(
        "emulate_mps",
        RUNNING,
        "whether mps uses an emulated Apple GPU",
        link="apple-gpu.md#without-a-mac",
        chooses_driver=True,
    ),
    Option(
        "report",
        OUTPUT,
        "write a report (.html, .json or text) at exit",
        "a path that can be written, or - for standard error",
        read_destination,
        link="report.md",
    ),
    _choice(
        "log_level",
        OUTPUT,
        "level of the logger torchdevice_cuda; INFO logs each redirected request once per call site, and settings "
        "without effect",
        *("DEBUG", "INFO", "WARNING", "ERROR"),
        fold=str.upper,
    ),
    _choice(
        "identity",
        APPLE,
        "device that a tensor on the GPU reports",
        "cuda",
        "native",
        exceptions={
            **_on((CUDA, VIRTUAL), Ignored("tensors are CUDA tensors")),
            CPU: Ignored("tensors are CPU tensors and report cpu"),
        },
    ),
    _choice("float64", APPLE, "treatment of float64 tensors", "downcast", "cpu", "raise", exceptions=_ONLY_MPS),
    _choice(
        "fallback",
        APPLE,
        "treatment of operators that run on MLX or the CPU",
        *("allow", "warn", "error"),
        exceptions=_ONLY_MPS,
    ),
    _choice(
        "mlx",
        APPLE,
        "use of MLX for operators that MPS lacks (where it is faster, never, wherever possible)",
        *("auto", "off", "always"),
        exceptions=_ONLY_MPS,
    ),
    _choice(
        "refusal_cache",
        APPLE,
        "where dtypes that MPS refused are cached (in the process, on disk)",
        *("memory", "disk"),
        exceptions=_ONLY_MPS,
        old_field="refusals",
    ),
)

#: By the field's name and its old name.
BY_FIELD: dict[str, Option] = {
    name: option for option in OPTIONS for name in (option.field, option.old_field) if name is not None
}


def find_exception(field: str, driver: str) -> Ignored | Refused | None:
    """Return why a setting has no effect on a driver; ``None`` if it has."""
    return BY_FIELD[field].exceptions.get(driver)
