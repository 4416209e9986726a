"""An LSTM classifier over packed sequences, its lengths on the CPU, as a word-level model has it."""

from __future__ import annotations

import numpy as np
import torch
from _everyday import data, settled
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(24, 5)

    def init_hidden(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(4, size, 12).to(device), torch.zeros(4, size, 12).to(device)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        self.lstm.flatten_parameters()
        out, (hidden, _) = self.lstm(packed, self.init_hidden(tokens.size(0)))
        out, sizes = pad_packed_sequence(out, batch_first=True)
        assert out.size(1) == int(sizes.max())
        last = out[torch.arange(len(sizes)), sizes - 1]  # indices of the CPU
        return self.head(last + torch.cat((hidden[-2], hidden[-1]), 1))


def main() -> dict[str, object]:
    rng = np.random.RandomState(0)
    sentences = [torch.from_numpy(rng.randint(1, 20, size=length)) for length in (3, 7, 5, 1)]
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    tokens = pad_sequence(sentences, batch_first=True).to(device)
    labels = torch.LongTensor([0, 3, 1, 4]).to(device)
    model = settled(Tagger()).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        loss = nn.functional.cross_entropy(model(tokens, lengths), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    gru = settled(nn.GRU(3, 4)).cuda()
    rows = [torch.from_numpy(data(length, 3, seed=length)).cuda() for length in (4, 2)]
    out, _ = gru(pack_sequence(rows))
    cell = settled(nn.LSTMCell(3, 4)).cuda()
    state = cell(rows[0])
    return {"losses": losses, "gru": out.data.tolist(), "cell": state[0].tolist(), "sizes": out.batch_sizes.tolist()}
