"""torch-geometric: a GCN on one graph, and graph classification over batches of graphs."""

from __future__ import annotations

import torch
from _client import DEVICE, ON_CUDA, expect_falling, expect_memory_figures, expect_on_device, report, seed
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool
from torch_geometric.utils import to_undirected

CLASSES = 3


class GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GCNConv(8, 16)
        self.second = GCNConv(16, CLASSES)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(nodes, edges).relu(), edges)


class GraphClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = GATConv(8, 8, heads=2)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, data: Data) -> torch.Tensor:
        return self.head(global_mean_pool(self.attention(data.x, data.edge_index).relu(), data.batch))


def graph(number: int, nodes: int = 40) -> Data:
    generator = torch.Generator().manual_seed(number)
    labels = torch.randint(CLASSES, (nodes,), generator=generator)
    features = torch.randn(nodes, 8, generator=generator) + labels.unsqueeze(1)
    edges = to_undirected(torch.randint(nodes, (2, 3 * nodes), generator=generator))
    return Data(x=features, edge_index=edges, y=labels)


def classify_nodes(half: bool) -> list[float]:
    seed()
    data = graph(0).to(DEVICE)
    model = GCN().to(DEVICE)
    expect_on_device(data.x, data.edge_index, data.y, *model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler(DEVICE, enabled=half)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=half):
            loss = nn.functional.cross_entropy(model(data.x, data.edge_index), data.y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return expect_falling(losses)


def classify_graphs() -> list[float]:
    seed()
    graphs = []
    for number in range(12):
        made = graph(number, nodes=10)
        made.x, made.y = made.x + number % CLASSES, torch.tensor([number % CLASSES])
        graphs.append(made)
    model = GraphClassifier().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(6):
        total = torch.zeros((), device=DEVICE)
        for batch in DataLoader(graphs, batch_size=4, pin_memory=True):
            batch = batch.to(DEVICE, non_blocking=True)
            expect_on_device(batch.x, batch.batch, batch.ptr)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), batch.y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        losses.append(total.item())
    return expect_falling(losses)


def main() -> None:
    results = {"float32": {"nodes": classify_nodes(half=False), "graphs": classify_graphs()}}
    if ON_CUDA:
        results["float16"] = {"nodes": classify_nodes(half=True)}
    expect_memory_figures()
    report(**results)


if __name__ == "__main__":
    main()
