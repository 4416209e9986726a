"""Sparse embeddings with SparseAdam, embedding bags, sparse matrices, LBFGS."""

from __future__ import annotations

import torch
from _everyday import data, settled
from torch import nn


def main() -> dict[str, object]:
    table = settled(nn.Embedding(10, 4, sparse=True)).cuda()
    bag = settled(nn.EmbeddingBag(10, 4, mode="sum", sparse=True)).cuda()
    optimizer = torch.optim.SparseAdam([*table.parameters(), *bag.parameters()], lr=0.1)
    rows, wanted = torch.LongTensor([1, 3, 3, 7]).cuda(), torch.from_numpy(data(4, 4)).cuda()
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = ((table(rows) + bag(rows.view(2, 2)).repeat(2, 1) - wanted) ** 2).mean()
        loss.backward()
        assert table.weight.grad.is_sparse
        optimizer.step()
        losses.append(loss.item())
    indices = torch.tensor([[0, 1, 2], [2, 0, 1]])
    matrix = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 3.0]), (3, 3)).cuda()
    product = torch.sparse.mm(matrix, wanted[:3])
    weights = torch.zeros(4, requires_grad=True, device=wanted.device)
    lbfgs = torch.optim.LBFGS([weights], max_iter=5)

    def closure() -> torch.Tensor:
        lbfgs.zero_grad()
        distance = ((wanted @ weights - 1) ** 2).mean()
        distance.backward()
        return distance

    for _ in range(2):
        last = lbfgs.step(closure)
    return {
        "losses": losses,
        "product": product.tolist(),
        "dense": matrix.to_dense().tolist(),
        "lbfgs": last.item(),
        "coalesced": matrix.coalesce().values().tolist(),
        "transposed": (matrix.t().to_dense()).tolist(),
    }
