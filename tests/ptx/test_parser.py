"""The parser of assembly, and which instructions the table has."""

from __future__ import annotations

import pytest

from ptx.compiling import Statement, write_function
from torchdevice_cuda.ptx import parser, table
from torchdevice_cuda.ptx.parser import Address, Immediate, Refused, Register, Vector
from torchdevice_cuda.ptx.types import TYPES


def test_statement_is_read_into_its_instructions() -> None:
    body = parser.parse(
        "{ .reg .pred p; .reg .b32 %t<2>; setp.ne.b32 p, $3, 0;\n"
        "@!p ld.global.v2.b32 {%t0, _}, [$1+-8]; // a comment\n"
        " mov.f32 $0, 0f40000000; }"
    )
    assert body.registers == {"p": 1, "%t0": 32, "%t1": 32}
    setp, load, move = body.instructions
    assert (setp.opcode, setp.operands) == ("setp.ne.b32", (Register("p"), Register("$3"), Immediate(0)))
    assert load.guard == Register("p", is_negated=True)
    assert load.operands == (Vector((Register("%t0"), Register("_"))), Address(Register("$1"), -8))
    assert move.operands[1] == Immediate(0x40000000, 32)


@pytest.mark.parametrize(
    ("text", "mark", "expected"),
    [
        ("mov.u32 %0, %%laneid; %1", "%", "mov.u32 $0, %laneid; $1"),
        ("mov.u32 $0, %laneid; ${1}; $$2", "$", "mov.u32 $0, %laneid; $1; $2"),
        ("mov.u32 %10, %tid.x;", "%", "mov.u32 $10, %tid.x;"),
    ],
)
def test_operands_of_both_languages_are_numbered(text: str, mark: str, expected: str) -> None:
    assert parser.number_operands(text, mark) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wgmma.fence.sync.aligned;", "the PTX instruction wgmma.fence.sync.aligned"),
        ("add.f8 $0, $1, $2;", "the PTX instruction add.f8"),
        ("add.rn.rz.f32 $0, $1, $2;", "the PTX instruction add.rn.rz.f32"),
        ("add.f32 $0, $1;", "2 operands, of the PTX instruction add.f32"),
        ("add.f64 $0, $1, $2;", "an operand of 32 bits for .f64, of the PTX instruction add.f64"),
        ("mov.u32 $0, %pm0;", "the special register %pm0"),
        ("mov.u32 $0, t;", "the register t, which is not declared"),
        ("ld.global.v4.u32 {$0, $1}, [$3];", "2 registers where 4 are expected"),
        ("again: add.u32 $0, $0, 1;", "the label again"),
        ("{ add.u32 $0, $0, 1;", "an opening brace without its closing one"),
        (".shared .b32 t;", "the directive .shared"),
        ("ld.global.u32 $0, [$3+$1];", "a sum of registers"),
        ("shfl.sync.idx.b32 $0, $1, 0, 31, -1;", "shfl.sync.idx.b32, which needs the threads of CUDA C++"),
        ("mov.b32 $0, {$1, $2, $2};", "3 parts of .b32"),
        ("add.s32 $0, $1.h0, $2;", "3 operands with the parts .h0, of the PTX instruction add.s32"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        write_function(0, Statement(text, "rrrl"))
    assert words in str(refused.value)


def test_modifiers_may_come_in_any_order() -> None:
    for text in ("ld.global.acquire.gpu.b32 $0, [$3];", "ld.acquire.gpu.global.b32 $0, [$3];"):
        assert "load<uint32_t, 1, true>" in write_function(0, Statement(text, "rrrl"))


#: Instructions of public code: vLLM, SageAttention, DeepSpeed, apex, bitsandbytes, AutoAWQ, gsplat, mamba, Triton.
PUBLIC = """
ld.global.cg.u32 ld.global.cs.v4.u32 ld.global.acquire.gpu.b32 ld.acquire.sys.global.u32 ld.volatile.global.v4.f32
ld.cg.global.b32 ld.global.nc.v8.u32 ld.global.cg.L2::128B.v4.b32 ld.relaxed.gpu.b32 ld.global.cs.nc.v2.s32
ld.shared.v4.b32 st.global.wt.v4.b32 st.release.sys.global.u32 st.global.cs.v4.u32 st.shared.v2.u32 st.global.b8
red.release.gpu.global.add.s32 red.relaxed.global.add.noftz.f16x2 atom.add.release.gpu.u32 prefetch.global.L1
cvt.rn.f16.f32 cvt.rn.bf16x2.f32 cvt.rn.satfinite.e2m1x2.f32 cvt.rni.sat.s8.f32 cvt.pack.sat.u8.s32.b32 cvt.u32.u64
cvta.to.shared.u64 fma.rn.f16x2 sub.f16x2 mul.f16x2 fma.rn.f32x2 mul.f32x2 ex2.approx.f16x2 tanh.approx.f32
rcp.approx.ftz.f32 lop3.b32 prmt.b32 redux.sync.max.u32 elect.sync bar.sync barrier.cta.sync selp.b32 setp.ne.b32
cp.async.cg.shared.global.L2::cache_hint.L2::256B cp.async.ca.shared.global cp.async.wait_group cp.async.commit_group
createpolicy.fractional.L2::evict_first.b64 ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
ldmatrix.sync.aligned.x4.m8n8.shared.b16 stmatrix.sync.aligned.m8n8.x4.shared.b16 movmatrix.sync.aligned.m8n8.trans.b16
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32.satfinite
mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32.satfinite mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32
mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32
wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 wmma.store.d.sync.aligned.row.m16n16k16.f32
"""


@pytest.mark.parametrize("opcode", PUBLIC.split())
def test_table_has_instructions_of_public_code(opcode: str) -> None:
    base, *words = opcode.split(".")
    assert table.find(parser.Instruction(base, tuple(words), ()))


def test_rows_name_types_and_fields_that_exist() -> None:
    for rows in table.FAMILIES.values():
        for row in rows:
            names = {item.split(":")[0].rstrip("?*") for item in row.pattern.split()}
            for slot in row.list_slots():
                assert slot.type in names or slot.type in TYPES or slot.type == "wide(t)", row
