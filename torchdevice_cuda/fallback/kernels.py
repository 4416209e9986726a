"""A kernel at the device's dispatch key for each operator that has none there.

The kernels are registered with the dispatcher, so that operators of the backend cost nothing extra, backward passes and
composite operators are covered, and no error has to be caught.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from ..drivers import cuda_operators, cuda_products
from ..report.departures import departures, timed
from . import cpu
from .capabilities import COMPOSITE, cut_off, keys, limited, missing, of_libraries, with_kernel
from .guards import Guard
from .mlx_routes import Routes
from .operators import Shape, overload

if TYPE_CHECKING:
    from .operators import Operator

_log = logging.getLogger("torchdevice_cuda")
NO_KERNEL = "the GPU's backend has no kernel"


class FallbackError(NotImplementedError):
    """An operator would leave the accelerator, which is an error by the user's setting."""


class Chain:
    """The fallback of an operator without a kernel, by the ``fallback`` and ``mlx`` settings.

    ``allocated`` is called when device memory was allocated for results; ``site`` returns file and line of the
    program's running code; ``translated`` translates an error for the program; ``believed_cpu`` returns whether a
    tensor reports the CPU.
    """

    def __init__(
        self,
        setting: str,
        device: torch.device,
        allocated: Callable[[], None],
        mlx: str = "auto",
        *,
        site: Callable[[], tuple[str, int]],
        translated: Callable[[BaseException], BaseException] = lambda error: error,
        believed_cpu: Callable[[torch.Tensor], bool] = lambda tensor: False,
    ) -> None:
        self._setting = setting
        self.device = device
        self._allocated = allocated
        self._site = site
        self.translated = translated
        self.believed_cpu = believed_cpu
        self._warned: set[str] = set()
        self.routes = Routes(mlx, self.left)

    def left(self, name: str, where: str, why: str) -> None:
        """Count an operator that leaves the accelerator, and report it as the setting requires."""
        if not departures.counter(name, where, why)() or self._setting == "error":
            self.announce(name, where, why)

    def announce(self, name: str, where: str, why: str) -> None:
        """Report an operator that leaves the accelerator, as the setting requires."""
        if departures.timed:
            departures.first_at((name, where, why), *self._site())
        if self._setting == "error":
            file, line = self._site()
            raise FallbackError(
                f"{file}:{line}: {name} would leave the accelerator: {why} (--fallback error); "
                "move it to the CPU, or use --fallback warn"
            )
        if self._setting == "allow":
            _log.info("%s runs on %s: %s", name, where, why)
        elif name not in self._warned:
            self._warned.add(name)
            file, line = self._site()
            warnings.warn_explicit(f"{name} runs on {where}: {why}", UserWarning, file, line)

    def passage(self, name: str, where: str) -> cpu.Passage:
        """Return the transfer for an operator without a kernel."""
        # If a fallback is an error, each one is announced.
        count = (lambda: 0) if self._setting == "error" else departures.counter(name, where, NO_KERNEL)
        announce = functools.partial(self.announce, name, where, NO_KERNEL)
        return cpu.Passage(count, announce, self._allocated, self.translated)

    def kernel(self, op: Operator) -> Callable[..., Any]:
        """Return the kernel of one operator."""
        name, shape = op.name(), Shape.of(op)
        on_cpu = timed(cpu.carried(shape, self.device, self.passage(name, "CPU")), (name, "CPU", NO_KERNEL))
        route = self.routes.of(shape)
        if route is None:
            return on_cpu

        @functools.lru_cache(maxsize=1)  # MLX's function is the same each time; a measurement's is not
        def by_way_of(where: str, inner: Callable[..., Any]) -> Callable[..., Any]:
            carried = cpu.carried(shape, self.device, self.passage(name, where), inner)
            return timed(carried, (name, where, NO_KERNEL))

        def compute(*args: Any, **kwargs: Any) -> Any:
            where, inner = route(args, kwargs)
            return (on_cpu if inner is None else by_way_of(where, inner))(*args, **kwargs)

        return compute


def register(chain: Chain, guard: Guard, elsewhere: Collection[str]) -> list[torch.library.Library]:
    """Register a kernel for every missing operator, and one over each that may refuse; return the libraries.

    Operators of ``elsewhere`` are registered by others.
    """
    library = torch.library.Library("aten", "IMPL")
    known = keys()
    refusing = limited("MPS")  # before the missing ones have kernels too
    having = with_kernel("MPS")
    # The virtual GPU has compiled kernels for the products.
    composed = {**cuda_operators.KERNELS, **cuda_products.KERNELS}
    cudas = cuda_operators.register("MPS", lambda name: name not in having, composed)
    for name, key in _refused():
        if key in known:
            library.impl(name.removeprefix("aten::"), _refusing(overload(name), key), key)
    for key in known:
        for name in missing(key):
            if name.removeprefix("aten::") not in elsewhere:
                library.impl(name.removeprefix("aten::"), chain.kernel(overload(name)), key)
    for name in cut_off("MPS"):
        library.impl(name.removeprefix("aten::"), overload(name).decompose, "AutogradMPS")
    with warnings.catch_warnings():
        # torch warns once that kernels are overridden; these call the ones that they override.
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for name in refusing:
            op = overload(name)
            native = torch.library.get_kernel(op, "MPS")
            # torch itself has written one of them in Python, which 2.11 would keep.
            library.impl(name.removeprefix("aten::"), guard.operator(op, native), "MPS", allow_override=True)
    return [library, cudas, _quantized(chain)]


class OfLibraries:
    """Kernels for operators of other libraries, which are registered as the libraries are loaded."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._known: set[str] = set()

    def register(self) -> list[torch.library.Library]:
        """Register a kernel for each such operator that has none yet; return the libraries."""
        libraries: dict[str, torch.library.Library] = {}
        for name in of_libraries(self._known):
            self._known.add(name)
            namespace, _, plain = name.partition("::")
            library = libraries.setdefault(namespace, torch.library.Library(namespace, "IMPL"))
            library.impl(plain, self._chain.kernel(overload(name)), "MPS")
        return list(libraries.values())


def _quantized(chain: Chain) -> torch.library.Library:
    """Register kernels of PyTorch's quantized operators for tensors that are not quantized."""
    library = torch.library.Library("quantized", "IMPL")
    for name in _of_quantized():
        op = overload(name)
        kernel = _computing_quantized(op, chain.kernel(op), chain.believed_cpu)
        library.impl(name.removeprefix("quantized::"), kernel, "MPS")
    return library


# ---- operators that CUDA refuses, too, with its messages, which a program may expect
Kernel = Callable[..., Any]
#: Messages about a library that CUDA builds of PyTorch lack, and about operators that are not implemented.
_NO_MIOPEN = "{name}: ATen not compiled with MIOpen support"
_WORDS = {
    "aten::miopen_rnn": "miopen_rnn : ATen not compiled with MIOpen support.",
    "aten::miopen_rnn_backward": "miopen_rnn_backward: ATen not compiled with MIOpen support.",
    "aten::sspaddmm.out": "NYI: CUDA sspaddmm is not implemented",
}
#: By prefix: operators of oneDNN, which only the CPU has, and of MIOpen.
_ONEDNN, _MIOPEN = ("aten::mkldnn_", "aten::to_mkldnn"), "aten::miopen_"
#: Operators on sparse tensors.
_SPARSE = ("aten::indices_copy", "aten::sspaddmm.out")
#: The only operators of PyTorch's quantized library that accept unquantized tensors on CUDA.
_OF_CUDA = "_rowwise_offsets"


def _refused() -> Iterator[tuple[str, str]]:
    """Yield names of operators, each with the backend's dispatch key at which it is refused."""
    made_of_others = frozenset().union(*map(with_kernel, COMPOSITE))
    known = frozenset(torch._C._dispatch_get_all_op_names()) - with_kernel("MPS") - made_of_others
    yield from ((name, "MPS") for name in sorted(known) if name.startswith((*_ONEDNN, _MIOPEN)))
    yield from ((name, "SparseMPS") for name in _SPARSE)


def _refusing(op: Operator, key: str) -> Kernel:
    """Return a kernel that refuses an operator at a dispatch key."""
    words = _WORDS.get(op.name())
    if words is None and op.name().startswith(_MIOPEN):
        words = _NO_MIOPEN.format(name=op.overloadpacket.__name__)
    return functools.partial(_raise, words) if words else _asking(op, key.replace("MPS", "CUDA"))


def _raise(words: str, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(words)


def _asking(op: Operator, key: str) -> Kernel:
    """Return a kernel that makes the dispatcher raise that CUDA has no kernel, before it checks arguments."""
    return functools.partial(op.redispatch, torch._C.DispatchKeySet(torch._C._dispatch_key_parse(key)))


def _of_quantized() -> Iterator[str]:
    """List the operators of PyTorch's quantized library that the CPU has for tensors that are not quantized."""
    yield from sorted(name for name in with_kernel("CPU") - with_kernel("MPS") if name.startswith("quantized::"))


def _computing_quantized(op: Operator, on_cpu: Kernel, believed_cpu: Callable[[torch.Tensor], bool]) -> Kernel:
    """Return a kernel for a quantized operator that CUDA has, or whose tensors report the CPU."""
    if _OF_CUDA in op.name():
        return on_cpu
    refuse = _asking(op, "CUDA")

    def compute(*args: Any, **kwargs: Any) -> Any:
        believed = any(isinstance(value, torch.Tensor) and believed_cpu(value) for value in args)
        return (on_cpu if believed else refuse)(*args, **kwargs)

    return compute
