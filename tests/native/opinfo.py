"""Runs PyTorch's own operator samples on the device and compares with the CPU, forward and gradients.

    python -m tests.native.opinfo [--device cuda|mps] [--dtype float32] [--samples 10] [--only add,mm] [--every 8]

One process does the work and another watches: an operator that ends the process is recorded and the rest still run.
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

ROOT = Path(__file__).resolve().parents[2]

# Results that the operator leaves undefined (uninitialised memory, or a basis that is not unique).
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


class Refused(Exception):
    """The device said that it does not have this operator (an Apple GPU lacks some)."""


def worker(options: argparse.Namespace) -> None:
    """Goes through the operators, appending a line of JSON for each."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.native import harness

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    done = {json.loads(line)["op"] for line in options.out.read_text().splitlines()} if options.out.exists() else set()
    if options.device == "cuda":
        harness.use_cuda(1)
    else:
        harness.use_mps()
    dtype = getattr(torch, options.dtype)
    only = set(options.only.split(",")) if options.only else None
    with options.out.open("a") as out:
        for number, op in enumerate(op_db):
            name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
            if name in done or number % options.every or (only and op.name not in only and name not in only):
                continue
            Path(str(options.out) + ".now").write_text(name)
            started = time.monotonic()
            status, detail = check(torch, op, dtype, options)
            record = {
                "op": name,
                "status": status,
                "detail": detail,
                "seconds": round(time.monotonic() - started, 2),
            }
            out.write(json.dumps(record) + "\n")
            out.flush()


def check(torch: Any, op: Any, dtype: Any, options: argparse.Namespace) -> tuple[str, str]:
    """("pass" | "fail" | "skip" | "refused", why) for one operator."""
    if dtype not in op.supported_dtypes("cpu"):
        return "skip", "no CPU kernel for the dtype"
    grads = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    try:
        torch.manual_seed(0)
        samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grads), options.samples))
    except Exception as error:  # noqa: BLE001
        return "skip", f"no samples: {error}"[:300]
    compared = 0
    for i, sample in enumerate(samples):
        try:
            expected = run(torch, op, sample, "cpu", grads)
        except Exception:  # noqa: BLE001, S112  (what the CPU cannot do is not asked of the device)
            continue
        try:
            got = run(torch, op, sample, options.device, grads)
            others = [run(torch, op, sample, "cpu", grads, seed) for seed in (1, 2, 3)]
            exact = op.name not in UNDEFINED and all(same(torch, expected, other) for other in others)
            compare(torch, expected, got, options.device, exact, dtype)
        except Refused as error:
            return "refused", str(error)[:300]
        except Exception as error:  # noqa: BLE001
            return "fail", f"sample {i}: {type(error).__name__}: {error}"[:1000]
        compared += 1
    return ("pass", f"{compared} samples") if compared else ("skip", "no sample passes on the CPU")


def run(torch: Any, op: Any, sample: Any, device: str, grads: bool, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """The outputs and the inputs' gradients, on a device."""
    leaves: list[Any] = []

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if device == "mps" and value.dtype in (torch.float64, torch.complex128):
                raise Refused("float64 sample")
            moved = value.detach().to(device, copy=True)
            if value.requires_grad:
                moved.requires_grad_()
                leaves.append(moved)
            return moved
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return device
        return value

    def each(value: Any) -> Any:
        return torch.utils._pytree.tree_map(move, value)

    # This one takes its indices on the CPU, wherever the tensor is.
    arguments = sample.args if op.name == "tensor_split" else each(sample.args)

    # Samples of random operators fix the seed themselves; move it along, so that they can be told from the others.
    reseed = torch.manual_seed
    torch.manual_seed = lambda given: reseed(given + seed)
    torch.manual_seed(0)
    try:
        result = op(each(sample.input), *arguments, **each(sample.kwargs))
        result = sample.output_process_fn_grad(result)
        outputs = list(torch.utils._pytree.tree_leaves(result))
        gradients: list[Any] = []
        wanted = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
        if grads and wanted and leaves:
            ones = [torch.ones_like(t) for t in wanted]
            gradients = list(torch.autograd.grad(wanted, leaves, ones, allow_unused=True))
    except NotImplementedError as error:
        if device == "mps" and ("for the MPS device" in str(error) or "from the 'mps:0' device" in str(error)):
            raise Refused(str(error)) from error
        raise
    except TypeError as error:
        if device == "mps" and "MPS" in str(error):
            raise Refused(str(error)) from error
        raise
    finally:
        torch.manual_seed = reseed
    return outputs, gradients


def same(torch: Any, a: tuple[list[Any], list[Any]], b: tuple[list[Any], list[Any]]) -> bool:
    """Did two CPU runs with different seeds agree? If not, the operator is random."""
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except AssertionError:
        return False
    return True


def compare(torch: Any, expected: Any, got: Any, device: str, exact: bool, dtype: Any) -> None:
    """Raises AssertionError unless `got` is `expected`, on the device it should be on."""
    for what, want, have in (("output", expected[0], got[0]), ("gradient", expected[1], got[1])):
        assert len(want) == len(have), f"{len(have)} {what}s, not {len(want)}"
        for w, h in zip(want, have, strict=True):
            if not isinstance(w, torch.Tensor):
                if exact and not isinstance(w, str):
                    assert type(w) is type(h), f"{what}: {h!r} is not {w!r}"
                continue
            assert h.device.type == device, f"{what} is on {h.device}"
            assert (w.shape, w.dtype, w.layout) == (h.shape, h.dtype, h.layout), (
                f"{what}: {h.shape} {h.dtype} {h.layout}"
            )
            # As mps, some operators are made of others than on the CPU, with results laid out differently.
            if w.layout == torch.strided and device == "cuda":
                assert w.stride() == h.stride() or w.numel() <= 1, f"{what}: strides {h.stride()}, not {w.stride()}"
            if exact:
                loose: dict[str, float] = {}
                if dtype in (torch.bfloat16, torch.float16):
                    loose = {"rtol": 1e-2, "atol": 1e-2}
                elif device == "mps":
                    loose = {"rtol": 1e-4, "atol": 1e-4}
                torch.testing.assert_close(h.cpu(), w.cpu(), equal_nan=True, check_stride=False, **loose)


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "mps"), default="cuda")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--only", default="", help="operator names, comma-separated")
    parser.add_argument("--every", type=int, default=1, help="only every n-th operator")
    parser.add_argument("--out", type=Path, default=None, help="where the JSON lines go")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        worker(options)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        options.out = options.out or Path(scratch) / "results.jsonl"
        options.out.unlink(missing_ok=True)
        while True:
            given = ["--device", options.device, "--dtype", options.dtype, "--samples", str(options.samples)]
            given += [
                "--only",
                options.only,
                "--every",
                str(options.every),
                "--out",
                str(options.out),
                "--worker",
            ]
            child = subprocess.run([sys.executable, "-m", "tests.native.opinfo", *given], cwd=ROOT, check=False)
            if child.returncode == 0:
                break
            at = Path(str(options.out) + ".now")
            if not at.exists():
                return 2
            record = {
                "op": at.read_text(),
                "status": "fail",
                "detail": f"the process ended ({child.returncode})",
            }
            with options.out.open("a") as out:
                out.write(json.dumps(record) + "\n")
        records = [json.loads(line) for line in options.out.read_text().splitlines()]
    count = collections.Counter(r["status"] for r in records)
    for r in records:
        if r["status"] == "fail":
            print(f"{r['op']}: {r['detail']}")
    compared = count["pass"] + count["fail"]
    print(f"{options.device} {options.dtype}: {count['pass']} of {compared} pass", end="")
    print(f" ({100 * count['pass'] / max(1, compared):.2f}%), {count['skip']} skipped, {count['refused']} refused")
    return 1 if count["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
