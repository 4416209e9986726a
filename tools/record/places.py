"""The devices that cases run on: stock torch on the CPU, a real GPU, or a driver; each in child processes."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: In the environment of cases: the options that start another program at the same place.
LAUNCHER = "RECORD_LAUNCHER"


@dataclasses.dataclass(frozen=True)
class Place:
    """The command that starts a program on a device."""

    name: str
    options: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    #: Whether a fork of a process that has imported torch may use the device.
    forks: bool = True

    @property
    def device(self) -> str:
        return "cpu" if self.name == "stock" else "cuda"

    @property
    def launcher(self) -> list[str]:
        return ["-m", "torchdevice_cuda", *self.options] if self.options else []

    def make_environment(self) -> dict[str, str]:
        """Return the environment of a child, in which the repository can be imported."""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        given = {**dict(self.environment), "PYTHONPATH": path, LAUNCHER: " ".join(self.launcher)}
        return {**os.environ, **given}

    def with_options(self, *options: str) -> Place:
        """Return this place with other options of the driver's."""
        return dataclasses.replace(self, options=("--driver", self.name, *options)) if self.options else self


_EMULATED = (("TORCHDEVICE_EMULATE_MPS", "1"),)
_MPS = ("--driver", "mps", "--policy", "faithful")
PLACES = {
    place.name: place
    for place in (
        Place("stock", environment=(("CUDA_VISIBLE_DEVICES", ""),)),
        Place("cuda"),
        Place("virtual", ("--driver", "virtual", "--gpu", "h200")),
        Place("cpu", ("--driver", "cpu", "--gpu", "h200")),
        Place("mps", _MPS, _EMULATED, forks=False),
        Place("mps --float64 cpu", (*_MPS, "--float64", "cpu"), _EMULATED, forks=False),
    )
}
