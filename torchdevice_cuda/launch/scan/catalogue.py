"""The names of the installed torch, read from its files without importing it."""

from __future__ import annotations

import ast
import functools
import importlib.util
from pathlib import Path

from ...native import op_table
from ...native.toolchain import BuildError

_COMPOSITE = "Composite"
#: Prefixes of operator names for the functions of a module.
_PREFIXES = {"torch.linalg.": "linalg_", "torch.special.": "special_", "torch.fft.": "fft_", "torch.nn.functional.": ""}


@functools.cache
def published() -> frozenset[str]:
    """Return the names of ``torch.cuda``, including its modules; none if torch is not installed."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return frozenset()
    folder = Path(spec.origin).parent / "cuda"
    names = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = {target.id for target in targets if isinstance(target, ast.Name)}
            names |= named
            if "__all__" in named and node.value is not None:
                names |= set(ast.literal_eval(node.value))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return frozenset(names)


@functools.cache
def _lacking() -> frozenset[str]:
    """Return operators with a CPU kernel and no kernel for the Apple GPU."""
    keys: dict[str, set[str]] = {}
    try:
        for operator in op_table.read(op_table.yaml_path()):
            keys.setdefault(operator.name, set()).update(operator.keys)
    except (BuildError, OSError):
        return frozenset()
    return frozenset(
        name
        for name, found in keys.items()
        if "CPU" in found and "MPS" not in found and not any(key.startswith(_COMPOSITE) for key in found)
    )


def leaves_the_apple_gpu(name: str) -> bool:
    """Return whether a torch function's operator falls back on an Apple GPU."""
    for prefix, spelled in _PREFIXES.items():
        if name.startswith(prefix):
            return spelled + name.removeprefix(prefix) in _lacking()
    return name.startswith("torch.") and name.removeprefix("torch.") in _lacking()
