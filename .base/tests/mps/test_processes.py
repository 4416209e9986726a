"""Workers, forked and spawned children, under both policies."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from conftest import run_python

LOADING = """
import json
import sys
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

class Made(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        x, y = torch.full((2,), float(index)), torch.tensor(index, device="cpu")
        assert x.is_cpu and y.is_cpu and torch.ones(2).numpy().sum() == 2
        return {"x": x, "y": y}

if __name__ == "__main__":
    seen = {}
    held = TensorDataset(torch.arange(16.0).reshape(8, 2), torch.arange(8))
    for method in ("fork", "spawn"):
        options = {"batch_size": 4, "num_workers": 4, "multiprocessing_context": method}
        generator = torch.Generator().manual_seed(1)
        batches = list(DataLoader(held, shuffle=True, generator=generator, **options))
        seen[f"held {method}"] = [str(batches[0][0].device), sorted(torch.cat([y for _, y in batches]).tolist())]
        batches = list(DataLoader(Made(), **options))
        seen[f"made {method}"] = [str(batches[0]["x"].device), batches[1]["y"].tolist()]
        batch = next(iter(DataLoader(Made(), pin_memory=True, **options)))
        seen[f"pinned {method}"] = [batch["x"].is_pinned(), str(batch["x"].cuda(non_blocking=True).device)]
    assert held.tensors[0].device == torch.zeros(1).device  # the dataset itself was not changed
    print("RESULT " + json.dumps(seen))
"""


@pytest.mark.parametrize("policy, device", [("accelerate", "cuda:0"), ("faithful", "cpu")])
def test_four_workers(emulated: dict[str, str], policy: str, device: str) -> None:
    code = f"import torchdevice_cuda; torchdevice_cuda.activate(driver='mps', policy={policy!r})\n" + LOADING
    seen = json.loads(run_python(code, **emulated, TORCHDEVICE_POLICY=policy).stdout.rpartition("RESULT ")[2])
    for method in ("fork", "spawn"):
        assert seen[f"held {method}"] == [device, list(range(8))]
        assert seen[f"made {method}"] == [device, [4, 5, 6, 7]]
        assert seen[f"pinned {method}"] == [True, "cuda:0"]


@pytest.mark.parametrize("policy", ["accelerate", "faithful"])
def test_a_forked_child_stays_home(on_mps: Callable, policy: str) -> None:
    body = """
    import json, os
    torch.ones(1, device="cuda")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        a, b = torch.zeros(2), torch.ones(2, device="cpu")
        try:
            torch.zeros(1, device="cuda"); error = None
        except RuntimeError as raised:
            error = str(raised)
        os.write(writer, json.dumps([str(a.device), str(b.device), (a + b).tolist(), error]).encode()); os._exit(0)
    os.waitpid(child, 0)
    result = json.loads(os.read(reader, 4096)) + [(torch.ones(1, device="cuda") + 1).tolist()]
    """
    *child, parent = on_mps(body, policy=policy)
    assert child[:3] == ["cpu", "cpu", [1, 1]] and parent == [2]
    assert child[3].startswith("Cannot re-initialize CUDA in forked subprocess")


SPAWNING = """
import json
import torch
import torch.multiprocessing as mp

def work(queue, x, parameter):
    y = x + 1
    unasked = torch.zeros(1)
    queue.put([str(y.device), y.tolist(), str(unasked.device), type(parameter).__name__, parameter.requires_grad])

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue = context.Queue()
    x, parameter = torch.ones(2, device="cuda"), torch.nn.Parameter(torch.ones(1, device="cuda"))
    child = context.Process(target=work, args=(queue, x, parameter))
    child.start()
    seen = queue.get(timeout=100)
    child.join()
    print("RESULT " + json.dumps(seen))
"""


@pytest.mark.parametrize("policy, unasked", [("accelerate", "cuda:0"), ("faithful", "cpu")])
def test_a_spawned_child_has_the_gpu(emulated: dict[str, str], policy: str, unasked: str) -> None:
    code = f"import torchdevice_cuda; torchdevice_cuda.activate(driver='mps', policy={policy!r})\n" + SPAWNING
    seen = json.loads(run_python(code, **emulated).stdout.rpartition("RESULT ")[2])
    assert seen == ["cuda:0", [2, 2], unasked, "Parameter", True]


QUEUES = """
import json
import sys
import torch
import torch.multiprocessing as mp

def produce(queue, done):
    for number in range(2):
        queue.put((number, torch.full((2,), float(number)), torch.nn.Parameter(torch.ones(1))))
    done.wait(60)

def square(x):
    return (x * x).sum()

if __name__ == "__main__":
    seen = {}
    for method in ("fork", "spawn"):
        context = mp.get_context(method)
        queue, done = context.Queue(), context.Event()
        child = context.Process(target=produce, args=(queue, done))
        child.start()
        got = [queue.get(timeout=100) for _ in range(2)]
        done.set(); child.join()
        with context.Pool(2) as pool:
            mapped = [value.item() for value in pool.map(square, [torch.ones(2) * n for n in range(3)])]
        # What arrives can meet what is made here.
        seen[method] = [[n, (x + torch.ones(2)).tolist(), type(p).__name__, p.requires_grad] for n, x, p in got]
        seen[method].append(mapped)
    print("RESULT " + json.dumps(seen))
"""


@pytest.mark.parametrize("policy", ["accelerate", "faithful"])
def test_tensors_through_queues(emulated: dict[str, str], policy: str) -> None:
    code = f"import torchdevice_cuda; torchdevice_cuda.activate(driver='mps', policy={policy!r})\n" + QUEUES
    seen = json.loads(run_python(code, **emulated).stdout.rpartition("RESULT ")[2])
    expected = [[0, [1, 1], "Parameter", True], [1, [2, 2], "Parameter", True], [0, 2, 8]]
    assert seen == {"fork": expected, "spawn": expected}


def test_sharing_the_gpus_memory_is_warned_about(emulated: dict[str, str]) -> None:
    body = "import torch\nx = torch.ones(1); x.share_memory_(); torch.ones(1).share_memory_()\n"
    said = {}
    for policy in ("accelerate", "faithful"):
        code = f"import torchdevice_cuda; torchdevice_cuda.activate(driver='mps', policy={policy!r})\n" + body
        said[policy] = run_python(code, **emulated).stderr.count("memory of the GPU is not shared")
    assert said == {"accelerate": 1, "faithful": 0}
