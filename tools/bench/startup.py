"""Measure the start-up cost of torchdevice_cuda.

    python tools/bench/startup.py [--runs 100] [--torch-runs 15]

Two fresh virtual environments that see this python's packages and this checkout, one of them with the shim installed by
pip. The cases take turns, so that whatever else the machine does falls on all of them alike; medians are compared.
"stock again" is stock measured a second time: what it differs by is noise.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def make_environment(folder: Path, *, shim: bool, see: Iterable[str | Path]) -> Path:
    """Return a virtual environment with the folders of ``see`` on its path, and the shim if asked for; its python."""
    venv.create(folder, symlinks=True, with_pip=False)
    python = folder / "bin" / "python"
    site_packages = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": str(folder)}))
    # A path file, not PYTHONPATH: the environment then works under -E and -I, and PYTHONPATH stays free for tests.
    (site_packages / "aaa_see.pth").write_text("".join(f"{entry}\n" for entry in see))
    if shim:
        source = folder / "source" / "shim"  # building leaves traces beside the sources
        version = Path("torchdevice_cuda", "_version.py")
        (folder / "source" / version).parent.mkdir(parents=True)
        shutil.copy(REPOSITORY / version, folder / "source" / version)
        shutil.copytree(REPOSITORY / "shim", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
        quiet = ("--quiet", "--disable-pip-version-check")
        offline = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")
        subprocess.run(
            [sys.executable, "-m", "pip", *quiet, "--python", python, "install", *offline, source], check=True
        )
    return python


def our_packages() -> list[str]:
    """Return the folder of this Python's installed packages."""
    return list(dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")))


@dataclasses.dataclass
class Case:
    """A way of starting Python, and the seconds that each run took."""

    title: str
    command: list[str]
    auto: str | None = None
    wall: list[float] = dataclasses.field(default_factory=list)
    cpu: list[float] = dataclasses.field(default_factory=list)

    def run(self) -> None:
        """Start it once and note how long it took."""
        environment = {
            name: value
            for name, value in os.environ.items()
            # Without PYTHONDONTWRITEBYTECODE: the checkout is to run from compiled files, as an installation does.
            if not name.startswith("TORCHDEVICE_") and name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        }
        if self.auto is not None:
            environment["TORCHDEVICE_AUTO"] = self.auto
        start = time.perf_counter()
        child = os.posix_spawn(self.command[0], self.command, environment)
        _, status, usage = os.wait4(child, 0)
        self.wall.append(time.perf_counter() - start)
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        if status:
            raise SystemExit(f"{self.title}: {self.command} failed with status {os.waitstatus_to_exitcode(status)}")


def measure(cases: list[Case], runs: int) -> None:
    """Run the cases in turn, in another order each time."""
    for case in cases:
        case.run()  # compiled files are written, the disk cache is filled
        case.wall.clear()
        case.cpu.clear()
    for _ in range(runs):
        for case in random.sample(cases, len(cases)):
            case.run()


def table(title: str, cases: list[Case]) -> str:
    """Medians, and how each differs from the first case's."""
    stock_wall, stock_cpu = (statistics.median(values) for values in (cases[0].wall, cases[0].cpu))
    lines = [f"{title:<24}{'wall':>11}{'vs stock':>12}{'ratio':>8}{'cpu':>13}{'vs stock':>12}{'runs':>6}"]
    for case in cases:
        wall, cpu = statistics.median(case.wall), statistics.median(case.cpu)
        lines.append(
            f"  {case.title:<22}{wall * 1e3:>8.2f} ms{(wall - stock_wall) * 1e3:>+9.2f} ms{wall / stock_wall:>8.3f}"
            f"{cpu * 1e3:>10.2f} ms{(cpu - stock_cpu) * 1e3:>+9.2f} ms{len(case.wall):>6}"
        )
    return "\n".join(lines)


def data(title: str, cases: list[Case]) -> list[dict[str, object]]:
    """Return the figures for a program: each case's median beside that of the first."""
    stock = statistics.median(cases[0].wall)
    return [
        {
            "what": f"{title}: {case.title}",
            "ms": statistics.median(case.wall) * 1e3,
            "ratio": statistics.median(case.wall) / stock,
        }
        for case in cases[1:]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=100, help="runs of each case of `python -c pass` (100)")
    parser.add_argument("--torch-runs", type=int, default=15, help="runs of each case of `import torch` (15)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="startup-") as folder:
        see = [*our_packages(), REPOSITORY]
        stock = str(make_environment(Path(folder, "stock"), shim=False, see=see))
        shim = str(make_environment(Path(folder, "shim"), shim=True, see=see))
        nothing = [
            Case("stock", [stock, "-c", "pass"]),
            Case("stock again", [stock, "-c", "pass"]),
            Case("shim off", [shim, "-c", "pass"]),
            Case("shim on", [shim, "-c", "pass"], auto="1"),
            Case("command line", [stock, "-m", "torchdevice_cuda", "-c", "pass"]),
        ]
        measure(nothing, options.runs)
        if not options.json:
            print(table("python -c pass", nothing), flush=True)
        shadowed = "import torch; assert torch.cuda.__file__.startswith({!r}), torch.cuda.__file__"
        torch = [
            Case("stock", [stock, "-c", "import torch"]),
            Case("stock again", [stock, "-c", "import torch"]),
            Case("shim on", [shim, "-c", shadowed.format(str(REPOSITORY))], auto="1"),
            Case("command line", [stock, "-m", "torchdevice_cuda", "-c", "import torch"]),
        ]
        measure(torch, options.torch_runs)
        if options.json:
            print(json.dumps(data("python -c pass", nothing) + data("import torch", torch), indent=1))
        else:
            print(table("import torch", torch))


if __name__ == "__main__":
    main()
