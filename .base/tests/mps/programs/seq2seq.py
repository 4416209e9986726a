"""A sequence-to-sequence transformer with masks made on the CPU and sent."""

from __future__ import annotations

import math

import numpy as np
import torch
from _everyday import settled
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
PAD = 0


def subsequent_mask(size: int) -> torch.Tensor:
    return torch.triu(torch.ones(size, size), diagonal=1).bool().to(device)


class Positions(nn.Module):
    def __init__(self, width: int, longest: int = 32) -> None:
        super().__init__()
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(1, longest, width)
        table[0, :, 0::2] = torch.sin(position * rate)
        table[0, :, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[:, : x.size(1)]


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(16, 8), nn.Embedding(16, 8)
        self.positions = Positions(8)
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 16)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        out = self.transformer(
            self.positions(self.source(source)),
            self.positions(self.target(target)),
            tgt_mask=subsequent_mask(target.size(1)),
            src_key_padding_mask=(source == PAD),
            memory_key_padding_mask=(source == PAD),
        )
        return self.head(out)


def main() -> dict[str, object]:
    rng = np.random.RandomState(0)
    source, target = rng.randint(1, 16, (4, 6)), rng.randint(1, 16, (4, 5))
    source[1:, 4:] = PAD
    source, target = torch.as_tensor(source).to(device), torch.as_tensor(target).to(device)
    model = settled(Translator()).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
    losses = []
    for _ in range(4):
        logits = model(source, target[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, 16), target[:, 1:].reshape(-1), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        written = torch.ones(4, 1).fill_(1).long().to(device)
        for _ in range(4):
            following = model(source, written)[:, -1].argmax(-1, keepdim=True)
            written = torch.cat([written, following], dim=1)
    return {"losses": losses, "written": written.cpu().numpy().tolist()}
