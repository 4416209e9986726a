"""Compare our code's assumptions about a Mac with the wheels for macOS, on any machine.

    python tools/mac_wheel [--json FILE] [--newest] [--every] [--torch VERSION ...] [--native]          # needs ".[mac]"

The wheels of torch (the newest that was reviewed, the oldest that we support, the one that is installed here), mlx and
pyobjc are asked of pip and kept in the user's cache. Where they cannot be had it says so in one line and ends well.
What is compared is in ``checks.py``; texts that look like refusals and are none are in ``reviewed.txt``, with reasons.
``--newest``, ``--every`` (each supported release) and ``--torch`` add releases, which differ in what they have and
refuse. ``--native`` also compiles and links the native part for macOS, which takes minutes. The exit status is 1 if
anything differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

try:
    import checks
    import compiling
    import ours
    import texts
    import wheels
    from torch_facts import read
except ImportError as error:
    sys.exit(f"mac_wheel: {error}; pip install -e '.[mac]'")
import torch  # noqa: E402

from torchdevice_cuda import _compat, settings  # noqa: E402
from torchdevice_cuda.fallback import mlx_ops, refusals  # noqa: E402
from torchdevice_cuda.translate import patches  # noqa: E402

#: The newest known release and the oldest supported one.
RECENT, OLDEST = (f"torch=={major}.{minor}.0" for major, minor in (_compat.NEWEST_KNOWN, _compat.MINIMUM))
INSTALLED = f"torch=={torch.__version__.partition('+')[0]}"
OTHERS = ("mlx", "mlx-metal", "pyobjc-core", "pyobjc-framework-Metal")


def have(requirements: Sequence[str], folder: Path) -> tuple[dict[str, wheels.Wheel], str]:
    """Return the wheels, by what was asked for; why one is missing."""
    found = {}
    folder.mkdir(parents=True, exist_ok=True)
    for requirement in requirements:
        wheel = wheels.find(requirement, folder) if "==" in requirement else None
        why = "" if wheel else wheels.download(requirement, folder)
        wheel = wheel or wheels.find(requirement, folder)
        if wheel is None:
            return {}, f"{requirement}: {why}"
        found[requirement] = wheel
    return found, ""


def results(found: dict[str, wheels.Wheel]) -> Iterator[checks.Result]:
    """Every check, in order."""
    known = texts.reviewed(HERE / "reviewed.txt")
    may_lack = _compat.NOT_EVERYWHERE
    targets = [target for patch in patches.registered() for target in patch.targets]
    torch_c, torch_mps = ours.torch_c(), ours.torch_mps(targets=targets)
    words = ours.words_of_the_double() + ours.words_of_rows()
    patterns = [evidence.words for evidence in refusals.TABLE]
    yield checks.python_files(found[INSTALLED], Path(torch.__file__).parents[1])
    every = []
    for wheel in {str(wheel): wheel for wheel in found.values() if wheel.name == "torch"}.values():
        facts = read(wheel, {use.name for use in torch_c})
        every.append(facts)
        yield checks.torch_c(facts, torch_c, may_lack)
        yield checks.torch_mps(facts, torch_mps, may_lack)
        yield from checks.operators(facts, known[checks.OPERATORS])
        yield checks.refusals_known(facts, patterns, known[checks.REFUSALS])
        yield checks.pins(facts)
        yield checks.macos(facts, _compat.least_macos(str(wheel.version)))
    # The double is that of the torch that is installed, and says what the newest says unless somebody has looked at it.
    for facts in (every[0], *(facts for facts in every[1:] if facts.name == str(found[INSTALLED]))):
        yield checks.words_of_the_double(facts, words, known[checks.DOUBLE])
    yield checks.refusals_said(every, patterns, known[checks.BETWEEN])
    yield checks.mlx(found["mlx"], ours.mlx() + ours.mlx_by_table(entry.function for entry in mlx_ops.TABLE.values()))
    yield checks.metal_library(found["mlx-metal"])
    yield checks.metal(found["pyobjc-framework-Metal"], *ours.metal())


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    parser.add_argument("--native", action="store_true", help="also compile and link the native part; minutes")
    parser.add_argument("--torch", nargs="+", default=[], metavar="VERSION", help="further releases of torch")
    parser.add_argument("--newest", action="store_true", help="also the newest release that pip finds")
    parser.add_argument("--every", action="store_true", help="every supported release; about 100 MB each")
    options = parser.parse_args()
    newest = "torch" if options.newest else RECENT
    every = range(_compat.MINIMUM[1], _compat.NEWEST_KNOWN[1] + 1) if options.every else ()
    versions = [*options.torch, *(f"{_compat.NEWEST_KNOWN[0]}.{minor}.0" for minor in every)]
    requirements = [newest, RECENT, OLDEST, INSTALLED, *(f"torch=={version}" for version in versions), *OTHERS]
    found, missing = have(requirements, settings.cache_dir() / "mac-wheels")
    if missing:
        print(f"mac_wheel: nothing was checked, the wheels for macOS cannot be had: {missing}")
        return 0
    came_out = list(results(found))
    if options.native:
        others = [found[name] for name in OTHERS]
        came_out += [compiling.compiled(found[name], others) for name in (newest, INSTALLED)]
    print(checks.table(came_out))
    if options.json:
        options.json.write_text(checks.as_json(came_out), encoding="utf-8")
    return int(any(result.verdict != "ok" for result in came_out))


if __name__ == "__main__":
    sys.exit(main())
