"""Kernels with and without errors that --sanitize reports; the arguments name what to launch."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def adds(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(y + at, tl.load(x + at, mask=mask) + 1, mask=mask)


@triton.jit
def adds_unmasked(x, y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    tl.store(y + at, value, mask=at < 0)


@triton.jit
def overlapping(x, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at + 1)
    tl.store(x + at, value)


@triton.jit
def sums(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at)))


@triton.jit
def plain_sums(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out, tl.load(out) + tl.sum(tl.load(x + at)))


@triton.jit
def last_program(x, partial, counter, out, n, BLOCK: tl.constexpr, SEM: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + pid, tl.sum(tl.load(x + at)))
    done = tl.atomic_add(counter, 1, sem=SEM)
    if done == n - 1:
        total = 0.0
        for i in range(n):
            total += tl.load(partial + i)
        tl.store(out, total)


@triton.jit
def takes_first(counter, out):
    if tl.atomic_add(counter, 1) == 0:
        tl.store(out, tl.program_id(0))


@triton.jit
def locked(x, lock, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.sum(tl.load(x + at))
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out, tl.load(out) + value)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def find_first(y, c):
    takes_first[(8,)](c, y)
    print("first", int(y[0].item()))


def make_half_written():
    made = torch.empty(128, device="cuda")
    made[:40] = 1
    return made


CASES = {
    "masked": lambda x, y, c: adds[(4,)](x[:100], y, 100, 32),
    "written": lambda x, y, c: adds[(4,)](torch.empty(128, device="cuda").normal_(), y, 128, 32),
    "unwritten": lambda x, y, c: adds[(4,)](make_half_written(), y, 128, 32),
    "overlapping": lambda x, y, c: overlapping[(3,)](x, 32),
    "sums": lambda x, y, c: sums[(4,)](x, y, 32),
    "plain_sums": lambda x, y, c: plain_sums[(4,)](x, y, 32),
    "last_program": lambda x, y, c: last_program[(4,)](x, y, c, y[10:], 4, 32, "acq_rel"),
    "last_relaxed": lambda x, y, c: last_program[(4,)](x, y, c, y[10:], 4, 32, "relaxed"),
    "locked": lambda x, y, c: locked[(4,)](x, c, y, 32),
    "first": lambda x, y, c: find_first(y, c),
    "past_the_end": lambda x, y, c: adds_unmasked[(5,)](torch.ones(130, device="cuda"), y, 32),
}

for name in sys.argv[1:]:
    print(f"-- {name}", file=sys.stderr, flush=True)
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    try:
        CASES[name](torch.ones(128, device="cuda"), torch.zeros(128, device="cuda"), counter)
        torch.cuda.synchronize()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
