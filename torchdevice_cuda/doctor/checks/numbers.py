"""Check dtypes, addresses and operators that the GPU lacks without programs noticing: the results are the CPU's."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import torch

from ..asking import Finding, add, expect, main, question

_NEAR = {torch.float16: 2e-2, torch.bfloat16: 5e-2}
_NEAR_ELSE = 2e-3
_WIDE = (torch.float64, torch.complex128)


def _close(found: torch.Tensor, known: torch.Tensor, what: str) -> None:
    near = _NEAR.get(found.dtype, _NEAR_ELSE)
    exact = known.to(torch.complex128 if known.is_complex() else torch.float64)
    other = found.detach().cpu().to(exact.dtype)
    expect(other.shape == exact.shape, f"{what}: shape {tuple(other.shape)}, not {tuple(exact.shape)}")
    apart = (other - exact).abs().max().item()
    expect(apart <= near * (1 + exact.abs().max().item()), f"{what}: {apart:.2e} from what the CPU computes")


def _setting() -> str:
    from torchdevice_cuda import activation
    from torchdevice_cuda.drivers.traits import Trait

    return activation.current_settings().float64 if Trait.PARTIAL in activation.driver().traits else "held"


# --------------------------------------------------------------------------------------------------- wide dtypes
#: Functions that bring a tensor of a dtype to the device.
WAYS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "ones": lambda dtype: torch.ones(4, dtype=dtype, device="cuda"),
    "tensor": lambda dtype: torch.tensor([1, 1, 1, 1], dtype=dtype, device="cuda"),
    "to": lambda dtype: torch.ones(4, dtype=dtype).to("cuda"),
    "cuda": lambda dtype: torch.ones(4, dtype=dtype).cuda(),
    "empty_strided": lambda dtype: torch.empty_strided((4,), (1,), dtype=dtype, device="cuda"),
    "to, with strides": lambda dtype: torch.ones(4, 2, dtype=dtype).T[0].to("cuda"),
    "a change of dtype": lambda dtype: torch.ones(4, device="cuda").to(dtype),
    "ones_like": lambda dtype: torch.ones_like(torch.ones(4, device="cuda"), dtype=dtype),
    "new_ones": lambda dtype: torch.ones(4, device="cuda").new_ones(4, dtype=dtype),
}


def _wide(way: Callable[[torch.dtype], torch.Tensor], dtype: torch.dtype) -> Finding:
    setting = _setting()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = way(dtype)
        except TypeError as error:
            expect(setting == "raise", f"refused, though float64 is set to {setting}: {error}")
            return None
        expect(setting != "raise", f"made as {made.dtype}, though float64 is set to raise")
        if setting == "downcast":
            expect(made.dtype not in _WIDE, f"a tensor of {made.dtype} got onto the GPU, which cannot compute it")
        else:
            expect(made.dtype is dtype, f"a tensor of {dtype} became one of {made.dtype}")
        made.fill_(1)
        found = ((made + 1) * made).sum().item()
    expect(found == 8, f"(1 + 1) * 1, four times, is {found}")
    return None


for _dtype in _WIDE:
    for _name, _way in WAYS.items():
        add(f"{str(_dtype).removeprefix('torch.')}, {_name}", functools.partial(_wide, _way, _dtype))


# ------------------------------------------------------------------------------------------------------- copies
@question
def copies_to_odd_addresses() -> Finding:
    for dtype, size in ((torch.uint8, 1), (torch.int16, 2), (torch.float16, 2)):
        source = torch.arange(64, device="cuda").to(dtype)
        for offset in range(1, 4):
            for count in (1, 3, 13):
                target = torch.zeros(64, dtype=dtype)
                target[offset : offset + count].copy_(source[:count])
                wanted = [0] * offset + list(range(count))
                found = target[: offset + count].tolist()
                expect(found == wanted, f"{count} x {dtype} to byte {offset * size}: {found}")
    return None


@question
def copies_from_odd_addresses() -> Finding:
    for dtype in (torch.uint8, torch.int16, torch.float16, torch.bool):
        host = torch.arange(64).remainder(2 if dtype is torch.bool else 64).to(dtype)
        there = host.to("cuda")
        for offset in range(1, 4):
            expect(there[offset:].cpu().equal(host[offset:]), f"{dtype} from element {offset} of the GPU")
            expect(host[offset:].to("cuda").cpu().equal(host[offset:]), f"{dtype} from element {offset} of the CPU")
            odd = there.clone()
            odd[offset : offset + 5].copy_(host[:5])
            expect(odd[offset : offset + 5].cpu().equal(host[:5]), f"{dtype} into element {offset} of the GPU")
    return None


# ----------------------------------------------------------------------------------------------- linear algebra
def _matrix(dtype: torch.dtype) -> torch.Tensor:
    made = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
    return made.to(dtype) + 0.5j * (torch.ones(3, 3).triu(1) - torch.ones(3, 3).tril(-1)) if dtype.is_complex else made


def _svd(x: torch.Tensor) -> torch.Tensor:
    u, s, v = torch.linalg.svd(x)
    found: torch.Tensor = u @ torch.diag_embed(s).to(u.dtype) @ v
    return found


#: Functions with unique results.
ALGEBRA: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "svd": _svd,
    "svdvals": lambda x: torch.linalg.svdvals(x),
    "qr": lambda x: torch.matmul(*torch.linalg.qr(x)),
    "solve": lambda x: torch.linalg.solve(x, x.mH),
    "solve_triangular": lambda x: torch.linalg.solve_triangular(x.triu(), x, upper=True),
    "inv": lambda x: torch.linalg.inv(x),
    "det": lambda x: torch.linalg.det(x),
    "cholesky": lambda x: torch.linalg.cholesky(x),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x),
    "pinv": lambda x: torch.linalg.pinv(x),
    "lu_factor": lambda x: torch.linalg.lu_factor(x)[0],
    "matrix_exp": lambda x: torch.matrix_exp(x / 4),
}


def _algebra(function: Callable[[torch.Tensor], torch.Tensor]) -> Finding:
    for dtype in (torch.float32, torch.complex64):
        host = _matrix(dtype).requires_grad_()
        there = _matrix(dtype).to("cuda").requires_grad_()
        known, found = function(host), function(there)
        _close(found, known.detach(), f"{dtype}")
        known.abs().square().sum().backward()
        found.abs().square().sum().backward()
        expect(there.grad is not None, f"{dtype}: gradients are lost")
        if there.grad is not None and host.grad is not None:
            _close(there.grad, host.grad, f"the gradient of {dtype}")
    return None


for _name, _function in ALGEBRA.items():
    add(f"linalg, {_name}", functools.partial(_algebra, _function))


# ---------------------------------------------------------------------------------------------------- operators
#: Operators for which some release of torch has no MPS kernel, or none for some dtypes.
OPERATORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mode": lambda x: x.round().mode(0).values,
    "take": lambda x: x.take(torch.arange(5, device=x.device)),
    "heaviside": lambda x: torch.heaviside(x - 2, x),
    "kthvalue": lambda x: x.kthvalue(2).values,
    "median": lambda x: x.median(0).values,
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "histc": lambda x: torch.histc(x, 4, 0, 8),
    "bincount": lambda x: torch.bincount(x.flatten().long()),
    "topk of six dimensions": lambda x: x.reshape(1, 1, 1, 1, 4, 8).topk(2, 0 - 2).values,
    "adaptive pooling": lambda x: torch.nn.functional.adaptive_avg_pool2d(x[None], (3, 5)),
    "complex cumsum": lambda x: (x * 1j).cumsum(0).abs(),
    "fft": lambda x: torch.fft.rfft(x).abs(),
    "sort of integers": lambda x: x.long().sort(-1).values,
    "float8": lambda x: x.to(torch.float8_e4m3fn).float(),
    "scatter_reduce": lambda x: x.scatter_reduce(0, torch.zeros_like(x, dtype=torch.int64), x, "mean"),
    "unique": lambda x: x.round().unique(),
    "csr": lambda x: x.to_sparse_csr() @ x.T,
}


def _operator(function: Callable[[torch.Tensor], torch.Tensor]) -> Finding:
    host = (torch.arange(32.0) * 7 % 13 / 2).reshape(4, 8)
    _close(function(host.to("cuda")), function(host), "its result")
    return None


for _name, _function in OPERATORS.items():
    add(f"operators, {_name}", functools.partial(_operator, _function))


@question
def halves() -> Finding:
    host = (torch.arange(64.0) % 9 / 8).reshape(8, 8)
    for dtype in (torch.float16, torch.bfloat16):
        there = host.to("cuda", dtype)
        _close(there @ there, host @ host, f"a product of {dtype}")
        _close(there.softmax(-1), host.softmax(-1), f"softmax of {dtype}")
    return None


@question
def seeds() -> Finding:
    drawn = []
    for seed in (1, 1, 2):
        torch.cuda.manual_seed(seed)
        drawn.append(torch.rand(64, device="cuda").tolist())
    expect(drawn[0] == drawn[1], "the same seed draws other numbers")
    expect(drawn[0] != drawn[2], "another seed draws the same numbers")
    return None


if __name__ == "__main__":
    main()
