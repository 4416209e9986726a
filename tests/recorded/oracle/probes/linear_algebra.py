"""Linear algebra and Fourier transforms: results, shapes, errors."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import about, every, probe, raises, ramp

L = torch.linalg
SQUARE = ((4.0, 1.0, 0.5), (1.0, 3.0, 0.2), (0.5, 0.2, 2.0))


def square(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(SQUARE, device="cuda", dtype=dtype)


@probe()
def decompositions() -> Any:
    a = square()
    return [
        L.cholesky(a),
        L.inv(a),
        L.det(a),
        L.slogdet(a),
        L.eigvalsh(a),
        L.svdvals(a),
        L.matrix_rank(a),
        L.cond(a),
        L.pinv(a),
        L.lu_factor(a),
        L.lu(a),
        L.matrix_exp(a / 4),
        L.matrix_power(a, 3),
        L.matrix_norm(a, "nuc"),
        L.norm(a),
        L.solve(a, a[:, 0]),
        L.lstsq(a, a[:, :1]).solution,
        torch.logdet(a),
        torch.cholesky_inverse(L.cholesky(a)),
        torch.cholesky_solve(a[:, :1], L.cholesky(a)),
        L.solve_triangular(a.triu(), a, upper=True),
        torch.trace(a),
        L.ldl_factor(a).pivots,
    ]


@probe()
def strides_of_results() -> Any:
    a = square()
    wide = ramp(2, 5, 3)
    return [
        [about(t) for t in r]
        for r in (
            L.svd(a),
            L.svd(wide, full_matrices=False),
            L.eigh(a),
            L.qr(wide),
            L.lu_factor(wide),
            L.lu(a),
            L.inv_ex(a),
            L.cholesky_ex(a),
            L.slogdet(wide[:, :3]),
            L.solve_ex(a, a),
            torch.geqrf(a),
            L.ldl_factor(a),
            (
                L.inv(a),
                L.cholesky(a),
                L.pinv(wide),
                L.solve(a, a),
                L.matrix_exp(a),
                L.cholesky(a, upper=True),
                L.eigvalsh(a),
                L.solve_triangular(a, a, upper=False),
                L.householder_product(a, a[0]),
                torch.cholesky_inverse(a),
                torch.orgqr(a, a[0]),
            ),
        )
    ]


@probe()
def general_eigenvalues() -> Any:
    a = square()
    rotation = torch.tensor([[0.0, -1.0], [1.0, 0.0]], device="cuda")
    values, vectors = L.eig(rotation)
    return [
        about(values),
        about(vectors),
        sorted(L.eigvals(a).real.tolist()),
        raises(lambda: L.eig(torch.full((2, 2), float("nan"), device="cuda"))),
        raises(lambda: L.eigvals(torch.full((2, 2), float("inf"), device="cuda"))),
    ]


@probe()
def singular_matrices() -> Any:
    z = torch.zeros(2, 2, device="cuda")
    batch = torch.stack([torch.eye(2, device="cuda"), z])
    return [
        raises(f)
        for f in (
            lambda: L.inv(z),
            lambda: L.inv(batch),
            lambda: L.solve(z, z),
            lambda: L.solve(batch, batch),
            lambda: L.cholesky(-torch.eye(2, device="cuda")),
            lambda: L.cholesky(torch.stack([torch.eye(2), -torch.eye(2)]).cuda()),
            lambda: L.lu_factor(z),
            lambda: L.det(z),
            lambda: L.slogdet(z),
            lambda: L.inv_ex(z),
            lambda: L.cholesky_ex(-torch.eye(2, device="cuda")),
            lambda: torch.cholesky_solve(z, z),
            lambda: L.tensorinv(z),
            lambda: L.matrix_rank(z),
            lambda: L.pinv(z),
            lambda: L.cond(z),
            lambda: L.inv_ex(z, check_errors=True),
            lambda: L.solve_triangular(z, z, upper=True),
            lambda: L.lstsq(z, z).solution,
            lambda: L.ldl_factor(z),
        )
    ]


@probe()
def not_numbers() -> Any:
    n = torch.full((3, 3), float("nan"), device="cuda")
    return [
        raises(f)
        for f in (
            lambda: L.svd(n),
            lambda: L.eigh(n),
            lambda: L.inv(n),
            lambda: L.det(n),
            lambda: L.qr(n)[1].shape,
            lambda: L.cholesky(n),
            lambda: L.solve(n, n),
            lambda: L.svdvals(n),
            lambda: L.matrix_rank(n),
            lambda: L.pinv(n),
            lambda: L.lstsq(n, n).solution,
        )
    ]


@probe()
def shapes_refused() -> Any:
    a, r = square(), ramp(2, 3)
    return [
        raises(f)
        for f in (
            lambda: L.inv(r),
            lambda: L.det(r),
            lambda: L.cholesky(r),
            lambda: L.eigh(r),
            lambda: L.eig(r),
            lambda: L.solve(a, r),
            lambda: L.solve(r, r),
            lambda: L.lstsq(a, r),
            lambda: L.inv(a[0]),
            lambda: L.svd(a[0]),
            lambda: L.matrix_power(r, 2),
            lambda: L.matrix_power(a, 1.5),
            lambda: L.multi_dot([a]),
            lambda: L.multi_dot([a, r]),
            lambda: L.cross(r, a),
            lambda: L.vecdot(a, r),
            lambda: L.norm(a, "bogus"),
            lambda: L.matrix_norm(a[0]),
            lambda: L.vector_norm(a, "x"),
            lambda: L.qr(a, "bogus"),
            lambda: L.solve_triangular(a, r, upper=True),
            lambda: torch.lu_solve(a, a, a),
            lambda: L.householder_product(r, r[0]),
            lambda: L.tensorsolve(r, r),
            lambda: L.vander(a[0], N=-1),
            lambda: L.inv(a.long()),
            lambda: L.eigh(a, UPLO="X"),
            lambda: L.svd(a, driver="bogus"),
            lambda: L.lstsq(a, a, driver="gelsd"),
            lambda: L.lstsq(a, a, driver="gels").solution.shape,
        )
    ]


@probe()
def drivers_of_svd() -> Any:
    return list(every(("gesvd", "gesvdj", "gesvda", None), lambda d: L.svdvals(ramp(4, 3), driver=d)))


@probe()
def batches_and_empties() -> Any:
    e = torch.empty(0, 3, 3, device="cuda")
    n = torch.empty(2, 0, 0, device="cuda")
    return [
        raises(lambda f=f, x=x: [about(t) for t in (f(x) if isinstance(f(x), tuple) else (f(x),))])
        for x in (e, n)
        for f in (L.inv, L.det, L.cholesky, L.svd, L.eigh, L.qr, L.slogdet, L.svdvals, L.pinv, L.matrix_exp)
    ]


@probe()
def rectangular_solutions() -> Any:
    tall = ramp(5, 3) + torch.eye(5, 3, device="cuda") * 9
    r = L.lstsq(tall, ramp(5, 2))
    return [
        r.solution,
        about(r.residuals),
        about(r.rank),
        about(r.singular_values),
        L.pinv(tall),
        L.svdvals(tall),
        L.matrix_rank(tall),
        L.norm(tall, 2),
        L.norm(tall, -2),
        L.matrix_norm(tall, 1),
        L.matrix_norm(tall, float("inf")),
        L.vector_norm(tall, 3),
        torch.pca_lowrank(tall, q=2)[1].shape,
        torch.svd_lowrank(tall, q=2)[1].shape,
        raises(lambda: L.lstsq(tall.t(), ramp(3, 2)).solution.shape),
    ]


@probe()
def gradients() -> Any:
    out = []
    for work in (
        L.inv,
        L.det,
        L.cholesky,
        lambda a: L.solve(a, a[:, :1]),
        lambda a: L.eigh(a)[0],
        L.svdvals,
        lambda a: L.qr(a)[1].abs(),
        L.matrix_exp,
        L.pinv,
        lambda a: L.slogdet(a)[1],
        L.matrix_norm,
        lambda a: L.lstsq(a, a[:, :1]).solution,
    ):
        a = square(torch.float64).requires_grad_()
        work(a).sum().backward()
        out.append(a.grad)
    return out


@probe()
def preferred_library() -> Any:
    p = torch.backends.cuda.preferred_linalg_library
    out = [str(p())]
    out += [raises(lambda v=v: str(p(v))) for v in ("cusolver", "magma", "default", "bogus", 3)]
    b = torch.backends.cuda.preferred_blas_library
    out += [raises(lambda v=v: str(b(v))) for v in (None, "cublas", "cublaslt", "ck", "hipblaslt", "bogus", "default")]
    r = torch.backends.cuda.preferred_rocm_fa_library
    return [*out, raises(lambda: str(r("bogus")))]


@probe()
def products() -> Any:
    a = ramp(2, 3, 4)
    return [
        torch.einsum("bij,bkj->bik", a, a),
        torch.tensordot(a, a, dims=([0, 2], [0, 2])),
        L.vecdot(a, a),
        L.cross(a[..., :3], a[..., 1:]),
        torch.kron(a[0, :2, :2], a[1, :2, :2]),
        torch.cdist(a[0], a[1], p=1),
        torch.cdist(a[0], a[1]),
        torch.cdist(a[0], a[1], p=0),
        torch.pdist(a[0]),
        torch.addbmm(a[0] @ a[0].t(), a, a.mT),
        torch.addr(a[0], a[0, :, 0], a[0, 0]),
        torch.inner(a[0], a[1]),
        torch.chain_matmul(a[0], a[0].t()),
        raises(lambda: torch.einsum("ij,jk", a[0], a[0])),
        raises(lambda: torch.einsum("i,j", a[0])),
        raises(lambda: torch.tensordot(a, a, 2)),
        raises(lambda: torch.cdist(a[0], a[0, :, :2])),
        raises(
            lambda: torch._int_mm(
                torch.ones(32, 32, dtype=torch.int8, device="cuda"), torch.ones(32, 32, dtype=torch.int8, device="cuda")
            )[0, 0]
        ),
        raises(
            lambda: torch._int_mm(
                torch.ones(3, 3, dtype=torch.int8, device="cuda"), torch.ones(3, 3, dtype=torch.int8, device="cuda")
            )
        ),
    ]


@probe()
def scaled_products() -> Any:
    a = torch.ones(16, 32, device="cuda").to(torch.float8_e4m3fn)
    b = torch.ones(16, 32, device="cuda").to(torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    f = torch._scaled_mm
    return [
        raises(lambda: f(a, b, one, one, out_dtype=torch.bfloat16)[0, :2]),
        raises(lambda: f(a, b, one, one)[0, :2].float()),
        raises(lambda: f(a, b.contiguous(), one, one)),
        raises(lambda: f(a[:, :7], b[:7], one, one)),
        raises(lambda: f(a, b, one.cpu(), one)),
        raises(lambda: f(a.float(), b, one, one)),
        raises(lambda: f(a, b, one.half(), one)),
        raises(lambda: f(a, b, one, one, out_dtype=torch.float32)[0, :2]),
        raises(
            lambda: f(
                a, b, torch.ones(16, 1, device="cuda"), torch.ones(1, 16, device="cuda"), out_dtype=torch.bfloat16
            )[0, :2]
        ),
        raises(lambda: f(a, b, torch.ones(3, device="cuda"), one)),
    ]
