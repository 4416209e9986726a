"""Rules: the effect of a use of CUDA on each driver. A rule has a sample, which the tests run on the drivers.

A name of ``torch.cuda`` that is in no rule works: all of it is served.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ...settings import hidden
from ...settings.setting_support import CPU, CUDA, MPS, VIRTUAL

WORKS, FALLBACK, DIFFERS, UNSUPPORTED = "works", "works by fallback", "differs", "unsupported"
#: The worst first.
VERDICTS = (UNSUPPORTED, DIFFERS, FALLBACK, WORKS)
#: Drivers without NVIDIA's hardware.
ELSEWHERE = (MPS, VIRTUAL, CPU)
ALL = (CUDA, *ELSEWHERE)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The effect of a use, and the advice."""

    what: str
    advice: str = ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """Names of one kind. On drivers that are not among ``on`` they work."""

    identity: str
    names: tuple[str, ...]
    on: Mapping[str, Verdict]
    sample: str | None = None  # code that uses it

    def verdict(self, driver: str) -> Verdict:
        """Return the verdict on a driver."""
        return self.on.get(driver, Verdict(WORKS))


def _rule(
    identity: str, names: str, drivers: tuple[str, ...], what: str, advice: str, sample: str | None = None
) -> Rule:
    return Rule(identity, tuple(names.split()), dict.fromkeys(drivers, Verdict(what, advice)), sample)


RULES = (
    _rule(
        "graphs",
        "torch.cuda.graph torch.cuda.CUDAGraph torch.cuda.graphs.graph torch.cuda.graphs.CUDAGraph "
        "torch.cuda.make_graphed_callables torch.cuda.graphs.make_graphed_callables",
        (MPS, CPU),
        DIFFERS,
        "captured and replayed, call by call; graphs hold their memory, and not all that CUDA refuses is refused",
        "g = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n    torch.zeros(1, device='cuda')",
    ),
    _rule(
        "extensions",
        "torch.utils.cpp_extension.CUDAExtension torch.utils.cpp_extension.load_inline torch.utils.cpp_extension.load",
        (MPS,),
        DIFFERS,
        "functions of extensions run on the processor and may not keep tensors; the virtual driver lets them",
    ),
    _rule(
        "kernels",
        "torch.cuda._compile_kernel torch.cuda.jiterator._create_jit_fn "
        "torch.cuda.jiterator._create_multi_output_jit_fn",
        (MPS,),
        FALLBACK,
        "kernels of CUDA C++ work on copies of the tensors, on the host's cores",
        "torch.cuda._compile_kernel('__global__ void f() {}', 'f')",
    ),
    Rule(
        "triton",
        ("triton.jit", "triton.autotune", "triton.language"),
        {
            MPS: Verdict(UNSUPPORTED, "Triton has no release for macOS"),
            **dict.fromkeys(
                (VIRTUAL, CPU),
                Verdict(DIFFERS, "Triton's kernels are compiled for the host's cores: the same results, another speed"),
            ),
        },
    ),
    _rule(
        "cuda-libraries",
        "cupy pycuda cudf cuml tensorrt torch_tensorrt cuda.bindings cuda.core",
        ELSEWHERE,
        UNSUPPORTED,
        "this library talks to NVIDIA's driver itself",
    ),
    _rule(
        "hidden",
        " ".join(hidden.REASONS),
        ELSEWHERE,
        DIFFERS,
        "it sees no CUDA and takes its portable branch; --hide-from none shows it CUDA",
    ),
    _rule(
        "aot",
        "torch._inductor.aoti_compile_and_package torch._inductor.aot_compile torch._export.aot_compile",
        ELSEWHERE,
        UNSUPPORTED,
        "AOTInductor makes libraries for a real GPU; torch.compile and torch.export work",
    ),
    _rule(
        "power",
        "torch.cuda.power_draw",
        ELSEWHERE,
        UNSUPPORTED,
        "a host shows no such sensor; catch RuntimeError",
        "torch.cuda.power_draw()",
    ),
    _rule(
        "is_cuda",
        ".is_cuda",
        (CPU,),
        DIFFERS,
        "tensors say cpu there, which is what they are; the virtual driver's say cuda",
        "assert torch.zeros(1, device='cuda').is_cuda",
    ),
    _rule(
        "float64",
        "torch.float64 torch.double .double torch.complex128",
        (MPS,),
        DIFFERS,
        "the Apple GPU has no float64: it becomes float32 with a warning; --float64 cpu keeps it on the CPU",
    ),
    _rule(
        "nccl",
        "nccl",
        ELSEWHERE,
        DIFFERS,
        "NCCL's collectives go over Gloo: the same results, another speed",
    ),
    _rule(
        "several",
        "cuda:1 cuda:2 cuda:3 cuda:4 cuda:5 cuda:6 cuda:7",
        (MPS,),
        UNSUPPORTED,
        "there is one Apple GPU",
    ),
    Rule(
        "more-than-one",
        (),
        {driver: Verdict(DIFFERS, "there is one GPU unless --devices says otherwise") for driver in (VIRTUAL, CPU)},
    ),
    _rule(
        "timing",
        "torch.cuda.Event torch.cuda.utilization torch.cuda.memory_usage torch.cuda.temperature torch.cuda.clock_rate",
        (VIRTUAL, CPU),
        DIFFERS,
        "times and loads are the host's, not a GPU's",
        "e = torch.cuda.Event(enable_timing=True)\ne.record()",
    ),
    _rule(
        "memory",
        "torch.cuda.memory_allocated torch.cuda.max_memory_allocated torch.cuda.memory_reserved "
        "torch.cuda.max_memory_reserved torch.cuda.memory_stats torch.cuda.memory_summary torch.cuda.memory_snapshot",
        (CPU,),
        DIFFERS,
        "figures are the process's resident memory since first use; the virtual driver counts every allocation",
        "torch.cuda.memory_stats()",
    ),
)
BY_NAME = {name: rule for rule in RULES for name in rule.names}
#: Device names after the first.
SEVERAL = BY_NAME["cuda:1"]
MORE = next(rule for rule in RULES if rule.identity == "more-than-one")


def of_device(text: str, driver: str) -> tuple[str, Verdict]:
    """Return the rule of a device name."""
    if text in SEVERAL.names:
        rule = SEVERAL if driver in SEVERAL.on else MORE
        return rule.identity, rule.verdict(driver)
    return "device", Verdict(WORKS)


def of_name(name: str, driver: str) -> tuple[str, Verdict] | None:
    """Return the rule of a name of torch or of a library; ``None`` if there is none."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        rule = BY_NAME.get(".".join(parts[:length]))
        if rule is not None:
            return rule.identity, rule.verdict(driver)
    return None
