"""Compilers without a 16-bit floating type (g++ 11 on x86) convert halves as NumPy does."""

import ctypes
import subprocess

import numpy as np
import pytest

from torchdevice_cuda.native import toolchain
from torchdevice_cuda.triton.compiler import build

SOURCE = """#define TTC_PORTABLE_HALF
#include "types.h"
extern "C" void narrow(const float* from, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = bits_as<uint16_t>(f16(from[i]).value);
}
extern "C" void widen(const uint16_t* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = (float)bits_as<f16>(from[i]);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Compile the two conversions."""
    folder = tmp_path_factory.mktemp("half")
    (folder / "half.cpp").write_text(SOURCE)
    command = [toolchain.compiler(), "-std=c++17", "-O3", "-shared", "-fPIC", f"-I{build._RUNTIME}"]
    subprocess.run([*command, str(folder / "half.cpp"), "-o", str(folder / "half.so")], check=True)
    return ctypes.CDLL(str(folder / "half.so"))


def convert(function, values, dtype):
    """Return the values as the other type."""
    result = np.empty(values.shape, dtype)
    function(
        values.ctypes.data_as(ctypes.c_void_p), result.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(values.size)
    )
    return result


def test_every_half_widens(library):
    """All 65,536 codes give NumPy's float, bit for bit, but for the payload of a NaN."""
    codes = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        expected = codes.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(convert(library.widen, codes, np.float32), expected)


def test_floats_narrow_to_the_nearest_half(library):
    """Every half, its neighbours, the middles between halves and the ends of the range round to even."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2
    edges = np.array([65519.99, 65520.0, 1e38, np.inf, 1e-8, 2.9802322e-8, 2.9802326e-8, 1e-45], np.float32)
    sizes = np.concatenate(
        [halves, middles, np.nextafter(middles, np.float32(0)), np.nextafter(middles, edges[3]), edges]
    )
    values = np.concatenate([sizes, -sizes])
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(convert(library.narrow, values, np.uint16), expected)


def test_nan_narrows_to_the_code_of_a_gpu(library):
    """A NaN is 0x7fff, whatever its sign and payload are."""
    values = np.array([0x7FC00000, 0xFFC00001, 0x7F800001], np.uint32).view(np.float32)
    assert convert(library.narrow, values, np.uint16).tolist() == [0x7FFF] * 3
