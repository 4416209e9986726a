"""Kernels with inline assembly, as programs write it. Prints a JSON object."""

import json

import torch
import triton
import triton.language as tl


@triton.jit
def funnel_kernel(x, y, z, n, N: tl.constexpr):
    i = tl.arange(0, N)
    by = tl.full([N], n, tl.int32)
    given = [tl.load(x + i), tl.load(y + i), by]
    shifted = tl.inline_asm_elementwise(
        "shf.l.wrap.b32 $0, $1, $2, $3;", "=r,r, r, r", given, dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(z + i, shifted)


@triton.jit
def packed_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    code: tl.constexpr = "and.b32 $0, $1, 0x1F1F1F1F; shl.b32 $0, $0, 3;"
    shifted = tl.inline_asm_elementwise(code, "=r,r", [tl.load(x + i)], dtype=tl.int8, is_pure=True, pack=4)
    tl.store(y + i, shifted)


@triton.jit
def pointers_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    code: tl.constexpr = "ld.global.b8 $0, [$1]; shl.b32 $0, $0, 3; st.global.b8 [$2], $0;"
    tl.inline_asm_elementwise(code, "=r,l,l", [x + i, y + i], dtype=tl.int8, is_pure=False, pack=1)


@triton.jit
def several_kernel(x, y, o, p, N: tl.constexpr):
    i = tl.arange(0, N)
    (whole, largest) = tl.inline_asm_elementwise(
        asm="""
        {
            .reg .b8 part<4>;  // of four elements
            mov.b32 {part0, part1, part2, part3}, $8;
            cvt.u32.u8 $0, part0; cvt.u32.u8 $1, part1; cvt.u32.u8 $2, part2; cvt.u32.u8 $3, part3;
        }
        cvt.rn.f32.s32 $4, $0; cvt.rn.f32.s32 $5, $1; cvt.rn.f32.s32 $6, $2; cvt.rn.f32.s32 $7, $3;
        max.f32 $4, $4, $9; max.f32 $5, $5, $10; max.f32 $6, $6, $11; max.f32 $7, $7, $12;
        """,
        constraints="=r,=r,=r,=r,=r,=r,=r,=r,r,r,r,r,r",
        args=[tl.load(x + i), tl.load(y + i)],
        dtype=(tl.int32, tl.float32),
        is_pure=True,
        pack=4,
    )
    tl.store(o + i, whole)
    tl.store(p + i, largest)


@triton.jit
def timer_kernel(o):
    now = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    tl.store(o, now)


FOUND = {}
x, y = (torch.randint(0, 2**31 - 1, (128,), dtype=torch.int32).cuda() for _ in range(2))
z = torch.empty_like(x)
funnel_kernel[(1,)](x, y, z, 17, N=128)
FOUND["funnel"] = torch.equal(((y.long() << 17) | (x.long() >> 15)).int(), z)
small = torch.randint(0, 255, (512,), dtype=torch.uint8).cuda()
made = torch.empty_like(small)
packed_kernel[(1,)](small, made, N=512)
FOUND["packed"] = torch.equal(made, small << 3)
made.zero_()
pointers_kernel[(1,)](small, made, N=512)
FOUND["pointers"] = torch.equal(made, small << 3)
real = torch.rand(512).cuda() * 200
whole, largest = torch.empty(512, dtype=torch.int32).cuda(), torch.empty(512).cuda()
several_kernel[(1,)](small, real, whole, largest, N=512)
FOUND["several"] = [torch.equal(whole, small.int()), torch.equal(largest, torch.maximum(small.float(), real))]
now = torch.zeros(1, dtype=torch.int64).cuda()
timer_kernel[(1,)](now)
FOUND["timer"] = now.item() > 0
print(json.dumps(FOUND))
