"""Fourier transforms: results, layouts, plans, errors."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import about, probe, raises, ramp

L = torch.linalg
SQUARE = ((4.0, 1.0, 0.5), (1.0, 3.0, 0.2), (0.5, 0.2, 2.0))


def square(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(SQUARE, device="cuda", dtype=dtype)


@probe()
def transforms() -> Any:
    f = torch.fft
    x = ramp(8)
    m = ramp(4, 6)
    return [
        f.fft(x),
        f.ifft(x),
        f.rfft(x),
        f.irfft(f.rfft(x)),
        f.hfft(f.rfft(x)),
        f.ihfft(x),
        f.fft2(m)[0],
        f.rfft2(m)[0],
        f.irfft2(f.rfft2(m)),
        f.fftn(m, dim=0)[0],
        f.fft(x, n=5),
        f.fft(x, n=12, norm="ortho"),
        f.fft(x, norm="forward"),
        f.fftfreq(5, device="cuda"),
        f.rfftfreq(6, 0.5, device="cuda"),
        f.fftshift(x),
        f.ifftshift(x),
        f.irfft(f.rfft(x), n=7),
        f.fft(x.double()),
        f.ifft2(f.fft2(m)).real,
    ]


@probe()
def transforms_refused() -> Any:
    f = torch.fft
    x = ramp(8)
    return [
        raises(w)
        for w in (
            lambda: f.fft(x, n=0),
            lambda: f.fft(x, dim=3),
            lambda: f.fft(x, norm="bogus"),
            lambda: f.fft(x.bfloat16()),
            lambda: f.fft(x.half()),
            lambda: f.fft(ramp(6).half()),
            lambda: f.rfft(torch.complex(x, x)),
            lambda: f.fft2(x),
            lambda: f.fft(torch.empty(0, device="cuda")),
            lambda: f.irfft(f.rfft(x.half())),
            lambda: f.fftn(x, dim=(0, 0)),
            lambda: f.fftn(x, s=(2, 3)),
            lambda: f.fft(x.long()),
            lambda: f.fft(x.bool()),
            lambda: f.rfft(x.to(torch.float8_e5m2)),
            lambda: f.fftshift(x, dim=4),
        )
    ]


@probe()
def strides_of_transforms() -> Any:
    f = torch.fft
    m = ramp(3, 4, 6)
    return [
        about(t)
        for t in (
            f.fft(m),
            f.fft(m, dim=0),
            f.fft(m, dim=1),
            f.fft2(m),
            f.fftn(m),
            f.rfft(m),
            f.rfft(m, dim=0),
            f.irfft(f.rfft(m)),
            f.ifft(m.transpose(0, 2)),
            f.rfftn(m),
            f.irfftn(f.rfftn(m)),
            f.fft(m, n=10, dim=1),
            f.hfft(m),
            f.fftn(m, dim=(0, 2)),
            f.fftshift(m),
        )
    ]


@probe()
def short_time_transforms() -> Any:
    x = ramp(32)
    s = torch.stft(x, 8, return_complex=True, window=torch.hann_window(8, device="cuda"))
    return [
        about(s),
        s[:, 0],
        torch.istft(s, 8, window=torch.hann_window(8, device="cuda"))[:8],
        raises(lambda: torch.stft(x, 8)),
        raises(lambda: torch.stft(x, 8, return_complex=True, window=torch.hann_window(8))),
        raises(lambda: torch.stft(x[:3], 8, return_complex=True)),
        raises(lambda: torch.istft(s, 6)),
    ]


@probe()
def plan_caches() -> Any:
    c = torch.backends.cuda.cufft_plan_cache
    c.clear()
    torch.fft.fft(ramp(8))
    a = c.size
    torch.fft.fft(ramp(8))
    torch.fft.fft(ramp(9))
    b = c.size
    c.max_size = 1
    d = c.size
    c.max_size = 4096
    return [
        a,
        b,
        d,
        c.max_size,
        raises(lambda: setattr(c, "size", 3)),
        raises(lambda: setattr(c, "max_size", -1)),
        raises(lambda: setattr(c, "bogus", 1)),
        raises(lambda: c.bogus),
        c[0].max_size,
        raises(lambda: c["x"]),
    ]
