"""Launch kernels, refuse some and log others, with Triton's and CUDA's messages. Prints a JSON object."""

import json

import torch
import triton
import triton.language as tl
import triton.testing
from torch.utils import _triton
from triton.language import arange, load, store

FOUND = {}


def told(name, function):
    try:
        FOUND[name] = function()
    except Exception as error:
        FOUND[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1 if 'at ' in str(error)[:3] else 0]}"


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def by_name(o, B: tl.constexpr):
    i = arange(0, B)
    store(o + i, load(o + i) + 1)


@triton.jit
def three(x, B: tl.constexpr):
    tl.static_assert(B == 3, "b is not three")


@triton.jit
def sixteen_bits_of_assembly(x):
    code: tl.constexpr = "vadd.s32.s32.s32 $0, $1, $1;"
    tl.store(x, tl.inline_asm_elementwise(code, "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=True, pack=1))


RUNS = []


@triton.autotune(
    configs=[triton.Config({"B": 3}), triton.Config({"B": 64}, num_warps=2), triton.Config({"B": 128})], key=["n"]
)
@triton.jit
def tuned(x, n, B: tl.constexpr):
    tl.static_assert(B >= 64)
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def nested():
    factor = tl.constexpr(3)

    @triton.jit
    def inner(o, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(o + i, tl.load(o + i) * factor)

    o = torch.ones(4, device="cuda")
    inner[(1,)](o, B=4)
    return o.tolist()


def tuning():
    x = torch.zeros(100, device="cuda")
    tuned[lambda meta: (triton.cdiv(100, meta["B"]),)](x, 100)
    return [tuned.best_config.kwargs["B"], x.min().item(), x.max().item()]


def captured():
    x, y, o = torch.ones(8, device="cuda"), torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(1,)](x, y, o, 8, B=8)
    x.fill_(5)
    graph.replay()
    return o.tolist()


def hooked():
    seen = []
    add.add_pre_run_hook(lambda *args, **kwargs: seen.append(len(args)))
    add[(1,)](x, y, o, 100, B=128)
    add.pre_run_hooks.clear()
    return seen


x, y, o = torch.ones(100, device="cuda"), torch.ones(100, device="cuda"), torch.zeros(100, device="cuda")
active = triton.runtime.driver.active
told("target", lambda: list(vars(active.get_current_target()).values()))
told("device", lambda: [active.get_current_device(), str(active.get_active_torch_device())])
told("properties", lambda: active.utils.get_device_properties(0))
told("kernel", lambda: [type(add[(1,)](x, y, o, 100, B=128)).__name__, o.tolist() == [2] * 100])
told("registers", lambda: [getattr(add[(1,)](x, y, o, 100, B=256), name) for name in ("n_regs", "n_spills")])
told("assembly", lambda: list(add.warmup(x, y, o, 100, B=128, grid=(1,)).asm))
told("by name", lambda: [by_name[(1,)](o, B=4), o[:5].tolist()][1])
told("nested", nested)
told("tuned", tuning)
told("hooks", hooked)
told("graph", captured)
told("bench", lambda: type(triton.testing.do_bench(lambda: x + x, warmup=1, rep=1)).__name__)
told("cpu tensor", lambda: add[(1,)](x.cpu(), y, o, 100, B=128) and None)
told("no power of two", lambda: add[(1,)](x, y, o, 100, B=100))
told("static assert", lambda: three[(1,)](x, B=4))
told("missing", lambda: add[(1,)](x, y, o, B=128))
told("unknown", lambda: add[(1,)](x, y, o, 100, B=128, Q=3))
told("grid", lambda: add[(1, 70000)](x, y, o, 100, B=128))
told("outside", lambda: add(x, y, o, 100, 128))
told("assembly inline", lambda: sixteen_bits_of_assembly[(1,)](x.int()))
told("has_triton", lambda: _triton.has_triton())
print(json.dumps(FOUND))
