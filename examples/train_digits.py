"""Trains a small network on digits that it draws itself: nothing is downloaded. Plain CUDA code, as for any GPU.

python -m torchdevice_cuda examples/train_digits.py
"""

import torch
from torch import nn

# Five rows of three, one digit after the other.
FONT = """
111101101101111 010110010010111 111001111100111 111001111001111 101101111001001
111100111001111 111100111101111 111001001001001 111101111101111 111101111001111
""".split()
DIGITS = torch.tensor([[float(dot) for dot in digit] for digit in FONT]).reshape(10, 1, 5, 3)


def draw(count: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Digits somewhere in pictures of 12 x 12, under noise."""
    labels = torch.randint(10, (count,), device=device)
    pictures = torch.randn(count, 1, 12, 12, device=device) * 0.2
    digits = DIGITS.to(device)[labels]
    rows, columns = torch.randint(0, 8, (count,)).tolist(), torch.randint(0, 10, (count,)).tolist()
    for number, (row, column) in enumerate(zip(rows, columns, strict=True)):
        pictures[number, :, row : row + 5, column : column + 3] += digits[number]
    return pictures, labels


def main() -> None:
    device = "cuda"
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 32, (5, 3)), nn.ReLU(), nn.Conv2d(32, 32, 1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        nn.Linear(32, 10),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    pictures, labels = draw(2048, device)
    for epoch in range(8):
        total = 0.0
        for batch in torch.randperm(len(labels), device=device).split(128):
            loss = nn.functional.cross_entropy(model(pictures[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / 16:.3f}")
    seen, expected = draw(512, device)
    with torch.no_grad():
        accuracy = (model(seen).argmax(1) == expected).float().mean().item()
    print(f"on {torch.cuda.get_device_name()}: {accuracy:.0%} of new digits are read")
    assert accuracy > 0.9


if __name__ == "__main__":
    main()
