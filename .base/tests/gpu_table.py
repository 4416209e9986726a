"""The redirection table's CUDA column through real tensors, on a machine with a real GPU.

    python tests/gpu_table.py

Prints the table under both policies with the override off, on and off again; exits with 1 if a cell is wrong. Each
policy is one activation, in a process of its own. Not collected by pytest.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ != "__main__":
    raise ImportError("tests/gpu_table.py is a program, not a module")

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
POLICIES = ("accelerate", "faithful")


def show(policy: str) -> int:
    """Activate with a policy, print its table; how many cells are wrong."""
    import torchdevice_cuda

    torchdevice_cuda.activate(driver="cuda", policy=policy)
    import torch
    from torch import nn

    redirected = policy == "accelerate"
    wrong = 0
    saved = io.BytesIO()
    torch.save({"x": torch.ones(2)}, saved)

    def load(location: Any) -> torch.Tensor:
        saved.seek(0)
        return torch.load(saved, map_location=location)["x"]

    def default(location: Any) -> torch.Tensor:
        torch.set_default_device(location)
        try:
            return torch.zeros(2)
        finally:
            torch.set_default_device(None)

    def context(location: Any) -> torch.Tensor:
        with torch.device(location):
            return torch.zeros(2)

    makers: dict[str, Callable[[Any], torch.Tensor]] = {
        "zeros": lambda d: torch.zeros(2, device=d),
        "tensor": lambda d: torch.tensor([1.0], device=d),
        "rand": lambda d: torch.rand(2, device=d),
        "like": lambda d: torch.zeros_like(home, device=d),
        "new": lambda d: home.new_zeros(2, device=d),
        "to": lambda d: home.to(d),
        "to kw": lambda d: away.to(device=d),
        "Module": lambda d: nn.Linear(1, 1).to(d).weight,
        "load": load,
        "default": default,
        "with": context,
    }
    base = torch._C.TensorBase
    home, away = base.cpu(torch.ones(2)), torch.ones(2, device="cuda")
    # torch.device("cpu:-1") is an error of torch's own: the toggle exists only where a request is a string.
    toggling = ("zeros", "tensor", "rand", "like", "new", "to", "to kw")

    def expected(request: Any, override: bool) -> str:
        text = str(request)
        if text == "cpu:-1":
            return "cpu"
        if text.startswith("cpu"):
            return "cuda" if redirected and not override else "cpu"
        return "cuda"

    def row(request: Any, override: bool, names: Any = tuple(makers)) -> None:
        nonlocal wrong
        cells = []
        for name in makers:
            if name not in names:
                cells.append("-")
                continue
            got = base.device.__get__(makers[name](request)).type
            want = expected(request, override)
            cells.append(got if got == want else f"{got}!={want}")
            wrong += got != want
        print(f"  {request!r:<32}" + "".join(f"{cell:<10}" for cell in cells))

    def check(what: str, got: Any, want: Any) -> None:
        nonlocal wrong
        wrong += got != want
        print(f"  {what:<48} {got}{'' if got == want else f'  WRONG, expected {want}'}")

    requests = ["cpu", "cpu:0", torch.device("cpu"), "mps", "mps:0", torch.device("mps"), "cuda", "cuda:0"]
    requests += [torch.device("cuda"), torch.device("cuda", 0), 0]
    print(f"policy {policy}, {torch.cuda.get_device_name()}, torch {torch.__version__}")
    for state, override in (("off", False), ("on", True), ("off again", False)):
        print(f" override {state:<24}" + "".join(f"{name:<10}" for name in makers))
        for request in requests:
            # torch.load takes no integer for a location.
            row(request, override, [name for name in makers if name != "load" or request != 0])
        home_type = "cuda" if redirected and not override else "cpu"
        check("x.cpu()", away.cpu().device.type, home_type)
        check("Module.cpu()", nn.Linear(1, 1, device="cuda").cpu().weight.device.type, home_type)
        check("x.cuda()", home.cuda().device.type, "cuda")
        check("Module.cuda()", nn.Linear(1, 1).cuda().weight.device.type, "cuda")
        torch.zeros(1, device="cpu:-1")  # turns it over
    torch.zeros(1, device="cpu:-1")  # and back: it is off
    print(" cpu:-1 itself")
    for name in toggling:
        row("cpu:-1", False, (name,))
        row("cpu:-1", False, (name,))
    unasked = "cuda" if redirected else "cpu"
    print(" no device")
    for what, got in {
        "torch.zeros(2)": torch.zeros(2),
        "torch.tensor([1.0])": torch.tensor([1.0]),
        "torch.rand(2)": torch.rand(2),
        "torch.arange(2)": torch.arange(2),
        "torch.normal(0.0, 1.0, (2,))": torch.normal(0.0, 1.0, (2,)),
        "torch.as_tensor([1.0])": torch.as_tensor([1.0]),
        "torch.frombuffer(...)": torch.frombuffer(bytearray(8), dtype=torch.float32),
        "nn.Linear(1, 1).weight": nn.Linear(1, 1).weight,
    }.items():
        check(what, got.device.type, unasked)
    check("torch.zeros_like(a tensor on the CPU)", torch.zeros_like(home).device.type, "cpu")
    check("torch.normal(a tensor on the CPU, 1.0)", torch.normal(home, 1.0).device.type, "cpu")
    drawn = torch.randperm(3, generator=torch.Generator())
    check("torch.randperm(3, generator=the CPU's)", drawn.device.type, "cpu")
    check("torch.zeros(2, device='meta')", torch.zeros(2, device="meta").device.type, "meta")
    check("torch.zeros(2).tolist()", torch.zeros(2).tolist(), [0.0, 0.0])
    for bad in ("cuda:99", "gpu", "cuda:x"):
        try:
            torch.zeros(1, device=bad)
            kind = "no error"
        except RuntimeError:
            kind = "RuntimeError"
        check(f"torch.zeros(1, device={bad!r})", kind, "RuntimeError")
    return wrong


if len(sys.argv) > 1:
    failed = show(sys.argv[1])
    print(f"{failed} wrong\n", flush=True)
    raise SystemExit(1 if failed else 0)
raise SystemExit(max(subprocess.run([sys.executable, __file__, policy]).returncode for policy in POLICIES))
