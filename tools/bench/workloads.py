"""Training steps of whole programs on the virtual GPU beside the same on the CPU, in turns.

    python tools/bench/workloads.py [--json] [--threads 1] [--only lstm,unet,...]

ResNet-18 and a transformer are in ``virtual.py``, DDP is in ``collectives.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from on_virtual import Row, begin, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from virtual import steps

Step = Callable[[], object]


def training(model: nn.Module, loss: Callable[[nn.Module], torch.Tensor]) -> Step:
    """Return a step that ends with the number that programs print."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> float:
        optimizer.zero_grad()
        found = loss(model)
        found.backward()
        optimizer.step()
        return found.item()

    return step


class Tagger(nn.Module):
    """Words in, tags out."""

    def __init__(self, words: int = 512, size: int = 128, tags: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size // 2)
        self.cells = nn.LSTM(size // 2, size, num_layers=2, batch_first=True)
        self.head = nn.Linear(size, tags)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(self.words(text))[0])


def lstm(device: str) -> Step:
    """Return a tagger of two layers."""
    torch.manual_seed(0)
    text, tags = torch.randint(512, (16, 32), device=device), torch.randint(16, (16, 32), device=device)
    return training(
        Tagger().to(device), lambda model: nn.functional.cross_entropy(model(text).flatten(0, 1), tags.flatten())
    )


class UNet(nn.Module):
    """Down, up, and what was there at each size, told how much noise there is."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.noise = nn.Sequential(nn.Linear(1, width * 2), nn.SiLU(), nn.Linear(width * 2, width * 2))
        self.first = self._block(3, width)
        self.down = self._block(width, width * 2)
        self.up = self._block(width * 3, width)
        self.last = nn.Conv2d(width, 3, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU(), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        kept = self.first(x)
        low = self.down(nn.functional.avg_pool2d(kept, 2)) + self.noise(level)[:, :, None, None]
        return self.last(self.up(torch.cat([nn.functional.interpolate(low, scale_factor=2), kept], 1)))


def unet(device: str) -> Step:
    """Return a step of a diffusion model: noise is drawn, mixed in, and to be found."""
    torch.manual_seed(0)
    images = torch.rand(4, 3, 32, 32, device=device)

    def loss(model: nn.Module) -> torch.Tensor:
        noise, level = torch.randn_like(images), torch.rand(4, 1, device=device)
        mixed = images * (1 - level)[:, :, None, None] + noise * level[:, :, None, None]
        return nn.functional.mse_loss(model(mixed, level), noise)

    return training(UNet().to(device), loss)


def loader(device: str) -> Step:
    """Return an epoch that waits for its data: batches of a loader, copied from pinned memory where there is a GPU."""
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(256, 64), torch.randint(10, (256,)))
    batches = DataLoader(data, batch_size=16, pin_memory=device == "cuda")
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def epoch() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            found = nn.functional.cross_entropy(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
            found.backward()
            optimizer.step()

    return epoch


def language_model(device: str, length: int = 35, batch: int = 20) -> tuple[nn.Module, torch.Tensor]:
    """Return an LSTM that predicts words, and text for it."""
    torch.manual_seed(0)
    model = Tagger(words=2000, size=200, tags=2000).to(device)
    return model, torch.randint(2000, (batch, length), device=device)


def without_gradients(model: nn.Module, text: torch.Tensor, read: Callable[[torch.Tensor], torch.Tensor]) -> Step:
    """Return a call of the model that ends with a number."""

    @torch.no_grad()
    def step() -> float:
        return float(read(model(text)))

    return step


def lstm_forward(device: str) -> Step:
    """Return the language model's evaluation."""
    return without_gradients(*language_model(device), torch.sum)


def lstm_word(device: str) -> Step:
    """Return a step of generation: one word of one text."""
    return without_gradients(*language_model(device, 1, 1), torch.argmax)


def lstm_sample(device: str) -> Step:
    """Return a training step with a batch of one."""
    model, text = language_model(device, 8, 1)
    return training(model, lambda model: nn.functional.cross_entropy(model(text).flatten(0, 1), text.flatten()))


class Block(nn.Module):
    """Attention that looks back, then two layers."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.attend, self.project = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.widen, self.narrow = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.attend(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(found.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.widen(self.norms[1](x))))


class Gpt(nn.Module):
    """A small nanoGPT."""

    def __init__(self, size: int = 128, heads: int = 4, layers: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(512, size), nn.Embedding(64, size)
        self.blocks = nn.Sequential(*(Block(size, heads) for _ in range(layers)))
        self.head = nn.Linear(size, 512, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        places = torch.arange(text.shape[1], device=text.device)
        return self.head(self.blocks(self.words(text) + self.places(places)))


def gpt(device: str) -> Step:
    """Return a training step of a small nanoGPT."""
    torch.manual_seed(0)
    text = torch.randint(512, (12, 64), device=device)
    return training(
        Gpt().to(device), lambda model: nn.functional.cross_entropy(model(text).flatten(0, 1), text.flatten())
    )


def mixed(make: Callable[[str], Step]) -> Callable[[str], Step]:
    """Return the same step under autocast, with bfloat16 on both devices."""

    def begin_mixed(device: str) -> Step:
        step = make(device)

        def in_mixed_precision() -> object:
            with torch.autocast(device, dtype=torch.bfloat16):
                return step()

        return in_mixed_precision

    return begin_mixed


WORKLOADS: dict[str, Callable[[str], Step]] = {
    "lstm": lstm,
    "lstm forward": lstm_forward,
    "lstm word": lstm_word,
    "lstm sample": lstm_sample,
    "unet": unet,
    "unet autocast": mixed(unet),
    "gpt": gpt,
    "gpt autocast": mixed(gpt),
    "loader": loader,
}


def main() -> None:
    """The command line."""
    options, only = begin(__doc__ or "")
    rows: list[Row] = []
    for name, make in WORKLOADS.items():
        if not only or name in only:
            cpu, virtual = steps(make, 20)
            rows.append(
                {
                    "what": name,
                    "cpu_ms": round(cpu, 2),
                    "virtual_ms": round(virtual, 2),
                    "ratio": round(virtual / cpu, 3),
                }
            )
    show(rows, options)


if __name__ == "__main__":
    main()
