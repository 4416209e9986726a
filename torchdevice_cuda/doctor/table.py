"""The checks, in the order in which they start: their purpose, and where they apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ..drivers.traits import NONE, Trait

_NO_SETTINGS: Mapping[str, str] = {}
_FAITHFUL = {"policy": "faithful"}


@dataclasses.dataclass(frozen=True)
class Check:
    """One check: a program of ``checks``, and how it is run."""

    name: str
    why: str
    #: The module to run.
    program: str
    #: Seconds that it usually takes, for the announcement.
    usual: float = 10
    #: Seconds for one of its questions. Longer is a hang.
    limit: float = 20
    #: The traits that the driver must have and must not have, and other reasons to skip it.
    traits: Trait = NONE
    without: Trait = NONE
    otherwise: str = ""
    #: Settings that it fixes, whatever the user's are.
    settings: Mapping[str, str] = dataclasses.field(default_factory=lambda: _NO_SETTINGS)
    #: Whether it runs on stock torch, without patches.
    bare: bool = False
    #: Whether it measures times: nothing else runs beside it.
    alone: bool = False
    #: A package that it needs.
    needs: str | None = None
    #: Whether it is about the user's machine: it runs in the user's environment, even if the device does not start.
    untouched: bool = False
    #: Whether its questions are independent: after a hang or crash the others run in another process.
    resumes: bool = True

    def unfit(self, traits: Trait) -> str:
        """Return why it does not apply to a driver with these traits; empty if it does."""
        fits = self.traits in traits and not (self.without and self.without in traits)
        return "" if fits else self.otherwise


def _program(name: str) -> str:
    return f"{__package__}.checks.{name}"


#: Runs first, alone: if it fails, the others are not run.
START = Check(
    "start", "the driver comes up, and the device says what it is", _program("start"), limit=60, resumes=False
)
_NO_LIMITS = "only an Apple GPU refuses operators and dtypes"
_BOTH = "the CPU is all there is to redirect to"

CHECKS: tuple[Check, ...] = (
    START,
    Check(
        "installation",
        "what is installed, found and set here, with advice",
        _program("installation"),
        limit=30,
        bare=True,
        untouched=True,
    ),
    Check("compile", "torch.compile of a model, whole, with gradients", _program("compiling"), limit=180),
    Check("processes", "fork, spawn, and the workers of a DataLoader", _program("processes"), limit=60),
    Check("events", "times, orders and waiting; a queue that is idle says so", _program("events"), limit=15),
    Check(
        "refusals",
        "each row of the table of refusals: refused in the words that we know, or computed",
        _program("refusals"),
        traits=Trait.PARTIAL,
        otherwise=_NO_LIMITS,
        bare=True,
    ),
    Check("memory", "figures move, and come back; memory that runs out", _program("memory")),
    Check(
        "lending",
        "the GPU's memory in the hands of the host: in place or as copies, and both see it",
        _program("lending"),
        traits=Trait.PARTIAL,
        otherwise="the device's memory is the host's",
        settings=_FAITHFUL,
    ),
    Check(
        "mlx",
        "what MLX computes for operators that the GPU lacks, against the CPU",
        _program("mlx_numbers"),
        traits=Trait.PARTIAL,
        otherwise=_NO_LIMITS,
        bare=True,
        needs="mlx.core",
    ),
    *(
        Check(
            f"training, {policy}",
            f"a conv net learns as on the CPU, in float32 and with amp, under the policy {policy}",
            _program("training"),
            limit=60,
            without=without,
            otherwise=_BOTH,
            settings={"policy": policy},
        )
        for policy, without in (("accelerate", Trait.CPU_TENSORS), ("faithful", NONE))
    ),
    Check(
        "mixed",
        "tensors of the CPU among the GPU's are refused, and end no process",
        _program("mixed"),
        without=Trait.CPU_TENSORS,
        otherwise="tensors of the GPU are tensors of the CPU here, and mix",
        settings=_FAITHFUL,
    ),
    Check(
        "numbers",
        "float64, complex128, unaligned copies, linear algebra, operators that the GPU lacks",
        _program("numbers"),
        settings=_FAITHFUL,
    ),
    Check(
        "identity",
        "the program sees CUDA, in texts and errors too",
        _program("identity"),
        without=Trait.CPU_TENSORS,
        otherwise="tensors say cpu here, which is what they are",
    ),
    Check(
        "speed",
        "the GPU, MLX and the CPU, for the operators that MLX computes",
        _program("speed"),
        limit=30,
        traits=Trait.PARTIAL,
        otherwise=_NO_LIMITS,
        bare=True,
        alone=True,
    ),
)
NAMES = tuple(check.name for check in CHECKS)
