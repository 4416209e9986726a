"""Runs PyTorch's own operator samples with device="cuda" on the mps driver and compares with the CPU.

    TORCHDEVICE_EMULATE_MPS=1 python tools/ops_mps.py [--dtype float32] [--samples 10] [--only add,mm] [--every 8]

Forward and backward; the table says for each operator whether it ran on the GPU alone, through MLX, or through the CPU.
One process does the work and another watches: an operator that ends the process is recorded, and the rest still run.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

# Results that the operator leaves undefined: uninitialised memory.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


def worker(options: argparse.Namespace) -> None:
    """Go through the operators, appending a line of JSON for each."""
    import torchdevice_cuda

    torchdevice_cuda.activate(driver="mps", policy="faithful")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from torchdevice_cuda.report.departures import departures

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    done = {json.loads(line)["op"] for line in lines}
    only = set(options.only.split(",")) if options.only else None
    with options.out.open("a") as out:
        for number, op in enumerate(op_db):
            name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
            if name in done or number % options.every or (only and op.name not in only and name not in only):
                continue
            Path(f"{options.out}.now").write_text(name)
            departures.clear()
            started = time.monotonic()
            status, detail = check(torch, op, getattr(torch, options.dtype), options.samples)
            left = {where for _, _, where, _ in departures.rows()}
            route = "MLX" if "MLX" in left else "CPU" if "CPU" in left else "native"
            seconds = round(time.monotonic() - started, 2)
            record = {"op": name, "status": status, "detail": detail, "route": route, "seconds": seconds}
            out.write(json.dumps(record) + "\n")
            out.flush()


def check(torch: Any, op: Any, dtype: Any, count: int) -> tuple[str, str]:
    """("pass" | "fail" | "skip", why) for one operator."""
    if dtype not in op.supported_dtypes("cpu"):
        return "skip", "no CPU kernel for the dtype"
    grads = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    try:
        torch.manual_seed(0)
        samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grads), count))
    except Exception as error:
        return "skip", f"no samples: {error}"[:300]
    compared = 0
    for number, sample in enumerate(samples):
        try:
            expected = run(torch, op, sample, "cpu", grads)
            others = [run(torch, op, sample, "cpu", grads, seed) for seed in (1, 2)]
        except Exception:  # what the CPU cannot do is not asked of the GPU
            continue
        exact = op.name not in UNDEFINED and all(same(torch, expected, other) for other in others)
        try:
            compare(torch, expected, run(torch, op, sample, "cuda", grads), exact)
        except Exception as error:
            return "fail", f"sample {number}: {type(error).__name__}: {error}"[:1000]
        compared += 1
    return ("pass", f"{compared} samples") if compared else ("skip", "no sample passes on the CPU")


def run(torch: Any, op: Any, sample: Any, device: str, grads: bool, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """The outputs and the inputs' gradients, on a device."""
    leaves: list[Any] = []

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            moved = value.detach().to(device, copy=True)
            if value.requires_grad:
                moved.requires_grad_()
                leaves.append(moved)
            return moved
        return device if isinstance(value, torch.device) or value == "cpu" else value

    def each(value: Any) -> Any:
        return torch.utils._pytree.tree_map(move, value)

    # This one takes its indices on the CPU, wherever the tensor is.
    arguments = sample.args if op.name == "tensor_split" else each(sample.args)
    # Samples of random operators fix the seed themselves; move it along, so that they can be told from the others.
    reseed = torch.manual_seed
    torch.manual_seed = lambda given: reseed(given + seed)
    torch.manual_seed(0)
    try:
        result = sample.output_process_fn_grad(op(each(sample.input), *arguments, **each(sample.kwargs)))
        outputs = torch.utils._pytree.tree_leaves(result)
        wanted = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
        gradients: list[Any] = []
        if grads and wanted and leaves:
            ones = [torch.ones_like(t) for t in wanted]
            gradients = list(torch.autograd.grad(wanted, leaves, ones, allow_unused=True))
    finally:
        torch.manual_seed = reseed
    return outputs, gradients


def same(torch: Any, one: Any, other: Any) -> bool:
    """Whether two CPU runs with different seeds agree; if not, the operator is random."""
    try:
        torch.testing.assert_close(one, other, equal_nan=True)
    except (AssertionError, TypeError):
        return False
    return True


def compare(torch: Any, expected: Any, got: Any, exact: bool) -> None:
    """AssertionError unless ``got`` is ``expected``, on the GPU, in a precision that the GPU has."""
    narrow = {torch.float64: torch.float32, torch.complex128: torch.complex64}
    for what, want, have in (("output", expected[0], got[0]), ("gradient", expected[1], got[1])):
        assert len(want) == len(have), f"{len(have)} {what}s, not {len(want)}"
        for w, h in zip(want, have, strict=True):
            if not isinstance(w, torch.Tensor):
                if exact and not isinstance(w, str):
                    assert type(w) is type(h), f"{what}: {h!r} is not {w!r}"
                continue
            assert h.device.type == "cuda", f"{what} is on {h.device}"
            dtype = narrow.get(w.dtype, w.dtype)
            assert (w.shape, dtype, w.layout) == (h.shape, h.dtype, h.layout), f"{what}: {h.shape} {h.dtype} {h.layout}"
            if exact:
                close = 1e-4 if dtype is w.dtype else 2e-3  # the GPU computed in half the precision
                torch.testing.assert_close(
                    h.cpu(), w.cpu().to(dtype), equal_nan=True, check_stride=False, rtol=close, atol=close
                )


def summary(records: list[dict[str, Any]], title: str) -> str:
    """The table of the run."""
    count = collections.Counter(r["status"] for r in records)
    routes = collections.Counter(r["route"] for r in records if r["status"] == "pass")
    compared = count["pass"] + count["fail"]
    lines = [f"{r['op']}: {r['detail']}" for r in records if r["status"] == "fail"]
    rate = 100 * count["pass"] / max(1, compared)
    lines.append(f"{title}: {count['pass']} of {compared} pass ({rate:.2f}%), {count['skip']} skipped")
    lines.append(f"native {routes['native']}, MLX {routes['MLX']}, CPU {routes['CPU']}, failed {count['fail']}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--only", default="", help="operator names, comma-separated")
    parser.add_argument("--every", type=int, default=1, help="only every n-th operator")
    parser.add_argument("--out", type=Path, default=None, help="where the JSON lines go")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        options.out = options.out or Path(scratch) / "results.jsonl"
        options.out.unlink(missing_ok=True)
        given = ["--dtype", options.dtype, "--samples", str(options.samples), "--only", options.only]
        given += ["--every", str(options.every), "--out", str(options.out), "--worker"]
        while subprocess.run([sys.executable, __file__, *given], check=False).returncode:
            at = Path(f"{options.out}.now")
            if not at.exists():
                return 2
            record = {"op": at.read_text(), "status": "fail", "detail": "the process ended", "route": "native"}
            with options.out.open("a") as out:
                out.write(json.dumps(record) + "\n")
        records = [json.loads(line) for line in options.out.read_text().splitlines()]
    print(summary(records, options.dtype))
    return int(any(r["status"] == "fail" for r in records))


if __name__ == "__main__":
    sys.exit(main())
