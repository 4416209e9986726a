"""Run kernels that are interrupted, that fail in the interpreter, and on several threads; print a JSON object."""

import json
import os
import signal
import sys
import threading
import time

import torch
import triton
import triton.language as tl

from torchdevice_cuda.activation import current_settings

FOUND = {}


@triton.jit
def long_kernel(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(n):
        tl.store(x + i, tl.load(x + i) + k)


def find_seconds_to_end(programs):
    x = torch.zeros(1024, dtype=torch.int32, device="cuda")
    long_kernel[(1,)](x, 2, N=1024)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        long_kernel[(programs,)](x, 2**31 - 1, N=1024)
    except KeyboardInterrupt:
        return time.monotonic() - start
    return "no KeyboardInterrupt"


FOUND["one program"], FOUND["programs"] = find_seconds_to_end(1), find_seconds_to_end(100)


@triton.jit
def double_or_half(x):
    if x > 2:
        return x * 2
    return x // 2


@triton.jit
def unknown_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.map_elementwise(double_or_half, tl.load(x + i)))


def describe(function):
    try:
        function()
    except Exception as error:
        return [kind.__name__ for kind in type(error).__mro__], str(error)
    return [], ""


@triton.jit
def printing_kernel(x, N: tl.constexpr):
    tl.device_print("x", tl.load(x))


class Recorder:
    """Standard output that records which threads write, and holds each until the other has written."""

    def __init__(self):
        self.threads, self.count, self.barrier = set(), 0, threading.Barrier(2)

    def write(self, text):
        self.threads.add(threading.get_ident())
        self.count += 1
        if self.count == 1:
            time.sleep(0.01)  # longer than the time in which the calling thread runs programs alone
        else:
            self.barrier.wait(30)


def count_threads():
    x, recorder, stdout = torch.ones(1, dtype=torch.int32, device="cuda"), Recorder(), sys.stdout
    torch.set_num_threads(2)
    sys.stdout = recorder
    try:
        printing_kernel[(3,)](x, N=1)
    finally:
        sys.stdout = stdout
    return len(recorder.threads)


x = torch.ones(128, dtype=torch.int32, device="cuda")
if current_settings().triton == "compiled":
    FOUND["threads"] = count_threads()
else:
    FOUND["unknown"] = describe(lambda: unknown_kernel[(1,)](x, x, N=128))
FOUND["after"] = x.sum().item()
print(json.dumps(FOUND))
