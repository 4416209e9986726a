"""A small program as people write them: a sum, a gradient, mixed precision, a stream, memory."""

from __future__ import annotations

import gc

import torch

from ..asking import Finding, expect, main, question

_SIZE = 1 << 24


@question
def add() -> Finding:
    x = torch.arange(4.0, device="cuda")
    found = (x + x).tolist()
    expect(found == [0, 2, 4, 6], f"0 to 3 and itself make {found}")
    return None


@question
def backward() -> Finding:
    x = torch.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)
    (x**2).sum().backward()
    expect(x.grad is not None and x.grad.tolist() == [2, 4, 6], f"the gradient of the squares is {x.grad}")
    return None


@question
def amp() -> Finding:
    """A step with autocast and a scaler lowers the loss."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1).cuda()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    x, losses = torch.randn(64, 8, device="cuda"), []
    for _ in range(5):
        with torch.autocast("cuda", dtype=torch.float16):
            made = model(x)
            loss = (made.float() - x[:, :1]).square().mean()
        expect(made.dtype is torch.float16, f"autocast made {made.dtype}")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss))
    expect(losses[-1] < losses[0], f"the loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
    return {"losses": losses}


@question
def stream() -> Finding:
    side, event = torch.cuda.Stream(), torch.cuda.Event()
    x = torch.ones(1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 3
        event.record()
    event.synchronize()
    torch.cuda.current_stream().wait_stream(side)
    expect(event.query(), "an event that was waited for has not happened")
    found = float(y.sum())
    expect(found == 3000, f"a thousand threes are {found}")
    return None


@question
def memory() -> Finding:
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    made = torch.ones(_SIZE, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    during, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    expect(int(made[-1]) == 1, "the last byte of 16 MiB is not what was put there")
    # Resident memory, on the cpu driver, may have had room for it before.
    expect(during >= before, f"{before} bytes are allocated before and {during} with 16 MiB more")
    expect(peak >= during, f"the peak is {peak} bytes, with {during} allocated")
    return {"before": before, "with 16 MiB more": during, "peak": peak}


if __name__ == "__main__":
    main()
