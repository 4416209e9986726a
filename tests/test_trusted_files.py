"""Every load, every process that is started and every use of a shared folder is in a list, with what makes it safe.

A new one fails here until it goes through `torchdevice_cuda.trust`, or says why it need not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.processes import ROOT

FOLDERS = {"cache_dir", "runtime_dir", "memory_dir"}
TEMPORARY = {"gettempdir", "mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"}
LOADS = {
    *("CDLL", "PyDLL", "LoadLibrary", "dlopen", "load_library", "ExtensionFileLoader", "SourceFileLoader"),
    *("SourcelessFileLoader", "spec_from_file_location", "run_path", "exec", "eval"),
}
STARTS = {
    *("Popen", "check_call", "check_output", "getoutput", "getstatusoutput", "posix_spawn", "posix_spawnp", "popen"),
    *("execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp", "execlpe", "startfile"),
    *("spawnv", "spawnve", "spawnvp", "spawnl", "spawnle", "spawnlp", "create_subprocess_exec"),
}
WATCHED = FOLDERS | TEMPORARY | LOADS | STARTS
#: Names that mean something else elsewhere: of these modules only.
OF_MODULES = {"run": {"subprocess"}, "call": {"subprocess"}, "system": {"os"}}

_CHECKED = "trust opens and checks it"
_PRIVATE = "a folder that the system makes for this user alone"
_COMPILER = "the user's compiler, from CXX or the PATH"
_SYSTEM = "a command of the system, from the PATH"
_PYTHON = "this interpreter"
_TORCHS = "a library or source file of the installed torch"
_PROGRAMS = "the program's own code"

#: A file and a name in it, and why the file that it leads to need not be checked, or what checks it.
ALLOWED = {
    "distributed/agreement.py": {"memory_dir": "created with O_EXCL and a random name; opened through trust"},
    "doctor/checks/installation.py": {"cache_dir": "asks how much room there is", "run": _COMPILER},
    "doctor/checks/training.py": {"run": _PYTHON},
    "doctor/examination.py": {
        "cache_dir": "its name is given to children",
    },
    "doctor/running.py": {"Popen": _PYTHON},
    "drivers/host/facts.py": {"run": _SYSTEM},
    "drivers/host/memory.py": {"CDLL": "the process itself"},
    "drivers/mps/metal.py": {"run": _SYSTEM},
    "fallback/storages.py": {"CDLL": _TORCHS},
    "fallback/stored.py": {"cache_dir": _CHECKED},
    "triton/compiler/build.py": {"run": _COMPILER},
    "translate/patches/other_libraries.py": {"load_library": "torchvision's own, which it loads itself afterwards"},
    "stand_ins/finding.py": {"spec_from_file_location": "Python files of this package"},
    "triton/sources.py": {"exec": _PROGRAMS},
    "importing/finder.py": {"spec_from_file_location": "Python files of this package"},
    "native/kernel_libraries.py": {"CDLL": "in a folder of this process, through its descriptor"},
    "cuda_cpp/nvcc.py": {"run": _COMPILER},
    "cuda_cpp/toolkit.py": {"cache_dir": _CHECKED},
    "cuda_cpp/units.py": {"cache_dir": "removes the oldest files of its own folder"},
    "launch/program.py": dict.fromkeys(("exec", "SourceFileLoader", "SourcelessFileLoader"), _PROGRAMS),
    "leftovers.py": {"TemporaryDirectory": _PRIVATE},
    "monitoring/publishing.py": {
        "CDLL": "the C library, which is loaded already",
        "memory_dir": _CHECKED,
        "runtime_dir": _CHECKED,
    },
    "native/compilation.py": {"TemporaryDirectory": "in a folder that trust has checked"},
    "native/inventory.py": {"cache_dir": "names of folders and sizes"},
    "native/places.py": {"cache_dir": _CHECKED},
    "native/loading.py": dict.fromkeys(
        ("ExtensionFileLoader", "spec_from_file_location"), "a file that trust has open"
    ),
    "native/processes.py": {"Popen": _COMPILER},
    "native/toolchain.py": {"run": _COMPILER},
    "native/wheel.py": {"NamedTemporaryFile": "renamed to the wheel that the user asked for"},
    "nvidia/nvml/hooking.py": {"CDLL": "NVIDIA's library, by the name that the program gave"},
    "nvidia/smi/command.py": {"run": "NVIDIA's nvidia-smi, from the PATH"},
    "nvidia/smi/placing.py": {"cache_dir": _CHECKED},
    "report/destination.py": {"mkstemp": "removed at once"},
    "report/family.py": {"gettempdir": _CHECKED},
    "sanitizer/findings.py": {
        "CDLL": "the C library, which is loaded already",
        "mkstemp": "a new file of this user alone; children get its name, and lines of it are data",
    },
    "settings/__init__.py": {"cache_dir": "passes the name on"},
    "settings/folders.py": {"gettempdir": "names a folder, and reads nothing in it"},
    "shadow/stock.py": {"exec": _TORCHS, "SourceFileLoader": _TORCHS},
    "translate/patches/operators.py": dict.fromkeys(
        ("load_library", "ExtensionFileLoader"), "libraries that the program loads"
    ),
    "trust.py": {"cache_dir": _CHECKED},
}
#: The same of C++, of which every process that loads a kernel has some.
ALLOWED_CPP = {
    "cuda_cpp/include/host_cuda/lines.h": {"popen": "addr2line, of a library that is loaded"},
    "native/csrc/clock/kernels.cpp": {"dlopen": "a library that is loaded already"},
    "native/csrc/core/bindings/cuda_kernel_abi.cpp": {"dlopen": "a library that is loaded already"},
    "native/csrc/core/runtime/shared_memory.cpp": {"shm_open": "created with O_EXCL; random names, mode 0600"},
}
_CPP = re.compile(r"(?<![\w.>])(dlopen|popen|system|exec[lv]p?e?|posix_spawnp?|shm_open)\s*\(")


def find_uses(source: str) -> set[str]:
    """Watched names that a source mentions: called, passed on, imported, or looked up by a string."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in WATCHED:
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            module = node.value.id if isinstance(node.value, ast.Name) else ""
            if (node.attr in WATCHED and node.attr not in ("exec", "eval")) or module in OF_MODULES.get(node.attr, ()):
                found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            found |= names & WATCHED | {name for name in names if node.module in OF_MODULES.get(name, ())}
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in WATCHED - {"exec", "eval"}
        ):
            found.add(node.value)
    return found


def find_all(package: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(package.rglob("*.py")):
        for name in find_uses(path.read_text(encoding="utf-8")):
            yield path.relative_to(package).as_posix(), name


def pairs(listed: dict[str, dict[str, str]]) -> set[tuple[str, str]]:
    return {(file, name) for file, names in listed.items() for name in names}


def test_every_load_and_start_is_listed() -> None:
    package = ROOT / "torchdevice_cuda"
    found = set(find_all(package))
    assert found - pairs(ALLOWED) == set(), "use torchdevice_cuda.trust, or say in ALLOWED why not"
    assert pairs(ALLOWED) - found == set(), "these are no more: take them out of ALLOWED"
    assert set(find_all(ROOT / "shim")) == set()


def test_every_load_and_start_in_cpp_is_listed() -> None:
    package = ROOT / "torchdevice_cuda"
    files = [path for path in sorted(package.rglob("*")) if path.suffix in (".h", ".cuh", ".cpp", ".jinja")]
    found = {(path.relative_to(package).as_posix(), name) for path in files for name in _CPP.findall(path.read_text())}
    assert found == pairs(ALLOWED_CPP)


#: What would bypass `trust`, and the name that is to be found.
PLANTED = {
    "import ctypes\nctypes.CDLL('x')": "CDLL",
    "from ctypes import CDLL as load\nload('x')": "CDLL",
    "import ctypes\nload = getattr(ctypes, 'CDLL')": "CDLL",
    "import torch\ntorch.ops.load_library('x')": "load_library",
    "from importlib.machinery import ExtensionFileLoader": "ExtensionFileLoader",
    "import importlib.util as u\nu.spec_from_file_location('a', 'b')": "spec_from_file_location",
    "exec(open('x').read())": "exec",
    "import subprocess\nsubprocess.run(['x'])": "run",
    "from subprocess import run as go\ngo(['x'])": "run",
    "import os\nos.execv('x', [])": "execv",
    "import os\nos.system('x')": "system",
    "from .. import folders\nfolders.cache_dir()": "cache_dir",
    "from ..folders import runtime_dir": "runtime_dir",
    "import tempfile\ntempfile.gettempdir()": "gettempdir",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_loads_that_bypass_trust_are_found(planted: str, tmp_path: Path) -> None:
    original = ROOT / "torchdevice_cuda" / "cuda_cpp" / "flags.py"
    (tmp_path / "flags.py").write_text(original.read_text() + planted + "\n")
    assert set(find_all(tmp_path)) == {("flags.py", PLANTED[planted])}
