"""The compiler of the toolkit: ``nvcc``'s command line, carried out by the host's compiler.

    python -m torchdevice_cuda.cuda_cpp.nvcc -c kernels.cu -o kernels.o -I ... -gencode ...

A source is preprocessed over our headers, translated, and compiled. It imports neither torch nor what needs it.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

from .. import leftovers, sanitizer
from ..settings import sanitizer as tools
from ..settings import variables
from . import INCLUDE, flags, headers, instances, linkage, refusals, translation, units

#: The headers of translated PTX.
PTX_INCLUDE = Path(__file__).resolve().parents[1] / "ptx" / "include"
#: The macro by which a program can test for the virtual GPU.
MACRO = "TORCHDEVICE_CUDA"
_TORCHS = ("torch/", "ATen/", "c10/")
_MISSING = re.compile(r"fatal error: ([\w./-]+): No such file")
# Warnings about translated text that the program did not cause.
QUIET = ("-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Wno-attributes", "-Wno-unknown-pragmas")
_NATIVE = ("x86_64", "AMD64")
# The sanitizers' calls without their libraries: `include/host_cuda/checks.h` answers them, or `count_accesses.h`, and
# copies of memory. Checks name lines.
_WATCHED = (
    "-fsanitize=thread", "-Wno-unknown-warning-option", "-Wno-tsan",
    *(f"-fno-builtin-{name}" for name in ("memcpy", "memmove", "memset")),
)  # fmt: skip
_CHECKED = ("-fsanitize=bounds", "-g1", *_WATCHED)
_VOLATILE = {True: ("-mllvm", "-tsan-distinguish-volatile"), False: ("--param", "tsan-distinguish-volatile=1")}
# -O3 without what makes templates of kernels slow to compile and not faster: loops are unrolled and vectorized, and
# functions inlined as by -O2.
_THIN = (
    "-fno-ipa-cp-clone", "-fno-split-paths", "-fno-tree-partial-pre", "-fno-gcse-after-reload",
    *(
        word
        for limit in ("max-inline-insns-auto=15", "early-inlining-insns=6", "inline-min-speedup=30",
                      "max-inline-insns-single=70", "inline-heuristics-hint-percent=200")
        for word in ("--param", limit)
    ),
)  # fmt: skip


def compiler() -> list[str]:
    """Return the host's C++ compiler, as PyTorch's build functions choose it."""
    return os.environ.get("CXX", "c++").split()


def version_text(version: str) -> str:
    """Return the text of ``nvcc --version``."""
    return (
        "nvcc: NVIDIA (R) Cuda compiler driver\n"
        "(torchdevice_cuda: CUDA C++ is translated for the host's compiler)\n"
        f"Cuda compilation tools, release {version}, V{version}.0\n"
    )


def verbose_text(home: str) -> str:
    """Return the lines of ``nvcc -v`` in which CMake finds the toolkit and how the host links."""
    libraries = f'"-L{home}/lib64"'
    linker = shlex.join(compiler())
    return (
        f"#$ TOP={home}\n#$ NVVMIR_LIBRARY_DIR={home}/nvvm/libdevice\n#$ PATH={home}/bin:{os.environ.get('PATH', '')}\n"
        f'#$ INCLUDES="-I{home}/include"\n#$ LIBRARIES= {libraries}\n'
        f'#$ cudafe++ "a.cu"\n#$ {linker} -o "a.out" -Wl,--start-group "a.o" {libraries} '
        "-lcudadevrt -lcudart_static -lrt -lpthread -ldl "
        "-Wl,--end-group\n"
    )


def explain_missing(source: Path, command: flags.Command, said: str) -> str:
    """Add to the compiler's messages a line for each header of CUDA's toolkit that is not here."""
    missing = _MISSING.search(said)
    lines = headers.list_missing(source.resolve(), command.reading) if missing else []
    if missing and not any(f" {missing[1]} " in line for line in lines) and (why := refusals.header(missing[1])):
        lines.append(f"nvcc: error: {missing[1]} is not supported here: {why}")
    return said + "".join(f"{line}\n" for line in lines)


def others_roots(reading: list[str]) -> list[Path]:
    """Folders of headers that are not the program's: ours, the system's, PyTorch's, Python's."""
    found = [INCLUDE, PTX_INCLUDE, sanitizer.INCLUDE, Path("/usr")]
    for word in reading:
        folder = Path(word[2:] if word.startswith("-I") else word)
        if any((folder / name).exists() for name in ("ATen/ATen.h", "Python.h", "pybind11/pybind11.h")):
            found.append(folder)
    return found


class Failed(Exception):
    """The compiler's own words, or why it could not be started."""


def run_compiler(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the host's compiler; Failed where there is none."""
    command = [*compiler(), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise Failed(
            f"nvcc: a C++17 compiler is needed to compile CUDA kernels, and {command[0]} cannot be started "
            f"({error.strerror}). Install one (Debian/Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; macOS: "
            "xcode-select --install), or set CXX.\n"
        ) from error


@functools.cache
def identify_compiler() -> str:
    """Return the version of the host's compiler."""
    return run_compiler(["--version"]).stdout


def identify_translator() -> str:
    """Return the version of our headers and of the translator."""
    here = Path(__file__).parent
    roots = (here, here.parent / "ptx", *sanitizer.SOURCES)
    found = [path for root in roots for path in sorted(root.rglob("*")) if path.suffix in (".h", ".py", ".cuh")]
    csrc = here.parent / "native" / "csrc"
    found += [csrc / "core" / "bindings" / "kernel_abi.h", *sorted((csrc / "clock").glob("*.h"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in found)).hexdigest()


def _write_includes(names: list[str]) -> list[str]:
    return [f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in names]


def preprocess(source: Path, command: flags.Command, scratch: Path) -> str:
    """Return the source without directives, over our headers."""
    before = scratch / "before.h"
    included = headers.find_included(source.resolve(), command.reading)
    lines = _write_includes(included.names)
    if any(name.startswith(_TORCHS) for name in (*included.names, *included.ours)):
        begin, end = (f'#include "host_cuda/torch_api_{word}.h"\n' for word in ("begin", "end"))
        lines = ['#include "host_cuda/torch_types.h"\n', *lines, begin, *_write_includes(included.ours), end]
        lines.append('#include "host_cuda/torch.h"\n')
        if not included.names:  # a program of cuBLAS may know nothing of PyTorch
            lines = ["#if __has_include(<ATen/ATen.h>)\n", *lines, "#endif\n"]
    before.write_text("".join([*lines, '#include "host_cuda/prelude.h"\n']), encoding="utf-8")
    ours = [
        "-I",
        str(INCLUDE),
        "-I",
        str(PTX_INCLUDE),
        "-I",
        str(sanitizer.INCLUDE),
        "-DHOST_CUDA_TRANSLATED",
        f"-DHOST_CUDA_ARCH={command.architecture}",
        f"-D{MACRO}=1",
    ]
    if checked():
        ours.append("-DHOST_CUDA_CHECKED")
    elif counted():
        ours.append("-DHOST_CUDA_COUNTED")
    if included.has_assembly:
        ours.append("-DHOST_CUDA_PTX")
    theirs = [*standard(command.reading), *command.reading]
    words = ["-E", "-x", "c++", *ours, *theirs, "-include", str(before), str(source)]
    if "-MD" in words and "-MT" not in words:
        words += ["-MT", command.output]
    done = run_compiler(words)
    if done.returncode:
        raise Failed(explain_missing(source, command, done.stderr))
    is_foreign = translation.is_below(*others_roots(command.reading))
    # The C++ library brings this name into the global namespace from C++20 on; with nvcc it does not, and headers of
    # vector functions define it there.
    text = done.stdout.replace("using std::lerp;", "")
    return linkage.settle(text, is_foreign, command.is_relocatable)


def _read_switch(name: str) -> bool:
    said = os.environ.get(name, "")
    try:
        return bool(said) and variables.read_switch(said)
    except ValueError:  # the program has set it since torchdevice_cuda was activated
        raise flags.Unknown(f"{name}={said!r} cannot be read; allowed: {variables.SWITCH_VALUES}") from None


def checked() -> bool:
    """Return whether kernels are compiled so that every use of memory is looked at: TORCHDEVICE_SANITIZE is set."""
    said = os.environ.get(tools.VARIABLE, "")
    try:
        return bool(said and tools.read(said))
    except ValueError:  # the program has set it since torchdevice_cuda was activated
        raise flags.Unknown(f"{tools.VARIABLE}={said!r} cannot be read; allowed: {tools.ALLOWED}") from None


def counted() -> bool:
    """Return whether kernels are compiled so that a sample of their blocks is counted: the clock is a GPU's."""
    return _read_switch(variables.COUNT_KERNELS) and not checked()


def splits() -> bool:
    """Return whether kernels are split at their barriers: checks look at each thread, and a user may want fibers."""
    return not checked() and not _read_switch(variables.KERNEL_FIBERS)


def read_level() -> str:
    """Return the optimization level that the user chose, or nothing."""
    said = os.environ.get(variables.KERNEL_OPTIMIZATION, "")
    if said not in ("", "0", "1", "2", "3"):
        raise flags.Unknown(f"{variables.KERNEL_OPTIMIZATION}={said!r} cannot be read; allowed: 0, 1, 2, 3")
    return said


def choose_level(compiling: list[str]) -> list[str]:
    """Return the compiler's options with the optimization level that the user chose, or the program, or nvcc's, 3."""
    if said := read_level():
        return [*(word for word in compiling if not word.startswith("-O")), f"-O{said}"]
    level = next((word for word in reversed(compiling) if word.startswith("-O")), "")
    thin = _THIN if level in ("", "-O3") and "clang" not in identify_compiler().lower() else ()
    return [*(() if level else ("-O3",)), *thin, *compiling]


def compile_translated(text: str, command: flags.Command, translated: Path, words: list[str]) -> str:
    """Translate a preprocessed source into a file and compile that; return the compiler's warnings.

    If it does not compile, kernels that were split are compiled as fibers: the messages then name the program's lines,
    and a construct that splitting does not know is no error.
    """
    is_foreign = translation.is_below(*others_roots(command.reading))
    findings = translation.Findings()
    ways = [(does_split, counted()) for does_split in ((True, False) if splits() else (False,))]
    for does_split, does_count in [*ways, *((False, False),) * counted()]:
        made = translation.translate(text, is_foreign, checked(), does_split, findings, does_count)
        quick = ["-Og"] if findings.size > instances.MANY and _may_lower(words) else []
        translated.write_text(made, encoding="utf-8")
        done = run_compiler([*words, *quick, "-c", str(translated)])
        if done.returncode and "changes meaning" in done.stderr:  # g++ refuses this, nvcc does not
            done = run_compiler([*words, *quick, "-fpermissive", "-c", str(translated)])
        if done.returncode == 0:
            if command.lists_kernels:
                _list_kernels(findings, quick)
            return done.stderr
        if not does_count and not any(choice.body for choice in findings.choices):
            break
        why = f"the loops do not compile: {next(iter(re.findall('error: (.*)', done.stderr)), 'no message')}"
        findings.choices = [
            dataclasses.replace(choice, body="", reason=choice.reason or why) for choice in findings.choices
        ]
    raise Failed(done.stderr)


def _may_lower(words: list[str]) -> bool:
    """Return whether the level is the program's or nvcc's: nothing was asked of this compiler."""
    level = next((word for word in reversed(words) if word.startswith("-O")), "")
    return not read_level() and level in ("-O2", "-O3")


def _list_kernels(findings: translation.Findings, quick: list[str]) -> None:
    for choice in findings.choices:
        sys.stderr.write(f"nvcc: info: {choice.describe()}\n")
    if quick:
        sys.stderr.write(
            f"nvcc: info: the kernels' instances have about {findings.size} tokens: compiled by {quick[0]}, "
            f"which takes less time; {variables.KERNEL_OPTIMIZATION}=3 makes them faster\n"
        )


def shape() -> list[str]:
    """Return the flags for all generated code. With checks, every memory access calls a function of ours."""
    # Kernels read values of one type as another, registers of PTX above all; nvcc's code does what they expect.
    return [
        *native(),
        *QUIET,
        "-fPIC",
        "-fno-strict-aliasing",
        *(_list_checks() if checked() else _WATCHED if counted() else ()),
    ]


def _list_checks() -> list[str]:
    distinguishes = _VOLATILE["clang" in identify_compiler().lower()]
    return [*_CHECKED, *distinguishes, f"-fdebug-prefix-map={os.getcwd()}=."]


def standard(words: list[str]) -> list[str]:
    """Return the C++ standard, unless the program names one."""
    return [] if any(word.startswith("-std=") for word in words) else ["-std=c++17"]


def native() -> list[str]:
    """Return flags for this processor: products and sums are contracted, as on a GPU, and half precision is fast."""
    return ["-march=native"] if platform.machine() in _NATIVE else []


def compile_source(source: Path, command: flags.Command, output: str) -> None:
    """Compile a source to an object; C++ without CUDA's language is the host compiler's, as with NVIDIA's nvcc."""
    if source.suffix != ".cu" and not command.is_cuda:
        target = f"-DHOST_CUDA_ARCH={command.architecture}"
        words = ["-fPIC", target, "-I", str(INCLUDE), *command.reading, *command.compiling]
        if source.suffix == ".c":
            words = ["-x", "c", *(word for word in words if not word.startswith("-std=c++"))]
        else:
            words += standard(command.compiling)
        done = run_compiler([*words, "-o", output, "-c", str(source)])
        if done.returncode:
            raise Failed(explain_missing(source, command, done.stderr))
        sys.stderr.write(done.stderr)
        return
    with leftovers.scratch("torchdevice-nvcc-") as (scratch, _):
        text = preprocess(source, command, scratch)
        words = [*standard(command.compiling), *shape(), *choose_level(command.compiling)]
        translated = scratch / f"{source.stem}.ii"

        def build() -> str:
            return compile_translated(text, command, translated, [*words, "-o", output])

        if command.lists_kernels:
            sys.stderr.write(build())
            return
        # The folder of what is included first has another name each time; debug information has the current folder's.
        content = text.replace(str(scratch), "")
        where = os.getcwd() if any(word.startswith("-g") for word in words) else ""
        facts = [*words, where, str(splits()), identify_compiler(), identify_translator()]
        sys.stderr.write(units.compile_once(content, facts, Path(output), build))


def main(words: list[str] | None = None) -> int:
    """Run the command line."""
    version = os.environ.get("TORCHDEVICE_TOOLKIT_VERSION", "13.0")
    try:
        given = sys.argv[1:] if words is None else words
        first, last = (shlex.split(os.environ.get(f"NVCC_{name}_FLAGS", "")) for name in ("PREPEND", "APPEND"))
        command = flags.read([*first, *given, *last])
        if command.asks_version:
            print(version_text(version), end="")
            return 0
        if command.is_verbose:
            sys.stderr.write(verbose_text(command.home))
        if command.dry:
            return 0
        if command.is_device_link:  # the objects are whole: the one that links them is empty
            target = ["-o", command.output or "a_dlink.o"]
            done = run_compiler(["-x", "c++", "-fPIC", "-c", os.devnull, *target])
            sys.stderr.write(done.stderr)
            return done.returncode
        objects = list(command.objects)
        if command.compile_only and len(command.sources) == 1:
            source = Path(command.sources[0])
            compile_source(source, command, command.output or f"{source.stem}.o")
            return 0
        with leftovers.scratch("torchdevice-nvcc-") as (scratch, _):
            for i, name in enumerate(command.sources):
                made = f"{Path(name).stem}.o" if command.compile_only else f"{scratch}/{i}.o"
                compile_source(Path(name), command, made)
                objects.append(made)
            if command.compile_only:
                return 0
            target = ["-o", command.output or "a.out"]
            done = run_compiler([*objects, *target, *command.linking, "-lpthread", "-ldl"])
            sys.stderr.write(done.stderr)
            return done.returncode
    except (flags.Unknown, refusals.Refused) as error:
        print(error, file=sys.stderr)
        return 1
    except Failed as error:
        sys.stderr.write(str(error))
        return 1
    except OSError as error:  # no room for what is made on the way
        print(f"nvcc: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
