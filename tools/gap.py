"""Compare the torch.cuda tree of this process with a recorded surface: what is missing, what differs.

    python tools/gap.py --installed                                       # with the installed torch's own tree
    python tools/gap.py SURFACE.json --record                             # of the installed torch, best a CUDA build
    python -m torchdevice_cuda tools/gap.py tests/data/surface-2.13.0.json
    python -m torchdevice_cuda tools/gap.py SURFACE.json --names-only     # another torch version: names, not signatures
    python tools/gap.py SURFACE.json --trim tests/data/surface-X.json     # keep what this tool compares
    python tools/gap.py --installed --log tests/data/gaps.json            # fails on what the log does not have
    python tools/gap.py SURFACE.json --since OLDER.json --log LOG --write # what a release brought, into the log

A surface file is ``{module: {"all": [...], "names": {name: {"kind", "signature", "members"}}}}``. Exits 1 on any gap.
Of a signature that is compared which a call depends on: names, kinds and defaults of the parameters. Annotations are
not: stock leaves many functions without.

``--installed`` is what a new release of torch is met with. It records stock's tree in a process of its own, CUDA's part
of ``torch._C`` with it where the build has one, and compares in another. It also lists the names of that part that any
file of torch asks for and nobody answers. Before, it says what is new, gone and changed in the release itself since
the last one whose surface is in ``tests/data`` (or ``--since`` another): what stock answers by itself is no gap, but
worth a try. A log has the gaps of each release with how bad they are and what is done about them; what it does not
have is a regression.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gap_log

# Members that pybind11 adds to every class it makes.
IGNORED_MEMBERS = {"_pybind11_conduit_v1_"}
# Classes whose members are torch.Tensor's or a storage's own: hundreds that would be recorded nineteen times.
FOREIGN = re.compile(r"(Tensor|Storage)$")
# CUDA's part of torch._C, and how files ask for it.
TORCH_C = "torch._C"
OF_CUDA = r"_(?:cuda_|Cuda|CUDA|nccl_|gds_|cudnn_)\w+"
ASKED = re.compile(rf"\b_C\.({OF_CUDA})")
IMPORTED = re.compile(r"^ *from torch\._C import (\([^)]*\)|.*)", re.MULTILINE)
# How files of torch ask torch.cuda and its modules for names that are not public.
READ = re.compile(r"\btorch\.cuda((?:\.\w+)*?)\.(_[a-zA-Z]\w*)")
PRIVATE = re.compile(r"\b_[a-zA-Z]\w*")
READ_IMPORTED = re.compile(r"^ *from torch\.cuda((?:\.\w+)*) import (\([^)]*\)|.*)", re.MULTILINE)
# Defaults that are no Python: <object object at 0x...>, <class 'int'>.
SHOWN = re.compile(r"<[^<>]*>")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
DATA = Path(__file__).resolve().parents[1] / "tests" / "data"


def compared(surface: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every (module, name, entry) this tool holds the running tree against."""
    for module, recorded in surface.items():
        for name, entry in recorded["names"].items():
            yield module, name, entry


def read_of_cuda(root: Path) -> dict[tuple[str, str], str]:
    """Return the private names that files below a folder read from torch.cuda's modules, each with a file that does."""
    found: dict[tuple[str, str], str] = {}
    for file in sorted(root.rglob("*.py")):
        place = file.relative_to(root)
        if place.parts[0] == "cuda":
            continue  # its own
        text = file.read_text(encoding="utf-8", errors="replace")
        imported = ((module, name) for module, names in READ_IMPORTED.findall(text) for name in PRIVATE.findall(names))
        for module, name in (*READ.findall(text), *imported):
            found.setdefault((f"torch.cuda{module}", name), str(place))
    return found


def kind_of(value: Any) -> str:
    """``class``, ``function`` (anything else that is called) or ``data``."""
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) else "data"


def signature_of(value: Any) -> str | None:
    """Return the signature as text; ``None`` where there is none."""
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return None


def without_annotations(signature: str) -> str:
    """Return a signature's text with the names, kinds and defaults of its parameters, and nothing else."""
    text = SHOWN.sub(lambda shown: repr(ADDRESS.sub("", shown[0])), signature)
    function = ast.parse(f"def function{text}: ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    for node in ast.walk(function.args):
        if isinstance(node, ast.arg):
            node.annotation = None
    return f"({ast.unparse(function.args)})"


def gaps(surface: dict[str, Any], names_only: bool = False) -> Iterator[tuple[str, str]]:
    """(kind of gap, what) for every difference."""
    for module in surface:
        try:
            importlib.import_module(module)
        except ImportError as error:
            yield "missing module", f"{module} ({error})"
    for module, recorded in surface.items():
        loaded = sys.modules.get(module)
        if loaded is not None and recorded["all"] is not None and not names_only:
            ours = set(getattr(loaded, "__all__", ()))
            for name in sorted(set(recorded["all"]) ^ ours):
                yield "__all__ differs", f"{module}.{name}"
    for module, name, entry in compared(surface):
        loaded = sys.modules.get(module)
        if loaded is None:
            continue
        dotted = f"{module}.{name}"
        value = getattr(loaded, name, types)
        if value is types:
            yield "missing", dotted
            continue
        if names_only:
            continue
        if kind_of(value) != entry["kind"]:
            yield "kind differs", f"{dotted}: {entry['kind']} recorded, {kind_of(value)} here"
        wanted = entry.get("signature")
        here = signature_of(value) if wanted else None
        if wanted and (here is None or without_annotations(wanted) != without_annotations(here)):
            yield "signature differs", f"{dotted}: {wanted} recorded, {here} here"
        if not FOREIGN.search(name):
            for member in entry.get("members") or ():
                if member not in IGNORED_MEMBERS and not hasattr(value, member):
                    yield "missing member", f"{dotted}.{member}"


def record() -> dict[str, Any]:
    """Return the surface of this process's torch.cuda: every module, and of its names those that are torch's."""
    import torch

    found: dict[str, Any] = {}
    for name in ("torch.cuda", *(info.name for info in pkgutil.walk_packages(torch.cuda.__path__, "torch.cuda."))):
        module = importlib.import_module(name)
        found[name] = {"all": getattr(module, "__all__", None), "names": {}}
        for attribute, value in vars(module).items():
            origin = getattr(value, "__module__", None) or "torch"
            if isinstance(value, types.ModuleType) or origin.partition(".")[0] != "torch":
                continue
            entry = found[name]["names"][attribute] = {"kind": kind_of(value)}
            if isinstance(value, type):
                entry["members"] = [member for member in dir(value) if not member.startswith("__")]
            else:
                entry["signature"] = signature_of(value)
    found[TORCH_C] = {"all": None, "names": {name: c_entry(value) for name, value in c_names(torch._C)}}
    return found


def c_names(torch_c: types.ModuleType) -> Iterator[tuple[str, Any]]:
    """CUDA's part of ``torch._C``, less the dummies that a CPU build puts there."""
    for name, value in vars(torch_c).items():
        if re.fullmatch(OF_CUDA, name) and getattr(value, "__module__", None) != "torch._utils":
            yield name, value


def c_entry(value: Any) -> dict[str, Any]:
    """Return the record of one name: C++ functions have no signatures to compare."""
    if not isinstance(value, type):
        return {"kind": kind_of(value)}
    return {"kind": "class", "members": [member for member in dir(value) if not member.startswith("__")]}


def asked_of_c(root: Path) -> dict[str, str]:
    """Return the names of CUDA's part that files below a folder ask ``torch._C`` for, each with a file that does."""
    found: dict[str, str] = {}
    for file in sorted(root.rglob("*.py")):
        text = file.read_text(encoding="utf-8", errors="replace")
        imported = (name for names in IMPORTED.findall(text) for name in re.findall(rf"\b{OF_CUDA}", names))
        for name in (*ASKED.findall(text), *imported):
            found.setdefault(name, str(file.relative_to(root)))
    return found


def unanswered(root: Path) -> Iterator[tuple[str, str]]:
    """List the names that are missing, or exist only to raise."""
    import torch

    refusing = getattr(sys.modules.get("torchdevice_cuda.shadow.absent"), "Refusing", ())
    for name, file in asked_of_c(root).items():
        value = getattr(torch._C, name, types)
        if value is types or isinstance(value, refusing):
            yield "missing", f"{TORCH_C}.{name}, for {file}"


def recorded_before(version: str) -> Path | None:
    """Return the newest recorded surface of an earlier release."""

    def numbers(text: str) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"\d+", text)[:3]))

    earlier = [file for file in DATA.glob("surface-*.json") if numbers(file.stem) < numbers(version)]
    return max(earlier, key=lambda file: numbers(file.stem), default=None)


def news(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(``new``, ``gone`` or ``changed``, what) for every difference between two releases."""
    # A trimmed surface has only those private names that some file reads: what one of two lacks is no news. Nor is that
    # a CPU build has next to nothing of CUDA's part, and dummies for its classes; nor that part where it was not
    # recorded before.
    cuda_build = "_CudaDeviceProperties" in after.get(TORCH_C, {"names": ()})["names"]
    skipped = set() if cuda_build and TORCH_C in before else {TORCH_C}
    for module in sorted((before.keys() | after.keys()) - skipped):
        if (module not in before or module not in after) and not is_private(module):
            yield ("new" if module in after else "gone"), f"module {module}"
        old, now = (surface.get(module, {"names": {}})["names"] for surface in (before, after))
        for name in sorted(old.keys() | now.keys()):
            dotted = f"{module}.{name}"
            if name not in old or name not in now:
                if module == TORCH_C or not is_private(module, name):
                    yield ("new" if name in now else "gone"), f"{dotted}{now.get(name, {}).get('signature', '')}"
                continue
            signatures = [each[name].get("signature") for each in (old, now)]
            if all(signatures):
                was, is_now = map(without_annotations, signatures)
                if was != is_now:
                    yield "changed", f"{dotted}: {was} before, {is_now} now"
            had, has = (set(each[name].get("members", ())) for each in (old, now))
            yield from (("new", f"{dotted}.{member}") for member in sorted(has - had))
            if cuda_build:
                yield from (("gone", f"{dotted}.{member}") for member in sorted(had - has))


def compare_with_installed(args: argparse.Namespace) -> int:
    """Record the installed torch without us and compare with us, in two processes; the exit status."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHDEVICE_")}
    release = importlib.metadata.version("torch").partition("+")[0]
    with tempfile.TemporaryDirectory() as folder:
        surface, found = os.path.join(folder, "surface.json"), Path(folder, "found.json")
        subprocess.run([sys.executable, __file__, surface, "--record"], env=environment, check=True)
        since = args.since or recorded_before(release)
        told = told_news(since, Path(surface)) if since is not None else []
        with_us = [sys.executable, "-m", "torchdevice_cuda", "--driver", args.driver, __file__, surface, "--asked"]
        status = subprocess.run([*with_us, "--found", str(found)], env=environment).returncode
        if args.log is None or not found.exists():
            return status
        told += [gap_log.Gap(*row) for row in json.loads(found.read_text())]
    return logged(args, release, told)


def told_news(since: Path, surface: Path) -> list[gap_log.Gap]:
    """Describe a release's changes line by line."""
    told = [gap_log.Gap(*row) for row in news(json.loads(since.read_text()), json.loads(surface.read_text()))]
    for what, where in told:
        print(f"{what} since {since.stem}: {where}", flush=True)
    return told


def logged(args: argparse.Namespace, release: str, found: list[gap_log.Gap]) -> int:
    """Holds gaps against the log, or writes them into it."""
    if args.write:
        args.log.write_text(gap_log.written(args.log, release, found))
        return 0
    for line in gap_log.mended(args.log, release, found):
        print(f"no gap any more, {args.log.name} has it: {line}")
    worse = gap_log.regressions(args.log, release, found)
    for line in worse:
        print(f"not in {args.log.name}: {line}")
    print(f"torch {release}: {len(found)} in all, {len(worse)} that {args.log.name} does not have")
    return 1 if worse else 0


def is_private(module: str, name: str = "") -> bool:
    return any(part.startswith("_") for part in (*module.split("."), name))


def trim(surface: dict[str, Any]) -> dict[str, Any]:
    """The surface less everything that is not compared: private names that no file of the installed torch reads."""
    import torch

    read = read_of_cuda(Path(torch.__path__[0]))
    kept: dict[str, Any] = {}
    for module, name, entry in compared(surface):
        if is_private(module, name) and module != TORCH_C and (module, name) not in read:
            continue
        row = kept.setdefault(module, {"all": surface[module]["all"], "names": {}})
        small = {key: entry[key] for key in ("kind", "signature") if entry.get(key)}
        if entry.get("members") and not FOREIGN.search(name):
            small["members"] = [member for member in entry["members"] if member not in IGNORED_MEMBERS]
        row["names"][name] = small
    return kept


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("surface", type=Path, nargs="?")
    parser.add_argument("--installed", action="store_true", help="compare with the installed torch's own tree")
    parser.add_argument("--driver", default="cpu", help="with --installed: the driver to compare (cpu)")
    parser.add_argument("--since", type=Path, help="the surface of an earlier release: what is new since")
    parser.add_argument("--asked", action="store_true", help="look for names that torch asks torch._C for, too")
    parser.add_argument("--names-only", action="store_true", help="compare names, not signatures, kinds and members")
    parser.add_argument("--record", action="store_true", help="write the surface of this torch; compare nothing")
    parser.add_argument("--trim", type=Path, help="write what is compared to this file; compare nothing")
    parser.add_argument("--log", type=Path, help="hold the gaps against this log: fails on those it does not have")
    parser.add_argument("--write", action="store_true", help="with --log: write them into it")
    parser.add_argument("--found", type=Path, help="write the gaps to this file, too")
    args = parser.parse_args()
    if args.installed:
        return compare_with_installed(args)
    if args.surface is None:
        parser.error("a surface to compare with, or --installed")
    if args.since:
        told = told_news(args.since, args.surface)
        return logged(args, args.surface.stem.removeprefix("surface-"), told) if args.log else 0
    if args.record:
        args.surface.write_text(json.dumps(trim(record()), indent=0, sort_keys=True) + "\n")
        return 0
    surface = json.loads(args.surface.read_text())
    if args.trim:
        args.trim.write_text(json.dumps(trim(surface), indent=0, sort_keys=True) + "\n")
        return 0
    import torch

    found = list(gaps(surface, args.names_only))
    if args.asked:
        found += unanswered(Path(torch.__path__[0]))
    if args.found:
        args.found.write_text(json.dumps(found))
    for what, where in found:
        print(f"{what}: {where}")
    total = sum(1 for _ in compared(surface))
    missing = sum(what.startswith("missing") for what, _ in found)
    tree = "shadow tree" if "torchdevice_cuda" in (torch.cuda.__file__ or "") else "STOCK tree"
    print(
        f"torch {torch.__version__}, {tree}: {total} names compared, {missing} missing, "
        f"{len(found) - missing} different"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
