"""Sparse tensors of every layout."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import about, every, kind, numbers, probe, raises, ramp

D = {"device": "cuda"}
LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def matrix() -> torch.Tensor:
    return torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0]], **D)


@probe()
def coordinates() -> Any:
    s = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3), **D)
    c = s.coalesce()
    return [
        s.is_coalesced(),
        s._nnz(),
        c._nnz(),
        c.indices(),
        c.values(),
        s.to_dense(),
        s.device,
        raises(s.indices),
        repr(c).splitlines(),
        s.t().shape,
        (s * 2).to_dense(),
        (s + s)._nnz(),
        s.sum(),
        torch.sparse.sum(s, 0).to_dense(),
        s.is_sparse,
        s.is_cuda,
        c.cpu().indices().device,
        s.dtype,
        s.sparse_dim(),
        s.dense_dim(),
    ]


@probe()
def constructions_refused() -> Any:
    return [
        raises(f)
        for f in (
            lambda: torch.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,), **D),
            lambda: torch.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,), **D),
            lambda: torch.sparse_coo_tensor([[0]], [1.0, 2.0], (3,), **D),
            lambda: torch.sparse_coo_tensor(torch.tensor([[0]]), torch.tensor([1.0], **D), (3,)),
            lambda: torch.sparse_coo_tensor(torch.tensor([[0]]), torch.tensor([1.0]), (3,), device="cuda").device,
            lambda: torch.sparse_coo_tensor(torch.tensor([[0.5]], **D), torch.tensor([1.0], **D), (3,)),
            lambda: torch.sparse_csr_tensor([0, 1], [0], [1.0, 2.0], (1, 3), **D),
            lambda: torch.sparse_csr_tensor([0, 1], [5], [1.0], (1, 3), **D),
            lambda: torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([1.0], **D), (1, 3)),
            lambda: torch.sparse_coo_tensor((2, 3), **D)._nnz(),
            lambda: torch.sparse_coo_tensor([[0]], [1.0], (2, 2), **D),
        )
    ]


@probe()
def conversions() -> Any:
    m = torch.cat([matrix(), torch.zeros(1, 3, **D)])[:, :2]
    return list(
        every(
            LAYOUTS,
            lambda y: [
                about(m.to_sparse(layout=y, blocksize=(2, 2) if "b" in str(y)[13:] else None)),
                numbers(m.to_sparse(layout=y, blocksize=(2, 2) if "b" in str(y)[13:] else None).to_dense()),
            ],
        )
    )


@probe()
def products() -> Any:
    d = ramp(3, 2)
    out = []
    for layout in LAYOUTS[:3]:
        s = matrix().to_sparse(layout=layout)
        out.append(
            [str(layout)]
            + [
                raises(lambda f=f: (lambda r: numbers(r))(f()))
                for f in (
                    lambda s=s: s @ d,
                    lambda s=s: torch.sparse.mm(s, d),
                    lambda s=s: s @ d[:, 0],
                    lambda s=s: (s @ s).to_dense(),
                    lambda s=s: torch.sparse.addmm(d, s, d),
                    lambda s=s: d.t() @ s,
                    lambda s=s: torch.addmm(d, s, d),
                )
            ]
        )
    return out


@probe()
def elementwise() -> Any:
    s = matrix().to_sparse()
    r = matrix().to_sparse_csr()
    work = (
        lambda x: x * 2,
        lambda x: x + x,
        lambda x: x * x,
        lambda x: x - x,
        lambda x: x / 2,
        lambda x: x.sin(),
        lambda x: x.abs(),
        lambda x: x.sum(),
        lambda x: x.relu(),
        lambda x: x.neg(),
        lambda x: x.sqrt(),
        lambda x: x.t(),
        lambda x: x.exp(),
        lambda x: x + 1,
        lambda x: x * matrix(),
        lambda x: x + matrix(),
        lambda x: matrix() + x,
        lambda x: x.mean(),
        lambda x: x.max(),
        lambda x: x == x,
        lambda x: x.clone(),
        lambda x: torch.zeros_like(x),
        lambda x: x.half(),
        lambda x: x.to(torch.float64),
        lambda x: x[0],
        lambda x: x[:, 0],
        lambda x: x.view(9),
        lambda x: x.reshape(9),
        lambda x: x.transpose(0, 1),
        lambda x: x.unsqueeze(0),
        lambda x: torch.cat([x, x]),
        lambda x: torch.stack([x, x]),
    )
    return [[raises(lambda f=f, x=x: (lambda t: [str(t.layout), numbers(t)])(f(x))) for f in work] for x in (s, r)]


@probe()
def mixed_devices() -> Any:
    s = matrix().to_sparse()
    return [
        raises(lambda: s @ torch.ones(3, 2)),
        raises(lambda: s + s.cpu()),
        raises(lambda: s.cpu() @ torch.ones(3, 2, **D)),
        raises(lambda: torch.ones(3, 3, **D).add_(s.cpu())),
        raises(lambda: s.add_(torch.ones(3, 3, **D))),
        raises(lambda: s.copy_(s.cpu())),
        str(s.cpu().cuda().device),
        kind(lambda: s.numpy()),
        raises(lambda: s.tolist()),
        raises(lambda: s.storage()),
        raises(lambda: s.data_ptr()),
        raises(lambda: s.stride()),
        raises(lambda: s.contiguous().shape),
    ]


@probe()
def gradients() -> Any:
    e = torch.nn.Embedding(4, 2, sparse=True, device="cuda")
    e(torch.tensor([0, 3, 3], **D)).sum().backward()
    m = matrix().to_sparse().requires_grad_()
    d = ramp(3, 2).requires_grad_()
    torch.sparse.mm(m, d).sum().backward()
    return [
        about(e.weight.grad),
        e.weight.grad._nnz(),
        numbers(e.weight.grad),
        about(m.grad),
        numbers(m.grad),
        d.grad,
        raises(lambda: (m * m).sum().backward()),
    ]


@probe()
def softmax_and_masks() -> Any:
    s = matrix().to_sparse()
    return [
        numbers(torch.sparse.softmax(s, 1)),
        numbers(torch.sparse.log_softmax(s, 0)),
        numbers(matrix().sparse_mask(s.coalesce())),
        raises(lambda: numbers(torch.sparse.sampled_addmm(matrix().to_sparse_csr(), matrix(), matrix()))),
        raises(lambda: torch.sparse.sampled_addmm(s, matrix(), matrix())),
        raises(lambda: torch.sparse.spdiags(torch.ones(1, 3), torch.tensor([0]), (3, 3)).device),
        raises(lambda: torch.sparse.softmax(matrix().to_sparse_csr(), 1)),
        raises(lambda: numbers(torch.smm(s, matrix()))),
        raises(lambda: numbers(torch.hspmm(s, matrix()))),
        raises(lambda: numbers(torch.sspaddmm(s, s, matrix()))),
    ]


@probe()
def compressed_parts() -> Any:
    r = matrix().to_sparse_csr()
    return [
        r.crow_indices(),
        r.col_indices(),
        r.values(),
        r._nnz(),
        str(r.layout),
        repr(r).splitlines()[0],
        r.is_sparse,
        r.is_sparse_csr,
        raises(r.indices),
        raises(r.ccol_indices),
        raises(lambda: r.values().fill_(1).device),
        r.cpu().crow_indices().dtype,
        torch.sparse_csr_tensor(
            torch.tensor([0, 1], dtype=torch.int32, **D),
            torch.tensor([0], dtype=torch.int32, **D),
            torch.tensor([1.0], **D),
            (1, 1),
        )
        .crow_indices()
        .dtype,
        raises(lambda: r.to_sparse_csc().ccol_indices()),
        raises(lambda: r.to_sparse_bsr((1, 1)).values().shape),
    ]


@probe()
def solving() -> Any:
    tri = matrix().tril() + torch.eye(3, **D) * 6
    r = tri.to_sparse_csr()
    return [
        raises(lambda: numbers(torch.triangular_solve(ramp(3, 1), r, upper=False).solution)),
        kind(lambda: torch.sparse.spsolve(r, ramp(3))),
        raises(lambda: torch.linalg.inv(r)),
        raises(lambda: torch.linalg.norm(matrix().to_sparse())),
    ]


@probe()
def saving() -> Any:
    import io
    import pickle

    s = matrix().to_sparse()
    b = io.BytesIO()
    torch.save({"s": s, "r": matrix().to_sparse_csr()}, b)
    b.seek(0)
    there = torch.load(b)
    b.seek(0)
    home = torch.load(b, map_location="cpu")
    return [
        str(there["s"].device),
        str(there["r"].device),
        str(home["s"].device),
        numbers(home["r"]),
        str(pickle.loads(pickle.dumps(s)).device),
        raises(lambda: s.share_memory_() is s),
    ]


@probe()
def half_structured() -> Any:
    from torch.sparse import to_sparse_semi_structured

    m = torch.tensor([0, 0, 1, 1], **D).tile((128, 32)).half()
    return [
        raises(lambda: type(to_sparse_semi_structured(m)).__name__),
        raises(lambda: float((to_sparse_semi_structured(m) @ torch.ones(128, 8, **D).half())[0, 0])),
        raises(lambda: to_sparse_semi_structured(m.float()[:3])),
        raises(lambda: to_sparse_semi_structured(m.cpu())),
    ]
