"""Elements that a mask leaves out are not accessed, wherever they are; those that it selects are checked."""

from __future__ import annotations

import ctypes

import pytest

from torchdevice_cuda.native import toolchain
from triton_compiler.ttir import run, write_scalars

pytestmark = pytest.mark.skipif(not toolchain.has_compiler(), reason="no C++ compiler")

#: Which of 16 elements are selected: the first, every other one, the last, and those that a tile in memory says.
MASKS = {
    "first": "%mask = arith.cmpi slt, %i, %eight : tensor<16xi32>",
    "even": """%rest = arith.remsi %i, %two : tensor<16xi32>
    %mask = arith.cmpi eq, %rest, %zero : tensor<16xi32>""",
    "last": "%mask = arith.cmpi sge, %i, %eight : tensor<16xi32>",
    "loaded": """%pm = tt.addptr %ms, %i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %m = tt.load %pm : tensor<16x!tt.ptr<i32>>
    %mask = arith.cmpi ne, %m, %zero : tensor<16xi32>""",
}
SELECTED = {"first": range(8), "even": range(0, 16, 2), "last": range(8, 16), "loaded": (0, 3, 4, 15)}
#: Where the elements are that a mask leaves out: behind the memory, at equal distances or anywhere.
PLACES = {
    "contiguous": "%at = arith.addi %i, %start : tensor<16xi32>",
    "strided": "%at = arith.muli %i, %starts : tensor<16xi32>",
    "anywhere": """%far = arith.constant dense<100000000> : tensor<16xi32>
    %at = arith.select %mask, %i, %far : tensor<16xi1>, tensor<16xi32>""",
}
ACCESSES = {
    "load": """%v = tt.load %p, %mask, %zero : tensor<16x!tt.ptr<i32>>
    tt.store %po, %v : tensor<16x!tt.ptr<i32>>""",
    "store": "tt.store %p, %i, %mask : tensor<16x!tt.ptr<i32>>",
    "atomic": """%v = tt.atomic_rmw add, acq_rel, gpu, %p, %i, %mask : (tensor<16x!tt.ptr<i32>>, tensor<16xi32>, tensor<16xi1>) -> tensor<16xi32>
    tt.store %po, %v : tensor<16x!tt.ptr<i32>>""",  # noqa: E501 - as Triton writes it
}


def write_kernel(mask: str, where: str, access: str) -> str:
    return write_scalars(f"""
    %i = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
    %zero = arith.constant dense<0> : tensor<16xi32>
    %two = arith.constant dense<2> : tensor<16xi32>
    %eight = arith.constant dense<8> : tensor<16xi32>
    %start = tt.splat %n : i32 -> tensor<16xi32>
    %starts = tt.splat %n : i32 -> tensor<16xi32>
    %ms = tt.splat %o : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %sixteen = arith.constant dense<16> : tensor<16xi32>
    %out = arith.addi %i, %sixteen : tensor<16xi32>
    %po = tt.addptr %ms, %out : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    {MASKS[mask]}
    {PLACES[where]}
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %p = tt.addptr %xs, %at : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    {ACCESSES[access]}
""")


CASES = [
    *((mask, where, "load") for mask in MASKS for where in PLACES),
    *(("loaded", where, access) for where in PLACES for access in ("store", "atomic")),
]


@pytest.mark.parametrize(("mask", "where", "access"), CASES)
def test_elements_that_a_mask_leaves_out_may_be_anywhere(mask: str, where: str, access: str) -> None:
    n = {"contiguous": 0, "strided": 3, "anywhere": 0}[where]
    selected = list(SELECTED[mask])
    places = [one * 3 if where == "strided" else one for one in selected]
    first, count = places[0], places[-1] + 1 - places[0]
    text = write_kernel(mask, where, access)
    # The memory begins with the first element that is selected, and ends with the last one.
    x = (ctypes.c_int32 * count)(*range(100, 100 + count))
    o = (ctypes.c_int32 * 32)(*(int(one in SELECTED["loaded"]) for one in range(16)))
    base = ctypes.addressof(x) - 4 * first
    run(text, (1, 1, 1), [base, o, n], [x, o])
    read = {one: 100 + place - first for one, place in zip(selected, places, strict=True)}
    if access != "store":
        assert list(o[16:]) == [read.get(one, 0) for one in range(16)]
    if access != "load":
        written = {place - first: one for one, place in zip(selected, places, strict=True)}
        added = 100 if access == "atomic" else 0
        assert all(
            x[at] == (written[at] + (added + at if added else 0) if at in written else 100 + at) for at in range(count)
        )
    short = (ctypes.c_int32 * (count - 1)).from_buffer(x)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run(text, (1, 1, 1), [base, o, n], [short, o])
