"""numba.cuda over tensors of the GPU, and tensors over its arrays; prints what became of each."""

import numba
import numpy as np
import torch
from numba import cuda


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


x = torch.arange(100.0, device="cuda")
y = torch.ones(100, device="cuda")
axpy[4, 32](2.0, x, y)
print("in place", torch.equal(y, 1 + 2 * x))
v = cuda.as_cuda_array(x)
v[0] = 7
print("as_cuda_array", x[0].item(), cuda.is_cuda_array(x), cuda.is_cuda_array(3))
z = torch.zeros(4, 6, device="cuda")
w = cuda.as_cuda_array(z.t()[::2])
w[1, 1] = 5
print("strided", z[1, 2].item(), w.shape)
d = cuda.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
t = torch.as_tensor(d, device="cuda")
t[0, 0] = 9
print("as_tensor", t.device, t.tolist(), d.copy_to_host().tolist())
e = cuda.device_array((5,), dtype=np.int32)
axpy_ = cuda.jit(lambda o: o.__setitem__(cuda.grid(1), cuda.grid(1)))
axpy_[1, 5](e)
print(torch.as_tensor(e, device="cuda").tolist())
print(
    torch.as_tensor(d[1], device="cuda").tolist(),
    getattr(d, "__cuda_array_interface__", None) and d.__cuda_array_interface__["version"],
)


@cuda.jit
def total(x, out):
    s = cuda.shared.array(32, numba.float32)
    i = cuda.threadIdx.x
    s[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    if i == 0:
        t = 0.0
        for k in range(32):
            t += s[k]
        cuda.atomic.add(out, 0, t)


o = torch.zeros(1, device="cuda")
total[2, 32](torch.ones(64, device="cuda"), o)
print("reduce", o.item())
h = np.ones(4, dtype=np.float32)
axpy[1, 4](1.0, np.ones(4, dtype=np.float32), h)
print("numpy", h.tolist())
try:
    cuda.as_cuda_array(np.zeros(3))
    print("?")
except TypeError as err:
    print(err)
try:
    cuda.as_cuda_array(torch.zeros(3))
    print("cpu tensor taken")
except (TypeError, AttributeError) as err:
    print(type(err), err)


def count() -> list[float]:
    from numba import cuda as own

    @own.jit
    def fill(x):
        x[own.grid(1)] += own.blockDim.x

    made = torch.zeros(6, device="cuda")
    fill[2, 3](made)
    return made.tolist()


print("imported in a function", count())
