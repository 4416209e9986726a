"""Shell scripts in the place of the compiler: at once done, and as broken as a test wants them."""

from __future__ import annotations

import contextlib
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: Makes what it is asked for, and counts how often it linked. $BEHAVIOUR is run first: $what is "object" or "library".
_SCRIPT = """#!/bin/sh
out= previous= what=object
for a in "$@"; do [ "$previous" = -o ] && out=$a; previous=$a; done
case " $* " in
*" -print-file-name="*) exit 0;;
*" -shared "*) what=library; echo linked >> "$LINKS";;
esac
eval "$BEHAVIOUR"
if [ $what = library ] && [ "$MODULE" ]; then exec @CC@ -shared -fPIC -I@INCLUDE@ "$MODULE" -o "$out"; fi
echo made > "$out"
"""
#: A module that loads. Padding in the middle of it, where damage is done.
_MODULE = """
#include <Python.h>
#ifndef NAME
#define NAME "whole"
#endif
char padding[1 << 16] = "padding";
static PyObject* set_parts(PyObject* m, PyObject* args) { Py_RETURN_NONE; }
static PyMethodDef methods[] = {{"set_parts", set_parts, METH_VARARGS, NULL}, {NULL}};
static int fill(PyObject* m) { return PyModule_AddStringConstant(m, "name", NAME); }
static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_hostdevice_cuda", NULL, 0, methods, slots};
PyMODINIT_FUNC PyInit__hostdevice_cuda(void) { return PyModuleDef_Init(&module); }
"""
C_COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")


class Bench:
    """A compiler and a cache in a folder; what they need is in the process's environment, or `environment`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiler = folder / "c++"
        self.cache = folder / "cache"
        self._links = folder / "links"
        script = _SCRIPT.replace("@CC@", str(C_COMPILER)).replace("@INCLUDE@", sysconfig.get_path("include"))
        self.compiler.write_text(script)
        self.compiler.chmod(0o755)
        self._links.touch()

    def environment(self, behaviour: str = "", module: str = "") -> dict[str, str]:
        """With a `module` (C, or "whole" for one that loads) that is what it links."""
        source = self.folder / "module.c"
        source.write_text(_MODULE if module == "whole" else module)
        return {
            "CXX": str(self.compiler),
            "LINKS": str(self._links),
            "TORCHDEVICE_CACHE_DIR": str(self.cache),
            "BEHAVIOUR": behaviour,
            "MODULE": str(source) if module else "",
        }

    def set(self, behaviour: str = "", module: str = "") -> None:
        """Puts it into this process's environment."""
        os.environ.update(self.environment(behaviour, module))

    @property
    def links(self) -> int:
        """Count the linked libraries."""
        return len(self._links.read_text().splitlines())


@contextlib.contextmanager
def temporary(behaviour: str = "", module: str = "whole") -> Iterator[Bench]:
    """A cache whose library is a tiny module that loads, or is to fail. In a child, which is as it was afterwards."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        bench = Bench(Path(folder))
        bench.set(behaviour, module)
        try:
            yield bench
        finally:
            os.environ.clear()
            os.environ.update(before)


def damage(path: Path) -> None:
    """Turns 4096 bytes in the middle of a file around, in place."""
    with path.open("r+b") as file:
        middle = path.stat().st_size // 2
        file.seek(middle)
        content = file.read(4096)
        file.seek(middle)
        file.write(bytes(byte ^ 0xFF for byte in content))
