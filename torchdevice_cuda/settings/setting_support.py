"""What each setting means on each driver: it acts, it means nothing, or it is refused.

A setting that is accepted acts. One that cannot act on the driver in use is named in the log at INFO. One that would
mislead is refused: the program would believe in something that is not so.

A setting that is in no row here acts on every driver. Docs: the table of ``docs/settings.md`` is written from this one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

CUDA, MPS, VIRTUAL, CPU = "cuda", "mps", "virtual", "cpu"


@dataclasses.dataclass(frozen=True)
class Ignored:
    """Where a setting does not act, and why that does no harm."""

    why: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """Where a setting does not act, and why it would mislead to go on as if it did."""

    why: str


Meaning = Ignored | Refused


def _on(drivers: tuple[str, ...], meaning: Meaning) -> dict[str, Meaning]:
    return dict.fromkeys(drivers, meaning)


_NO_ACCELERATOR = Ignored("the CPU is all there is to redirect to")
_HAS_ALL = Ignored("only an Apple GPU refuses operators and dtypes")
#: Settings that act before there is a driver, on which one it is to be.
CHOOSING = ("driver", "build", "emulate_mps")
#: By the setting's field and the driver's name.
EXCEPTIONS: dict[str, Mapping[str, Meaning]] = {
    "policy": {CPU: _NO_ACCELERATOR},
    "allow_redirects": {CPU: _NO_ACCELERATOR},
    "identity": {
        **_on((CUDA, VIRTUAL), Ignored("tensors are CUDA's")),
        CPU: Ignored("tensors say cpu, which is what they are"),
    },
    "float64": _on((CUDA, VIRTUAL, CPU), _HAS_ALL),
    "devices": {
        CUDA: Refused("the program sees the GPUs that there are; CUDA_VISIBLE_DEVICES hides some of them"),
        MPS: Refused("there is one Apple GPU, and what a program sends to a second would be on the first"),
    },
    "memory": {CUDA: Refused("the GPU has the memory it has; torch.cuda.set_per_process_memory_fraction limits it")},
    "gpu": {CUDA: Refused("the GPU is what it is, and kernels are chosen by it")},
    "capability": {CUDA: Refused("the GPU has the capability it has, and kernels are chosen by it")},
    "name": {CUDA: Ignored("the GPU has its own")},
    "fallback": _on((CUDA, VIRTUAL, CPU), _HAS_ALL),
    "mlx": _on((CUDA, VIRTUAL, CPU), _HAS_ALL),
    "refusals": _on((CUDA, VIRTUAL, CPU), _HAS_ALL),
    "nvidia_smi": {CUDA: Ignored("NVIDIA's own is there")},
    "hide_from": {CUDA: Ignored("a GPU runs what they choose for it")},
}


def meaning(field: str, driver: str) -> Meaning | None:
    """What a setting means on a driver beyond acting; ``None`` where it acts."""
    return EXCEPTIONS.get(field, {}).get(driver)
