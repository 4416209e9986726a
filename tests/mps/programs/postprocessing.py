"""Process a model's results: statistics, sets, distances, masks and scalars; MPS lacks kernels for many of them."""

from __future__ import annotations

import numpy as np
import torch
from _everyday import data


def main() -> dict[str, object]:
    x, y = torch.from_numpy(data(12, 5)).cuda(), torch.from_numpy(data(7, 5, seed=1)).cuda()
    scores = x.sum(1)
    mask_on_cpu = torch.from_numpy(data(12, seed=2)) > 0
    order = torch.argsort(scores, descending=True)
    values, counts = torch.unique(torch.tensor([3, 1, 3, 2, 1]).cuda(), return_counts=True)
    edges = torch.linspace(-1, 1, 5).cuda()
    copied = x.clone()
    copied[mask_on_cpu] = 0.0
    copied[:, 0] = torch.from_numpy(data(12, seed=3))  # rows of the CPU into a tensor of the GPU
    copied[0, 1] = 7.0
    copied[1, torch.tensor([2, 3])] = torch.tensor(5.0)
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]], dtype=torch.float).cuda()
    top_left = torch.max(boxes[:, None, :2], boxes[None, :, :2])
    overlap = (torch.min(boxes[:, None, 2:], boxes[None, :, 2:]) - top_left).clamp(min=0).prod(-1)
    return {
        "quantile": torch.quantile(x, torch.tensor([0.25, 0.5]).cuda(), dim=0).tolist(),
        "median": x.median().item(),
        "kthvalue": torch.kthvalue(scores, 3).values.item(),
        "unique": [values.tolist(), counts.tolist()],
        "searchsorted": torch.searchsorted(edges, scores).tolist(),
        "bucketize": torch.bucketize(scores, edges).tolist(),
        "cdist": torch.cdist(x, y).tolist(),
        "masked": x[mask_on_cpu].sum().item(),
        "copied": copied.tolist(),
        "order": order.tolist(),
        "where": torch.where(x > 0, x, 0.0).sum().item(),
        "where both": torch.where(x > 0, 1.0, -1.0).sum().item(),
        "where cpu scalar": torch.where(x > 0, x, torch.tensor(0.5)).sum().item(),
        "histc": torch.histc(scores, bins=4, min=-4, max=4).tolist(),
        "overlap": overlap.tolist(),
        "nonzero": torch.nonzero(x > 1.0).tolist(),
        "as tuple": [t.tolist() for t in torch.where(x > 1.0)],
        "svd": torch.linalg.svdvals(x).tolist(),
        "inverse": torch.inverse(x.T @ x).sum().item(),
        "topk": torch.topk(scores, 3).indices.tolist(),
        "cov": torch.cov(x.T).tolist(),
        "lstsq": torch.linalg.lstsq(x, scores[:, None]).solution.flatten().tolist(),
        "eigh": torch.linalg.eigh(x.T @ x).eigenvalues.tolist(),
        "det": torch.det((x.T @ x) / 10).item(),
        "index_add": torch.zeros(3, 5).cuda().index_add_(0, torch.arange(12).cuda() % 3, x).tolist(),
        "scatter": torch.zeros(3).cuda().scatter_add_(0, torch.arange(12).cuda() % 3, scores).tolist(),
        "cummax": torch.cummax(scores, 0).values.tolist(),
        "logsumexp": torch.logsumexp(x, 1).tolist(),
        "isin": torch.isin(torch.arange(6).cuda(), torch.tensor([2, 4]).cuda()).tolist(),
        "numpy scalar": (x * np.float32(2) + np.float64(1)).sum().item(),
        "norm": torch.norm(x, dim=1).tolist(),
        "cpu scalar": (x * torch.tensor(2.0)).sum().item(),
        "in place": x.clone().add_(torch.tensor(1)).sum().item(),
        "interpolate": torch.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bicubic").sum().item(),
        "grid": torch.nn.functional.grid_sample(
            x[None, None], torch.zeros(1, 2, 2, 2).cuda(), align_corners=False
        ).tolist(),
        "einsum": torch.einsum("ij,kj->ik", x, y).sum().item(),
        "meshgrid": torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")[0].cuda().tolist(),
        "split": [len(part) for part in x.split([5, 7])],
        "repeat": x.repeat_interleave(torch.tensor([2] * 12).cuda(), 0).sum().item(),
        "fold": x.unfold(0, 3, 2).sum().item(),
        "flip": x.flip(0)[0].tolist(),
        "one_hot": torch.nn.functional.one_hot(torch.arange(3).cuda()).tolist(),
        "equal": torch.equal(x, x.cpu().cuda()),
        "cross": torch.cross(x[:, :3], x[:, 1:4], dim=1).sum().item(),
        "erfinv": torch.erfinv(x.tanh()).sum().item(),
    }
