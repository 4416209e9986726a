"""Kernels that are compiled while a program runs: the functions of NVRTC and of CUDA's driver that PyTorch calls.

`torch.cuda._compile_kernel` reaches both through ctypes, and its own code checks arguments and words errors. So it is
left as it is, and gets objects with the functions that it calls. What NVRTC gives as code is here a library, as bytes.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .. import leftovers
from . import flags, nvcc, refusals, tokens, translation

#: The folder of the cache.
_AREA = "kernels"
#: Libraries that came from the cache, by their digests, and what compiles each again.
_from_cache: dict[bytes, Callable[[], bytes]] = {}
_SUCCESS, _INVALID_VALUE, _NOT_FOUND = 0, 1, 500
_COMPILATION, _BAD_NAME = 6, 8
#: The beginning of a library where PTX is expected, which is text and ends with a zero.
_TEXT = b"// a library in base64: "
_NVRTC_WORDS = {_COMPILATION: "NVRTC_ERROR_COMPILATION", _BAD_NAME: "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID"}
_ENTRY = """
extern "C" __attribute__((visibility("default"))) int {symbol}(const unsigned* host_cuda_dims, unsigned long \
host_cuda_shared, void* host_cuda_stream, void** host_cuda_arguments) {{
  return ::host_cuda::launch_packed("{shown}", &{expression}, {{{{host_cuda_dims[0], host_cuda_dims[1], \
host_cuda_dims[2]}}, {{host_cuda_dims[3], host_cuda_dims[4], host_cuda_dims[5]}}, host_cuda_shared, \
host_cuda_stream}}, host_cuda_arguments);
}}
"""
_COMMON = """
extern "C" __attribute__((visibility("default"))) int host_cuda_allow(int bytes) {
  return host_cuda_allow_shared(bytes);
}
extern "C" __attribute__((visibility("default"))) int host_cuda_failure() {
  return cudaPeekAtLastError();
}
extern "C" __attribute__((visibility("default"))) const char* host_cuda_words(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
"""


def _symbol(expression: str) -> str:
    """Return the name of a kernel's launching function in the library."""
    if re.fullmatch(r"\w+", expression):
        return f"host_cuda_launch_{expression}"
    return f"host_cuda_launch_{hashlib.sha256(expression.encode()).hexdigest()[:16]}"


class CompileError(Exception):
    """The compiler's errors."""


def compile_library(source: str, file: str, expressions: Sequence[str], options: Sequence[str]) -> bytes:
    """Return a library with the kernels that the expressions name, and all of ``extern "C"``."""
    from ..native import half, kernel_libraries  # most programs compile none

    words = [option for option in options if not option.startswith(("--pch", "--std="))]
    standard = [f"-std={option[6:]}" for option in options if option.startswith("--std=")]
    command = flags.read([*words, *standard])
    # A cache in a home folder that machines share must not serve one processor's instructions to another.
    chosen = [str(nvcc.checked()), str(nvcc.counted()), str(nvcc.splits()), nvcc.read_level()]
    facts = [source, file, *expressions, *options, *chosen, nvcc.identify_translator(), half.identify_processor()]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:32]

    def build() -> bytes:
        try:
            with leftovers.scratch(kernel_libraries.SCRATCH) as (scratch, _):
                return _build(scratch, source, file, expressions, command)
        except OSError as error:  # no room for what is made on the way
            raise CompileError(f"{error}\n") from error

    made, is_cached = kernel_libraries.provide(_AREA, f"{key}.so", build)
    if is_cached:
        _from_cache[hashlib.sha256(made).digest()] = functools.partial(
            kernel_libraries.rebuild, _AREA, f"{key}.so", build
        )
    return made


def _build(scratch: Path, source: str, file: str, expressions: Sequence[str], command: flags.Command) -> bytes:
    path = scratch / re.sub(r"[^\w.]", "_", file)
    named = list(dict.fromkeys([*expressions, *_plain_names(source)]))
    entries = "".join(
        _ENTRY.format(symbol=_symbol(name), shown=name.replace('"', ""), expression=name) for name in named
    )
    path.write_text(f'#line 1 "{file}"\n{source}\n#line 1 "<launchers>"\n{_COMMON}{entries}', encoding="utf-8")
    library = scratch / "kernels.so"
    try:
        text = nvcc.preprocess(path, command, scratch)
        made = scratch / "kernels.o"
        told = [*nvcc.standard(command.compiling), *nvcc.shape(), *nvcc.choose_level(["-O3", *command.compiling])]
        told += ["-fvisibility=hidden", "-o", str(made)]
        # Two steps: with the flags of checks, the linker would add the sanitizers' own libraries.
        nvcc.compile_translated(text, command, scratch / "kernels.ii", told)
        done = nvcc.run_compiler(["-shared", str(made), "-o", str(library), "-lpthread", "-ldl"])
        if done.returncode:
            raise CompileError(done.stderr)
    except (nvcc.Failed, refusals.Refused) as error:
        raise CompileError(str(error)) from error
    return library.read_bytes()


def _plain_names(source: str) -> list[str]:
    """Kernels of ``extern "C"``, which can be asked for by name."""
    found = tokens.tokenize(source)
    texts = [token.text for token in found]
    if '"C"' not in texts:
        return []
    return [kernel.name for kernel in translation.kernels(found) if _is_plain_c(found, kernel.start)]


def _is_plain_c(found: list[tokens.Token], at: int) -> bool:
    """Return whether a declaration is of ``extern "C"``, or in a block of it."""
    depth, i = 0, at
    while i >= 0:
        text = found[i].text
        if text == "}" and found[i].kind == "mark":
            i = tokens.opening(found, i)
        elif text == "{" and found[i].kind == "mark":
            before = tokens.before(found, i)
            return before >= 0 and found[before].text == '"C"'
        elif text == '"C"' and depth == 0:
            after = tokens.after(found, i)
            if found[after].text != "{":
                return not any(t.text in (";", "}", "{") for t in found[i + 1 : at])
        i -= 1
    return False


# ------------------------------------------------------------- NVRTC
def _as_text(library: bytes) -> bytes:
    """Wrap a library as text where PTX is expected."""
    return _TEXT + base64.b64encode(library)


def _as_library(code: bytes) -> bytes:
    """The other way round; what is no library stays what it is."""
    return base64.b64decode(code[len(_TEXT) :]) if code.startswith(_TEXT) else code


class Rtc:
    """NVRTC's functions, as ctypes would call them."""

    def __init__(self) -> None:
        self._programs: dict[int, dict[str, Any]] = {}
        self._numbers = itertools.count(1)

    def nvrtcCreateProgram(self, program: Any, source: bytes, name: bytes, *_: Any) -> int:
        """Keeps the source."""
        number = next(self._numbers)
        self._programs[number] = {
            "source": source.decode(),
            "file": name.decode(),
            "expressions": [],
            "code": b"",
            "log": b"",
        }
        program._obj.value = number
        return _SUCCESS

    def nvrtcAddNameExpression(self, program: Any, name: bytes) -> int:
        """Add a kernel to compile, which may be an instance of a template."""
        self._programs[program.value]["expressions"].append(name.decode())
        return _SUCCESS

    def nvrtcCompileProgram(self, program: Any, count: int, options: Any) -> int:
        """Compiles; the log has what is wrong."""
        known = self._programs[program.value]
        words = [options[i].decode() for i in range(count)]
        try:
            known["code"] = compile_library(known["source"], known["file"], known["expressions"], words)
        except (CompileError, flags.Unknown) as error:
            known["log"] = str(error).encode()
            return _COMPILATION
        return _SUCCESS

    def nvrtcGetErrorString(self, result: int, words: Any) -> int:
        """Return a code's name."""
        words._obj.value = _NVRTC_WORDS.get(result, "NVRTC_ERROR unknown").encode()
        return _SUCCESS

    def nvrtcGetProgramLogSize(self, program: Any, size: Any) -> int:
        """With the zero at its end."""
        size._obj.value = len(self._programs[program.value]["log"]) + 1
        return _SUCCESS

    def nvrtcGetProgramLog(self, program: Any, log: Any) -> int:
        """Return the compiler's output."""
        log.value = self._programs[program.value]["log"]
        return _SUCCESS

    def nvrtcGetCUBINSize(self, program: Any, size: Any) -> int:
        """Return the size of the library."""
        size._obj.value = len(self._programs[program.value]["code"])
        return _SUCCESS

    def nvrtcGetCUBIN(self, program: Any, code: Any) -> int:
        """Return the library."""
        code.raw = self._programs[program.value]["code"]
        return _SUCCESS

    def nvrtcGetPTXSize(self, program: Any, size: Any) -> int:
        """Return the size of the PTX, with the zero at its end, which older releases of PyTorch request."""
        size._obj.value = len(_as_text(self._programs[program.value]["code"])) + 1
        return _SUCCESS

    def nvrtcGetPTX(self, program: Any, code: Any) -> int:
        """Return the library as text, of which PyTorch takes what is before a zero."""
        code.value = _as_text(self._programs[program.value]["code"])
        return _SUCCESS

    def nvrtcGetLoweredName(self, program: Any, name: bytes, lowered: Any) -> int:
        """Return the kernel's name in the library."""
        lowered._obj.value = name
        return _SUCCESS

    def nvrtcDestroyProgram(self, program: Any) -> int:
        """Forgets the source."""
        self._programs.pop(program._obj.value, None)
        return _SUCCESS


# ------------------------------------------------------------- the driver


class Runtime:
    """The functions of CUDA's driver that load and launch kernels, as ctypes would call them."""

    def __init__(self) -> None:
        self._libraries: dict[int, Any] = {}
        self._functions: dict[int, tuple[Any, Any, str]] = {}
        self._numbers = itertools.count(1)
        self._words: Any = None
        self._files = contextlib.ExitStack()

    def cuModuleLoadData(self, module: Any, code: bytes) -> int:
        """Load a library from its bytes. One of the cache that does not load is compiled again, once."""
        from ..native import kernel_libraries

        content = _as_library(code)
        try:
            try:
                library = self._load(content)
            except OSError as error:
                build = _from_cache.pop(hashlib.sha256(content).digest(), None)
                if build is None:
                    raise
                kernel_libraries.explain(f"it does not load: {error}")
                library = self._load(build())
        except (OSError, CompileError):
            return 209  # no binary for this device
        number = next(self._numbers)
        self._libraries[number] = library
        self._words = library.host_cuda_words
        self._words.restype = ctypes.c_char_p
        module._obj.value = number
        return _SUCCESS

    def _load(self, content: bytes) -> Any:
        from ..native import kernel_libraries

        # A line that is reported is looked up in the file.
        return kernel_libraries.load(content, self._files if nvcc.checked() else None)

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        """Return a kernel of a library."""
        library = self._libraries[module.value]
        try:
            found = getattr(library, _symbol(name.decode()))
        except AttributeError:
            return _NOT_FOUND
        found.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_void_p]
        number = next(self._numbers)
        self._functions[number] = (found, library, name.decode())
        function._obj.value = number
        return _SUCCESS

    def name_of(self, function: Any) -> str:
        """Return the name by which a kernel was requested."""
        return self._functions[function.value][2]

    def find_failure(self, function: Any) -> str:
        """Return what CUDA says of a kernel that failed while it ran; empty if it did not."""
        code: int = self._functions[function.value][1].host_cuda_failure()
        return (self._words(code) or b"").decode() if code else ""

    def cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> int:
        """Set how much shared memory a launch may use."""
        result: int = self._functions[function.value][1].host_cuda_allow(value)
        return result

    def cuLaunchKernel(self, function: Any, *words: Any) -> int:
        """Grid, block, shared memory, stream, arguments."""
        *dims, shared, stream, arguments, _ = words
        if any(not 0 <= size < 2**32 for size in dims):
            return _INVALID_VALUE
        sizes = (ctypes.c_uint * 6)(*dims)
        result: int = self._functions[function.value][0](sizes, shared, stream, arguments)
        # The driver has one code for what the runtime calls a wrong configuration.
        return _INVALID_VALUE if result == 9 else result

    def cuGetErrorString(self, error: int, words: Any) -> int:
        """Return a code in words."""
        known = {
            _INVALID_VALUE: b"invalid argument",
            _NOT_FOUND: b"named symbol not found",
            209: b"no kernel image is available for execution on the device",
        }
        words._obj.value = known.get(error) or (self._words(error) if self._words else b"unknown error")
        return _SUCCESS
