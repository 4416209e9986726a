"""nvcc's command line: what each flag is to the host's compiler. A flag that is in no table is refused by name."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path


class Unknown(Exception):
    """A flag that means nothing here."""


#: Flags with a value, in the next word or after "=": they say what code for GPUs is like.
_DROPPED_WITH_VALUE = {
    "-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code", "--gpu-code", "-maxrregcount",
    "--maxrregcount", "-t", "--threads", "--default-stream", "-default-stream", "-ccbin", "--compiler-bindir",
    "-Xptxas", "--ptxas-options", "-diag-suppress", "--diag-suppress", "-diag_suppress", "--diag_suppress",
    "-diag-error", "--diag-error", "-Xcudafe", "-Xfatbin", "--fatbin-options", "-split-compile", "--split-compile",
    "-Xnvlink", "-cudart", "--cudart", "-ftz", "--ftz", "-prec-div", "--prec-div", "-prec-sqrt", "--prec-sqrt",
    "--relocatable-device-code", "-rdc", "--extra-device-vectorization", "-restrict", "--ptx-isa-version",
    "--keep-dir", "-keep-dir", "--diag-warn", "-diag-warn", "--compress-mode", "-compress-mode",
    "--optimization-info", "-opt-info", "--dopt", "-dopt", "--machine", "-machine", "--jump-table-density", "-jtd",
    "--libdevice-directory", "-ldir", "--target-directory", "-target-dir", "--cudadevrt", "-cudadevrt", "-cudaFE",
    "--split-compile-extended", "-split-compile-extended", "--archive-options", "-Xarchive", "--archiver-binary",
    "-arbin", "--brief-diagnostics", "-brief-diag", "--static-global-template-stub", "-static-global-template-stub",
    "--device-entity-has-hidden-visibility", "-device-entity-has-hidden-visibility", "--entries", "-e",
    "--frandom-seed", "-frandom-seed", "--device-stack-protector", "-device-stack-protector",
}  # fmt: skip
#: Flags that stand alone and change code for GPUs, or what nvcc says, only.
_DROPPED = {
    "--expt-relaxed-constexpr", "-expt-relaxed-constexpr", "--expt-extended-lambda", "-expt-extended-lambda",
    "--extended-lambda", "-extended-lambda", "-lineinfo", "--generate-line-info", "--ptxas-options=-v", "-G",
    "--device-debug", "-res-usage", "--resource-usage", "-keep", "--keep", "--source-in-ptx",
    "-w", "--disable-warnings", "--forward-unknown-to-host-compiler", "-forward-unknown-to-host-compiler",
    "--forward-unknown-opts", "--use-local-env", "-restrict", "--restrict", "-pch", "--pch",
    "--device-as-default-execution-space", "-Werror=all-warnings", "--extra-device-vectorization", "-time",
    "--no-host-device-move-forward", "--allow-unsupported-compiler", "-allow-unsupported-compiler", "-use-local-env",
    "--no-host-device-initializer-list", "-nohdinitlist", "-nohdmoveforward", "--save-temps", "-save-temps",
    "--clean-targets", "-clean", "--no-device-link", "-nodlink", "--no-compress", "-no-compress", "-src-in-ptx",
    "--keep-device-functions", "-keep-device-functions", "--display-error-number", "-err-no", "-no-err-no",
    "--no-display-error-number", "--dlink-time-opt", "-dlto", "-lto", "--lto", "--gen-opt-lto", "-gen-opt-lto",
    "--extensible-whole-program", "-ewp", "--dont-use-profile", "-noprof", "--objdir-as-tempdir", "-objtemp",
    "--no-align-double", "--fdevice-time-trace", "-fdevice-time-trace", "--time", "-jobserver", "--jobserver",
    "--forward-unknown-to-host-linker", "-forward-unknown-to-host-linker", "-extra-device-vectorization",
    "-forward-unknown-opts", "--link", "-link", "-astoolspatch",
}  # fmt: skip
#: Flags by which nvcc prints a line for each kernel.
_VERBOSE, _OF_PTXAS = {"-res-usage", "--resource-usage", "--ptxas-options=-v"}, {"-Xptxas", "--ptxas-options"}
#: Flags that are others to the host's compiler.
_OTHERS = {
    "--use_fast_math": ["-ffast-math", "-fno-finite-math-only"],
    "-use_fast_math": ["-ffast-math", "-fno-finite-math-only"],
    "--fmad=false": ["-ffp-contract=off"],
    "-fmad=false": ["-ffp-contract=off"],
    "--fmad=true": ["-ffp-contract=fast"],
    "-fmad=true": ["-ffp-contract=fast"],
    "--optimize=0": ["-O0"],
    "--optimize=1": ["-O1"],
    "--optimize=2": ["-O2"],
    "--optimize=3": ["-O3"],
    "--debug": ["-g"],
    "-MD": ["-MD"],
    "--generate-dependencies-with-compile": ["-MD"],
    "--generate-nonsystem-dependencies-with-compile": ["-MMD"],
    "--generate-dependency-targets": ["-MP"],
    "--profile": ["-pg"],
    "--no-exceptions": ["-fno-exceptions"],
    "-noeh": ["-fno-exceptions"],
    "--m64": ["-m64"],
    "--shared": ["-shared"],
}
#: Words that are the host's with one value, in the next word or after "=".
_RENAMED = {
    "--define-macro": "-D",
    "--undefine-macro": "-U",
    "--include-path": "-I",
    "--system-include": "-isystem",
    "--output-file": "-o",
    "--pre-include": "-include",
    "--dependency-output": "-MF",
    "--dependency-target-name": "-MT",
    "--library": "-l",
    "--library-path": "-L",
    "--optimize": "-O",
    "-x": "-x",
    "--x": "-x",
    "--std": "-std=",
    "-std": "-std=",
    "-o": "-o",
    "-isystem": "-isystem",
    "-include": "-include",
    "-MF": "-MF",
    "-MT": "-MT",
    "-MQ": "-MQ",
    "-I": "-I",
    "-D": "-D",
    "-U": "-U",
    "-L": "-L",
    "-l": "-l",
    "-idirafter": "-idirafter",
}
#: Words whose value is for the host's compiler or linker, parts divided by commas.
_PASSED_ON = {"-Xcompiler", "--compiler-options", "-Xlinker", "--linker-options"}
#: Flags that the host's compiler needs when it links, too.
_ALSO_LINKING = ("-fopenmp", "-pthread", "-fsanitize", "-pg")
_JOINED = re.compile(r"-(?:[IDULlfm].+|O[0-3sg]?|Ofast|std=.+|W.*|g\d?|fPIC|MF.+|isystem.+|pthread|M[PTQM].*|shared)")
_ARCHITECTURE = re.compile(r"(?:compute|sm)_(\d+)")
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


@dataclasses.dataclass
class Command:
    """A command line of nvcc's, taken apart."""

    sources: list[str] = dataclasses.field(default_factory=list)
    objects: list[str] = dataclasses.field(default_factory=list)
    #: For the preprocessor: folders, macros, what is included first, and which dependencies are written.
    reading: list[str] = dataclasses.field(default_factory=list)
    #: For the compiler proper.
    compiling: list[str] = dataclasses.field(default_factory=list)
    linking: list[str] = dataclasses.field(default_factory=list)
    output: str = ""
    compile_only: bool = False
    asks_version: bool = False
    dry: bool = False
    #: Whether every source is CUDA C++, whatever its name: ``-x cu``. Otherwise one that is not named .cu is C++.
    is_cuda: bool = False
    #: Objects of several sources become one: ``-dlink``.
    is_device_link: bool = False
    is_verbose: bool = False
    #: The folder of the toolkit that the command is of.
    home: str = ""
    #: Whether variables of the GPU can be used by other sources: ``-rdc=true``.
    is_relocatable: bool = False
    #: Of the newest GPU that code is asked for, as ``__CUDA_ARCH__`` has it.
    architecture: int = 700
    #: Whether it is said of each kernel with barriers how its threads run.
    lists_kernels: bool = False

    def _put(self, words: list[str]) -> None:
        head = words[0]
        if head == "-o":
            self.output = words[1]
        elif head.startswith(("-I", "-D", "-U", "-isystem", "-include", "-idirafter", "-M")):
            self.reading.extend(words)
        elif head.startswith(("-L", "-l", "-shared", "-Wl,")):
            self.linking.extend(words)
        elif head == "-x":
            self.is_cuda |= words[1] == "cu"
        else:
            if head.startswith("-std="):
                self.reading.append(head)
            self.compiling.extend(words)
            if head.startswith(_ALSO_LINKING):
                self.linking.extend(words)


def read(words: list[str]) -> Command:
    """Return the command line in parts; raises where a flag is not known."""
    command = Command()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in ("--version", "-V"):
            command.asks_version = True
        elif word in ("-c", "--compile"):
            command.compile_only = True
        elif word in ("--dryrun", "-dryrun"):
            command.dry = True
        elif word in ("-dlink", "--device-link"):
            command.is_device_link = True
        elif name == "--torchdevice-toolkit":
            command.home = value
        elif word in ("-v", "--verbose"):
            command.is_verbose = True
        elif name in ("--options-file", "-optf"):
            for file in (value if equals else _value(word, rest)).split(","):
                rest[:0] = shlex.split(Path(file).read_text(encoding="utf-8"))
        elif word in ("-rdc=true", "--relocatable-device-code=true", "-dc", "--device-c"):
            command.is_relocatable = True
            command.compile_only = command.compile_only or word in ("-dc", "--device-c")
        elif word in _OTHERS:
            command._put(_OTHERS[word])
        elif rest and f"{word}={rest[0]}" in _OTHERS:
            command._put(_OTHERS[f"{word}={rest.pop(0)}"])
        elif word in _DROPPED:
            command.lists_kernels = command.lists_kernels or word in _VERBOSE
        elif name in _PASSED_ON:
            for part in (value if equals else _value(word, rest)).strip("'\"").split(","):
                command._put([part.strip("'\"")])
        elif name in _DROPPED_WITH_VALUE:
            given = value if equals else _value(word, rest)
            command.is_relocatable |= name in ("-rdc", "--relocatable-device-code") and given == "true"
            command.lists_kernels = command.lists_kernels or (name in _OF_PTXAS and "-v" in given.split(","))
            for found in _ARCHITECTURE.findall(given):
                command.architecture = max(command.architecture, int(found) * 10)
        elif word in _RENAMED or (equals and name in _RENAMED and name.startswith(("--", "-std", "-isystem"))):
            given, flag = value if equals else _value(word, rest), _RENAMED[name]
            command._put(
                [flag + given] if flag.endswith("=") or flag in ("-D", "-U", "-I", "-L", "-l", "-O") else [flag, given]
            )
        elif _JOINED.fullmatch(word):
            command._put([word])
        elif word.startswith("-"):
            raise Unknown(f"nvcc: the flag {word!r} is not known to torchdevice_cuda's compiler of CUDA C++")
        elif Path(word).suffix in _SOURCES:
            command.sources.append(word)
        else:
            command.objects.append(word)
    return command


def _value(word: str, rest: list[str]) -> str:
    if not rest:
        raise Unknown(f"nvcc: the flag {word!r} lacks its value")
    return rest.pop(0)
