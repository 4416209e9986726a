"""Programs that wait for others, atomic loads and stores, threads and signals, over host memory without Triton."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from torchdevice_cuda.native import toolchain
from torchdevice_cuda.triton.compiler.launch import Compiled
from torchdevice_cuda.triton.compiler.translate import translate
from triton_compiler.ttir import run, write_scalars

pytestmark = pytest.mark.skipif(not toolchain.has_compiler(), reason="no C++ compiler")

#: The last program of the grid writes what all others wait for.
WAIT = {
    "loop": """
      scf.while : () -> () {
        %seen = tt.atomic_cas acq_rel, gpu, %x, %c1, %c1 : (!tt.ptr<i32>, i32, i32) -> i32
        %waits = arith.cmpi eq, %seen, %c0 : i32
        scf.condition(%waits)
      } do {
        scf.yield
      }""",
    "poll": """
      %is_there = tt.atomic_poll acquire, gpu, %x, %c1 : !tt.ptr<i32>, i32 -> i1""",
}


@pytest.mark.parametrize("count", [2, 100])
@pytest.mark.parametrize("wait", WAIT)
def test_programs_may_wait_for_later_ones(wait: str, count: int) -> None:
    text = write_scalars(f"""
    %p = tt.get_program_id x : i32
    %last = arith.subi %n, %c1 : i32
    %is_last = arith.cmpi eq, %p, %last : i32
    scf.if %is_last {{
      tt.store %x, %c1 : !tt.ptr<i32>
    }} else {{{WAIT[wait]}
      %old = tt.atomic_rmw add, acq_rel, gpu, %o, %c1 : (!tt.ptr<i32>, i32) -> i32
    }}
""")
    x, o = (ctypes.c_int32 * 1)(), (ctypes.c_int32 * 1)()
    run(text, (count, 1, 1), [x, o, count], [x, o])
    assert o[0] == count - 1


ATOMIC = "%v = tt.atomic_rmw add, acquire, gpu, %x, %c0 : (!tt.ptr<i32>, i32) -> i32"


@pytest.mark.parametrize(
    ("read", "waits"),
    [("%v = tt.load %x : !tt.ptr<i32>", False), ("%v = tt.load %x {isVolatile = true} : !tt.ptr<i32>", True),
     (ATOMIC, True), (f"{ATOMIC}\n      tt.store %o, %v : !tt.ptr<i32>", False)],
)  # fmt: skip
def test_loops_wait_that_read_what_others_write(read: str, waits: bool) -> None:
    text = write_scalars(f"""
    scf.while : () -> () {{
      {read}
      %again = arith.cmpi eq, %v, %c0 : i32
      scf.condition(%again)
    }} do {{
      scf.yield
    }}
""")
    # A loop that does not wait may run for long, and no further threads are created for it.
    assert ("Waiting" in translate(text).source) == waits


@pytest.mark.parametrize("n", [0, 1])
def test_polls_end_when_their_time_has_passed(n: int) -> None:
    text = write_scalars("""
    %timeout = arith.constant 1000000 : i64
    %is_there = tt.atomic_poll acquire, gpu, %x, %c1 timeout %timeout : !tt.ptr<i32>, i32 -> i1
    %v = arith.extui %is_there : i1 to i32
    tt.store %o, %v : !tt.ptr<i32>
""")
    x, o = (ctypes.c_int32 * 1)(n), (ctypes.c_int32 * 1)(7)
    run(text, (1, 1, 1), [x, o, 0], [x, o])
    assert o[0] == n


def test_atomic_loads_and_stores_access_what_a_mask_selects() -> None:
    text = write_scalars("""
    %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %limit = tt.splat %n : i32 -> tensor<8xi32>
    %mask = arith.cmpi slt, %i, %limit : tensor<8xi32>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %px = tt.addptr %xs, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %os = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %po = tt.addptr %os, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %v = tt.atomic_load acquire, gpu, %px, %mask : (tensor<8x!tt.ptr<i32>>, tensor<8xi1>) -> tensor<8xi32>
    tt.atomic_store release, gpu, %po, %v, %mask : tensor<8x!tt.ptr<i32>>
""")
    x, o = (ctypes.c_int32 * 5)(*range(5)), (ctypes.c_int32 * 5)(*[9] * 5)
    run(text, (1, 1, 1), [x, o, 5], [x, o])
    assert list(o) == list(range(5))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run(text, (1, 1, 1), [x, o, 6], [x, o])


def test_compare_and_swap_compares_bits() -> None:
    text = write_scalars("""
    %zero = arith.constant -0.000000e+00 : f32
    %new = arith.constant 1.000000e+00 : f32
    %pf = tt.bitcast %x : !tt.ptr<i32> -> !tt.ptr<f32>
    %old = tt.atomic_cas acq_rel, gpu, %pf, %zero, %new : (!tt.ptr<f32>, f32, f32) -> f32
""")
    x = (ctypes.c_int32 * 1)()
    run(text, (1, 1, 1), [x, x, 0], [x])
    assert x[0] == 0


class Recorder:
    """Standard output that records the threads that write, and holds each until the other has written."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self._barrier = threading.Barrier(2)
        self._count = 0

    def write(self, text: str) -> None:
        self.threads.add(threading.get_ident())
        self._count += 1
        if self._count == 1:
            time.sleep(0.01)  # longer than the time in which the calling thread runs programs alone
        else:
            self._barrier.wait(20)


@pytest.mark.parametrize("threads", [1, 2])
def test_programs_of_a_grid_run_on_several_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_scalars('    tt.print " n: " {hex = false, isSigned = array<i32: 1>} : %n : i32')
    x, recorder = (ctypes.c_int32 * 1)(), Recorder()
    monkeypatch.setattr(sys, "stdout", recorder)
    run(text, (3 if threads > 1 else 1, 1, 1), [x, x, 0], [x], threads)
    assert len(recorder.threads) == threads


class Stop(Exception):
    """What the handler of a signal raises."""


@pytest.fixture
def handled() -> Iterator[list[float]]:
    """Handle alarms: the first one is noted, the second one raises."""
    seen: list[float] = []

    def handle(number: int, frame: Any) -> None:
        seen.append(time.monotonic())
        if len(seen) == 2:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Stop("in the handler")

    before = signal.signal(signal.SIGALRM, handle)
    yield seen
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tile", [16, 1 << 18])
@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (2**30, 1, 1)])
def test_handlers_of_signals_run_while_a_kernel_does(
    grid: tuple[int, int, int], tile: int, threads: int, handled: list[float]
) -> None:
    text = write_scalars(f"""
    scf.for %k = %c0 to %n step %c1  : i32 {{
      %i = tt.make_range {{end = {tile} : i32, start = 0 : i32}} : tensor<{tile}xi32>
      %xs = tt.splat %x : !tt.ptr<i32> -> tensor<{tile}x!tt.ptr<i32>>
      %px = tt.addptr %xs, %i : tensor<{tile}x!tt.ptr<i32>>, tensor<{tile}xi32>
      %v = tt.load %px : tensor<{tile}x!tt.ptr<i32>>
      %w = tt.gather %v[%v] {{axis = 0 : i32}} : (tensor<{tile}xi32>, tensor<{tile}xi32>) -> tensor<{tile}xi32>
      tt.store %px, %w : tensor<{tile}x!tt.ptr<i32>>
    }}
""")
    x = (ctypes.c_int32 * tile)(*range(tile))
    rounds, address = 2**31 - 1 if grid[0] < 3 else 1, ctypes.addressof(x)
    kernel = Compiled(text, "kernel", contracts=True)  # before the alarm, which would interrupt the compiler
    with pytest.raises(Stop, match="in the handler"):
        signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
        kernel.run(grid, [address, address, rounds], [(address, ctypes.sizeof(x))], list, threads)
    assert len(handled) == 2 and time.monotonic() - handled[1] < 5


def test_threads_other_than_the_main_one_handle_no_signals(handled: list[float]) -> None:
    text = write_scalars("    tt.store %o, %n : !tt.ptr<i32>")
    o = (ctypes.c_int32 * 1)()
    address = ctypes.addressof(o)
    kernel = Compiled(text, "kernel", contracts=True)
    given = ((2**24, 1, 1), [address, address, 5], [(address, 4)], list, 1)
    thread = threading.Thread(target=kernel.run, args=given)
    with pytest.raises(Stop):
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        thread.start()
        while True:
            time.sleep(0.01)
    thread.join()
    assert o[0] == 5
