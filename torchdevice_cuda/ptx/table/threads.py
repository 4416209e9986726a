"""Instructions of a thread among others: warps, blocks, shared memory. Only CUDA C++ has them."""

from __future__ import annotations

from .rows import Row

_SPACES = "shared|shared::cta|const|local|param"
_COPY, _PREFETCH = "async kind:ca|cg shared global", "size?:L2::64B|L2::128B|L2::256B"
_COPIED = "@d:b8!shared @a:b8!global b:u32"


def _thread(base: str, pattern: str, operands: str, code: str) -> Row:
    return Row(base, pattern, operands, code.replace("$", "::host_cuda::ptx_"), needs_thread=True)


ROWS = [
    # The names end with _sync: a kernel that reaches one is not run as a plain loop.
    _thread(
        "shfl",
        "sync op:up|down|bfly|idx b32",
        "d=u32 |p?=pred a:u32 b:u32 c:u32 e:u32",
        "{d} = $shfl_{op}_sync({a}, {b}, {c}, {e}, {p});",
    ),
    _thread("vote", "sync op:all|any|uni t:pred", "p=pred a:pred b:u32", "$vote_{op}_sync({a}, {b})"),
    _thread("vote", "sync ballot b32", "d=u32 a:pred b:u32", "__ballot_sync({b}, {a})"),
    _thread("match", "any sync t:b32|b64", "d=u32 a:t b:u32", "__match_any_sync({b}, {a})"),
    _thread("match", "all sync t:b32|b64", "d=u32 |p?=pred a:t b:u32", "{d} = $match_all_sync({a}, {b}, {p});"),
    _thread("redux", "sync op:add|min|max t:u32|s32", "d=t a:t b:u32", "__reduce_{op}_sync({b}, {a})"),
    _thread("redux", "sync op:and|or|xor b32", "d=u32 a:u32 b:u32", "__reduce_{op}_sync({b}, {a})"),
    _thread("activemask", "b32", "d=u32", "__activemask()"),
    _thread("elect", "sync", "d=u32 |p=pred a:u32", "{d} = $elect_sync({a}, {p});"),
    _thread("bar", "warp sync", "a:u32", "__syncwarp({a});"),
    *(
        row
        for base, more in (("bar", "cta? aligned?"), ("barrier", "cta? aligned?"))
        for row in (
            _thread(base, f"sync {more}", "a:u32", "$name_barrier({a}); __syncthreads();"),
            _thread(base, f"sync {more}", "a:u32 b:u32", "$check_barrier({a}, {b}); __syncthreads();"),
            _thread(base, f"red {more} popc u32", "d=u32 a:u32 c:pred", "__syncthreads_count({c})"),
            _thread(base, f"red {more} op:and|or t:pred", "d=pred a:u32 c:pred", "(__syncthreads_{op}({c}) != 0)"),
        )
    ),
    _thread("isspacep", f"space:global|{_SPACES}", "p=pred a:u64", "$is_{space_word}({a})"),
    _thread("cvta", f"to space:{_SPACES} t:u32|u64", "d=t a:t", "$cvta_to_{space_word}({a})"),
    _thread("cvta", f"space:{_SPACES} t:u32|u64", "d=t a:t", "$cvta_{space_word}({a})"),
    _thread("cp", f"{_COPY} {_PREFETCH}", f"{_COPIED} c?:u32", "$copy_async({d}, {a}, {b}, {c_or_all});"),
    # With a hint, the last operand is a cache policy.
    _thread("cp", f"{_COPY} hint:L2::cache_hint {_PREFETCH}", f"{_COPIED} e:u64", "$copy_async({d}, {a}, {b}, {b});"),
    _thread(
        "cp", f"{_COPY} hint:L2::cache_hint {_PREFETCH}", f"{_COPIED} c:u32 e:u64", "$copy_async({d}, {a}, {b}, {c});"
    ),
    _thread("cp", "async kind:commit_group|wait_all", "", "#fence();"),
    _thread("cp", "async wait_group", "a:u32", "(void)({a});"),
    _thread("trap", "", "", "__trap();"),
    _thread("exit", "", "", "$exit_sync();"),
]

#: Special registers, in terms of CUDA's own variables.
SPECIAL = {
    **{f"%{name}.{axis}": f"(uint32_t){variable}.{axis}" for name, variable in (
        ("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"),
    ) for axis in "xyz"},
    **{f"%{name}.{axis}": number for name, number in (
        ("clusterid", "0"), ("nclusterid", "1"), ("cluster_ctaid", "0"), ("cluster_nctaid", "1"),
    ) for axis in "xyz"},
    "%cluster_ctarank": "0", "%cluster_nctarank": "1", "%is_explicit_cluster": "false",
    "%laneid": "::host_cuda::ptx_lane(threadIdx, blockDim)",
    "%warpid": "::host_cuda::ptx_warp(threadIdx, blockDim)",
    "%nwarpid": "32", "%smid": "0", "%nsmid": "1", "%gridid": "0",
    "%lanemask_eq": "(1u << ::host_cuda::ptx_lane(threadIdx, blockDim))",
    "%lanemask_lt": "((1u << ::host_cuda::ptx_lane(threadIdx, blockDim)) - 1)",
    "%lanemask_le": "((2u << ::host_cuda::ptx_lane(threadIdx, blockDim)) - 1)",
    "%lanemask_gt": "~((2u << ::host_cuda::ptx_lane(threadIdx, blockDim)) - 1)",
    "%lanemask_ge": "~((1u << ::host_cuda::ptx_lane(threadIdx, blockDim)) - 1)",
    "%dynamic_smem_size": "::host_cuda::ptx_dynamic_sync()",
}  # fmt: skip
#: Special registers that need no thread.
CLOCKS = {
    "%clock": "(uint32_t)::host_ptx::clock()",
    "%clock_hi": "(uint32_t)(::host_ptx::clock() >> 32)",
    "%clock64": "::host_ptx::clock()",
    "%globaltimer": "::host_ptx::clock()",
    "%globaltimer_lo": "(uint32_t)::host_ptx::clock()",
    "%globaltimer_hi": "(uint32_t)(::host_ptx::clock() >> 32)",
}
