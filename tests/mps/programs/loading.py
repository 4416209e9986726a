"""Prepare data: splits with a generator, samplers, transforms, collating, pinned and non-blocking copies."""

from __future__ import annotations

import numpy as np
import torch
from _everyday import data, settled
from torch import nn
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


class Arrays(Dataset):
    """As they come from a CSV file: float64."""

    def __init__(self) -> None:
        self.x, self.y = data(24, 3).astype(np.float64), np.arange(24) % 2

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.tensor(self.x[index], dtype=torch.float32), int(self.y[index])


def collate(rows: list[tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
    return {"x": torch.stack([x for x, _ in rows]), "y": torch.tensor([y for _, y in rows])}


def main() -> dict[str, object]:
    whole = Arrays()
    train, test = random_split(whole, [18, 6], generator=torch.Generator().manual_seed(42))
    shuffled = DataLoader(
        train, batch_size=6, shuffle=True, generator=torch.Generator().manual_seed(1), pin_memory=True, drop_last=True
    )
    model = settled(nn.Linear(3, 2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for x, y in shuffled:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    correct = 0
    with torch.no_grad():
        for x, y in DataLoader(test, batch_size=4):
            correct += (model(x.cuda()).argmax(1).cpu() == y).sum().item()
    weights = torch.from_numpy(np.where(whole.y == 0, 0.9, 0.1))  # float64, as the sampler wants it
    sampler = WeightedRandomSampler(weights, 8, generator=torch.Generator().manual_seed(3))
    weighted = [row["y"].tolist() for row in DataLoader(whole, 4, sampler=sampler, collate_fn=collate)]
    plain = TensorDataset(torch.arange(8), torch.arange(8.0) ** 2)
    generator = torch.Generator().manual_seed(5)
    subset = [b[0].tolist() for b in DataLoader(plain, 3, sampler=SubsetRandomSampler([1, 3, 5], generator=generator))]
    drawn = list(RandomSampler(plain, replacement=True, num_samples=5, generator=torch.Generator().manual_seed(6)))
    joined = ConcatDataset([plain, Subset(plain, torch.tensor([0, 2]).tolist())])
    arrays = next(iter(DataLoader([(np.ones(2), 1.5), (np.zeros(2), 2.5)], batch_size=2)))
    pieces = torch.utils.data.default_collate(
        [{"a": torch.ones(2), "b": [1, 2.0]}, {"a": torch.zeros(2), "b": [3, 4.0]}]
    )
    whole_set = random_split(range(10), [0.5, 0.5], generator=torch.Generator().manual_seed(9))
    buffer = torch.empty(4, pin_memory=torch.cuda.is_available())
    buffer.copy_(torch.from_numpy(data(4)))
    permuted = torch.randperm(8, generator=torch.Generator().manual_seed(7))
    return {
        "split": [list(train.indices), list(test.indices)],
        "losses": losses,
        "correct": correct,
        "weighted": weighted,
        "subset": subset,
        "drawn": drawn,
        "joined": [t[0].item() for t in joined],
        "arrays": [a.tolist() for a in arrays],
        "pieces": [pieces["a"].tolist(), [b.tolist() for b in pieces["b"]]],
        "parts": [list(p) for p in whole_set],
        "buffer": buffer.cuda(non_blocking=True).tolist(),
        "permuted": permuted.tolist(),
        "rows": plain.tensors[1][permuted].tolist(),
        "listed": [plain[i][1].item() for i in permuted[:3]],
        "array rows": whole.x[permuted.numpy()].sum().item(),
        "by tensor": whole.y[permuted].tolist(),
    }
