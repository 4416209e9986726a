"""A kernel's TTIR as C++."""

from __future__ import annotations

import dataclasses
import json

from .emit import assembly, atomics, control, descriptors, memory, output, products, reductions, shapes
from .emit.emitter import Emitter
from .ir import Type, Unsupported
from .parser import parse
from .tiles import Tile, name_type

_HANDLERS = {
    name: handler
    for family in (assembly, atomics, control, descriptors, memory, output, products, reductions, shapes)
    for name, handler in family.HANDLERS.items()
}

_SOURCE = """{checks}#include "kernel.h"
{headers}static void run(Program& program, const int64_t* arguments) {{
{arguments}
{body}
}}
extern "C" __attribute__((visibility("default"))) int ttc_launch(Launch* launch) {{
    return run_grid(launch, run, {sites}, {stack}, {waits});
}}
"""


#: Functions of libdevice that few kernels use: others are compiled sooner without them.
_LIBRARY = {"library.h", "rounding.h"}


@dataclasses.dataclass(frozen=True)
class Translation:
    """A kernel in C++."""

    name: str
    source: str
    #: the types of the arguments, in their order
    arguments: tuple[Type, ...]
    #: file and line of each place that may fail, with the message of an assertion
    sites: tuple[str, ...]
    #: whether each access of an element is checked by the tools of ``--sanitize``
    is_sanitized: bool = False
    #: whether programs only count what they do, and the type of their products
    is_counted: bool = False
    product_type: str = ""


def translate(text: str, is_sanitized: bool = False, is_counted: bool = False) -> Translation:
    """Translate a module; raise `Unsupported` for what cannot be compiled.

    ``is_sanitized``: the tools of ``--sanitize`` check each access of an element. ``is_counted``: some programs run,
    only to count what they do.
    """
    try:
        return _translate(text, is_sanitized, is_counted)
    except Unsupported:
        raise
    except Exception as error:  # TTIR of another release may be written in another way
        raise Unsupported(f"its TTIR is not understood ({type(error).__name__}: {error})") from error


def _translate(text: str, is_sanitized: bool, is_counted: bool) -> Translation:
    function = parse(text)
    emitter = Emitter(function, _HANDLERS, is_sanitized, is_counted)
    arguments = []
    for number, value in enumerate(function.args):
        if value.type.shape:
            raise Unsupported("a tile as an argument")
        c_type = name_type(value.type.element)
        is_descriptor = value.type.element.startswith("desc<")
        given = (
            descriptors.write_argument(value.type, number) if is_descriptor else f"*({c_type}*)(arguments + {number})"
        )
        arguments.append(f"    {c_type} const arg{number} = {given};")
        emitter.set(value, Tile(value.type, f"arg{number}"))
    writer = emitter.writer
    control.Branches(emitter, function.blocks, lambda last: writer.put("return;")).emit("")
    names = writer.headers | (_LIBRARY if "tt.extern_elementwise" in text else set())
    headers = "".join(f'#include "{name}"\n' for name in sorted(names))
    source = _SOURCE.format(
        checks=_write_places(function.name, writer.sites) if is_sanitized else "#define TTC_COUNTED\n" * is_counted,
        headers=headers,
        arguments="\n".join(arguments),
        body="\n".join(writer.lines),
        sites=len(writer.sites),
        stack=writer.stack,
        waits="true" if writer.waits else "false",
    )
    types = tuple(value.type for value in function.args)
    if is_counted and writer.waits:
        raise Unsupported("a program that waits for others cannot be counted")
    places = tuple(writer.sites)
    return Translation(function.name, source, types, places, is_sanitized, is_counted, writer.product_type)


def _write_places(name: str, sites: list[str]) -> str:
    """Write the kernel's name and its lines, which findings name."""
    places = [site.partition("\0")[0].rpartition(":") for site in sites]
    rows = [f"    {{{json.dumps(file)}, {int(line) if line.isdigit() else 0}}},\n" for file, _, line in places]
    return (
        f"#define TTC_SANITIZED\nstatic const char* const KERNEL = {json.dumps(name)};\n"
        f'static const struct {{ const char* file; int line; }} PLACES[] = {{\n{"".join(rows)}    {{"", 0}}}};\n'
    )
