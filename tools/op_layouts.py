"""Check that operators give the same values whatever the layout of their arguments.

    python tools/op_layouts.py [--driver virtual] [--dtype float32] [--samples 3] [--only median] [--every 1]

Each of PyTorch's operator samples is laid out in unusual ways: expanded, transposed, with steps between elements,
overlapping, channels last, empty, with conj and neg bits. What the operator gives then, and its gradients, must be what
it gives for contiguous copies of the same values on the same device. Some CPU kernels fail this where CUDA's do not, so
a device that computes with them has to work around it. Without a driver the device is stock torch's, `--device` of it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import op_sweep  # noqa: E402  (found through the line above)

#: Operators whose argument the layout is, or whose result is undefined.
ABOUT_LAYOUTS = {
    *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
    *("as_strided", "as_strided_copy", "as_strided_scatter", "resize_", "resize_as_"),
}
#: Words of errors that are about layouts, on a GPU too.
REFUSALS = (
    "view size is not compatible",
    "unsupported operation: more than one element of the written-to tensor",
    "unsupported operation: some elements of the input tensor and the written-to tensor",
    "must have a last dimension with stride 1",
    "view_as_real doesn't work on unresolved conjugated tensors",
    "negation fallback does not support operators with more than one mutable tensors",
    "conjugation fallback does not support operators with more than one mutable tensors",
    "Expected X.is_contiguous(memory_format) to be true",
)
#: What differs for a reason: operators, layouts (empty: all).
EXPLAINED = (
    (
        "a copy of overlapping elements overlaps, on a GPU too",
        "diagonal_scatter select_scatter slice_scatter",
        "overlapping",
    ),
    ("the gradient of a window that overlaps is wrong, on a GPU too", "stft", ""),
    (
        "the jiterator's kernels do not look at the conj bit, on a GPU too",
        "jiterator_unary jiterator_binary jiterator_binary_return_by_ref jiterator_2inputs_2outputs "
        "jiterator_4inputs_with_extra_args",
        "conj",
    ),
    ("values that do not fit are asserted, and the device is lost", "multinomial repeat_interleave", ""),
    (
        "equal rows make matrices singular",
        "cholesky_inverse cholesky_solve linalg.ldl_solve linalg.solve_triangular linalg.slogdet logdet pca_lowrank "
        "svd_lowrank",
        "",
    ),
    ("sizes that do not fit are read beyond their end, on a GPU too", "lu_unpack _segment_reduce", "empty"),
    (
        "statistics of no elements, which functional.batch_norm refuses",
        "native_batch_norm _native_batch_norm_legit",
        "empty",
    ),
)


def _expanded(x: Any) -> Any:
    return x.narrow(0, 0, 1).expand(x.shape) if x.shape[0] > 1 else None


def _expanded_last(x: Any) -> Any:
    return x.narrow(-1, 0, 1).expand(x.shape) if x.shape[-1] > 1 and x.dim() > 1 else None


def _transposed(x: Any) -> Any:
    axes = tuple(reversed(range(x.dim())))
    return x.permute(axes).contiguous().permute(axes) if x.dim() > 1 else None


def _stepped(x: Any) -> Any:
    sizes = [2 * size + 1 for size in x.shape]
    made = x.new_zeros(sizes)[tuple(slice(1, None, 2) for _ in sizes)]
    return made.copy_(x)


def _overlapping(x: Any) -> Any:
    return x.contiguous().as_strided(x.shape, [1] * x.dim()) if x.dim() > 1 else None


def _channels_last(x: Any) -> Any:
    import torch

    if x.dim() not in (4, 5):
        return None
    return x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)


def _empty(x: Any) -> Any:
    return x.narrow(0, 0, 0)


def _conjugated(x: Any) -> Any:
    return x.conj().resolve_conj().conj() if x.is_complex() else None


def _negated(x: Any) -> Any:
    import torch

    return torch._neg_view(-x) if x.is_floating_point() or x.is_complex() else None


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "expanded": _expanded,
    "expanded last": _expanded_last,
    "transposed": _transposed,
    "stepped": _stepped,
    "overlapping": _overlapping,
    "channels last": _channels_last,
    "empty": _empty,
    "conj": _conjugated,
    "neg": _negated,
}


class _Sample:
    """A sample whose tensors have another layout, or are plain copies of those."""

    def __init__(self, sample: Any, layout: Callable[[Any], Any], device: str, first_only: bool) -> None:
        self._sample, self._layout, self._device, self._first_only = sample, layout, device, first_only
        self.changed = 0

    def arguments(self, plain: bool) -> tuple[Any, list[Any], dict[str, Any], list[Any]]:
        """Return input, args, kwargs and the leaves that gradients are taken of."""
        from torch.utils._pytree import tree_map

        leaves: list[Any] = []
        self.changed = 0

        def lay_out(value: Any) -> Any:
            import torch

            if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
                return self._device
            if not isinstance(value, torch.Tensor):
                return value
            made = value.detach().to(self._device, copy=True)
            if value.layout is not torch.strided or value.is_quantized or value.is_nested:
                return made
            with torch.no_grad():
                laid = self._layout(made) if value.dim() and value.numel() and self._applies() else None
                if laid is not None:
                    self.changed += 1
                    made = (
                        laid.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
                        if plain
                        else laid
                    )
            if value.requires_grad:
                made = made.requires_grad_()
                leaves.append(made)
            return made

        first = tree_map(lay_out, self._sample.input)
        return first, tree_map(lay_out, list(self._sample.args)), tree_map(lay_out, self._sample.kwargs), leaves

    def _applies(self) -> bool:
        return not (self._first_only and self.changed)


def _run(op: Any, sample: Any, laid_out: _Sample, plain: bool, grads: bool, seed: int = 0) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    first, args, kwargs, leaves = laid_out.arguments(plain)
    # Samples of random operators fix the seed themselves; move it along, so that they can be told from the others.
    reseed = torch.manual_seed
    torch.manual_seed = lambda given: reseed(given + seed)
    torch.manual_seed(0)
    try:
        made = tree_leaves(sample.output_process_fn_grad(op(first, *args, **kwargs)))
    finally:
        torch.manual_seed = reseed
    wanted = [t for t in made if isinstance(t, torch.Tensor) and t.requires_grad]
    if not (grads and wanted and leaves):
        return made
    # Ones that lie in one element, as the gradient of a sum.
    ones = [t.new_ones(()).expand(t.shape) if t.layout is torch.strided else torch.ones_like(t) for t in wanted]
    return made + list(torch.autograd.grad(wanted, leaves, ones, allow_unused=True))


def _differ(one: list[Any], other: list[Any]) -> str:
    import torch

    if len(one) != len(other):
        return f"{len(other)} results, not {len(one)}"
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            return f"result {number}: {b!r}, not {a!r}"
        if not isinstance(a, torch.Tensor):
            continue
        try:
            close = {"rtol": 2e-2, "atol": 2e-2} if a.dtype in (torch.float16, torch.bfloat16, torch.complex32) else {}
            if a.dtype in (torch.float32, torch.complex64):
                close = {"rtol": 1e-4, "atol": 1e-4}
            torch.testing.assert_close(b.detach().cpu(), a.detach().cpu(), equal_nan=True, check_stride=False, **close)
        except (AssertionError, RuntimeError, NotImplementedError) as error:
            return f"result {number}: {error}".replace("\n", " ")[:300]
    return ""


def _is_explained(operator: str, layout: str) -> bool:
    return any(operator in names.split() and (not layouts or layout in layouts) for _, names, layouts in EXPLAINED)


def check(op: Any, dtype: Any, count: int, device: str) -> tuple[str, str]:
    """Run one operator's samples in every layout; ("pass" | "fail" | "skip", why)."""
    import torch

    if dtype not in op.supported_dtypes(device) or op.name in ABOUT_LAYOUTS:
        return "skip", "no samples"
    grads = op.supports_autograd and dtype in op.supported_backward_dtypes(device)
    try:
        torch.manual_seed(0)
        every = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grads), 100))
    except Exception as error:
        return "skip", f"no samples: {error}"[:300]
    compared, faults = 0, []
    for number, sample in random.Random(op.name).sample(list(enumerate(every)), min(count, len(every))):
        for (name, layout), first_only in itertools.product(LAYOUTS.items(), (False, True)):
            # Indices into the first argument would be out of bounds if it alone were empty.
            if _is_explained(op.name, name) or (first_only and name == "empty"):
                continue
            laid_out = _Sample(sample, layout, device, first_only)
            try:
                expected = _run(op, sample, laid_out, True, grads)
                if not laid_out.changed or _differ(expected, _run(op, sample, laid_out, True, grads, 1)):
                    continue
            except Exception:  # what it refuses of plain copies is not asked of others
                continue
            compared += 1
            try:
                why = _differ(expected, _run(op, sample, laid_out, False, grads))
            except Exception as error:
                words = str(error).strip().partition("\n")[0]
                why = "" if any(known in words for known in REFUSALS) else f"{type(error).__name__}: {words}"
            if why:
                faults.append(f"{name}{', first' if first_only else ''}, sample {number}: {why}"[:400])
    if faults:
        return "fail", " | ".join(faults[:6])
    return ("pass", f"{compared} layouts") if compared else ("skip", "nothing was compared")


def prepare(options: argparse.Namespace) -> op_sweep.One:
    """Activate the driver, if one is asked for."""
    warnings.simplefilter("ignore")
    if options.driver:
        import torchdevice_cuda

        torchdevice_cuda.activate(driver=options.driver)
    import torch

    torch.set_num_threads(1)

    def one(op: Any) -> dict[str, Any]:
        status, detail = check(op, getattr(torch, options.dtype), options.samples, options.device)
        try:
            torch.empty(1, device=options.device).cpu()
        except RuntimeError:
            os._exit(1)  # indices of a layout were wrong and asserted; the next operators need a device
        return {"status": status, "detail": detail}

    return one


def main() -> int:
    """Run the command line."""
    parser = op_sweep.arguments(__doc__ or "")
    parser.add_argument("--driver", default="", help="which driver to activate; none: stock torch")
    parser.add_argument("--device", default="cuda")
    return op_sweep.main(
        [__file__],
        parser,
        prepare,
        lambda options: f"layouts, {options.driver or 'stock'} {options.device}, {options.dtype}",
    )


if __name__ == "__main__":
    sys.exit(main())
