"""Parts of the native device: each is loaded when it is first needed, and built if it has to be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from harness import VIRTUAL, Finished, python, run_forked
from harness.places import must_be_ready

from native.compilers import Bench
from torchdevice_cuda.native import build, parts

pytestmark = pytest.mark.native
PARTS = [part for part in parts.parts_of("cuda") if part != parts.CORE]
#: Prints which parts are loaded, and what a program computed.
LOADED = """
import sys
def loaded():
    start = "_hostdevice_cuda_"
    return sorted(name.removeprefix(start) for name in sys.modules if name.startswith(start))
"""
#: What most programs do.
TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5),
                    nn.Linear(8 * 3 * 3, 10)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
scaler = torch.amp.GradScaler()
for _ in range(2):
    with torch.autocast("cuda"):
        found = net(torch.randn(4, 3, 8, 8, device="cuda"))
        loss = nn.functional.cross_entropy(found, torch.tensor([1, 2, 3, 4]).cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
torch.cuda.synchronize()
assert torch.cuda.max_memory_allocated() > 0
with torch.cuda.stream(torch.cuda.Stream()):
    torch.arange(9.0, device="cuda").softmax(0).argmax().item()
"""
#: A line for each part that needs it, and says whether it computed as the CPU does.
NEEDING = {
    "attention": "q = torch.randn(1, 2, 4, 8); f = nn.functional.scaled_dot_product_attention\n"
    "print(torch.allclose(f(q.cuda(), q.cuda(), q.cuda()).cpu(), f(q, q, q), atol=1e-5))",
    "recurrent": "net = nn.GRU(3, 4); x = torch.randn(2, 1, 3)\n"
    "there = net(x)[0].detach(); print(torch.allclose(net.cuda()(x.cuda())[0].cpu(), there, atol=1e-5))",
    "quantized": "x = torch.randn(5)\n"
    "made = [torch.quantize_per_tensor(t, 0.1, 0, torch.qint8).int_repr().cpu() for t in (x, x.cuda())]\n"
    "print(made[0].equal(made[1]))",
    "scans": "x = torch.ones(4); print(x.cuda().cumsum(0).tolist() == [1, 2, 3, 4])",
    "reductions": "x = torch.rand(9); print(x.cuda().var().cpu().allclose(x.var()))",
    "sparse": "x = torch.eye(3).to_sparse(); print((x.cuda() * 2 + x.cuda()).to_dense().cpu().equal(torch.eye(3) * 3))",
    "composites": "x = torch.randn(20); print(x.cuda().topk(3).values.cpu().equal(x.topk(3).values))",
    "graphs": "g = torch.cuda.CUDAGraph(); x = torch.ones(3, device='cuda')\n"
    "with torch.cuda.graph(g): y = x * 2\nx.fill_(4); g.replay(); print(y.tolist() == [8.0] * 3)",
    "initcheck": "from torchdevice_cuda import drivers\n"
    "drivers.active().native.fill_new_memory(True); x = torch.empty(64, device='cuda')\n"
    "drivers.active().native.fill_new_memory(False); print(bool(x.isnan().all()))",
    "profiling": "from torch.profiler import profile, ProfilerActivity\nx = torch.ones(3, device='cuda')\n"
    "with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as p: x + x\n"
    "print(any(e.device_type == torch.autograd.DeviceType.CUDA for e in p.events()))",
    "distributed": "import torch.distributed as dist\n"
    "dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)\nx = torch.ones(3, device='cuda')\n"
    "dist.all_reduce(x); torch.cuda.synchronize(); print(x.tolist() == [1.0] * 3); dist.destroy_process_group()",
}


def run_program(code: str, *options: str, is_new: bool = False, **environment: str) -> Finished:
    must_be_ready(VIRTUAL)
    words = ("-m", "torchdevice_cuda", "--driver", "virtual", *options, "-c", LOADED + code)
    return (python if is_new else run_forked)(*words, environment=environment, check=False, timeout=300)


def copy_core(folder: Path) -> dict[str, str]:
    """Copy the core into a cache of its own, and name that: it has no other part."""
    must_be_ready(VIRTUAL)
    library = build.library("cuda")
    (folder / library.parent.name).mkdir()
    shutil.copy(library, folder / library.parent.name / library.name)
    return {"TORCHDEVICE_CACHE_DIR": str(folder)}


def test_a_conv_net_needs_the_core_alone(tmp_path: Path) -> None:
    """No other part is built, loaded or searched for."""
    done = run_program(TRAINING + "print(loaded())", "--no-build", is_new=True, **copy_core(tmp_path))
    assert (done.status, done.out) == (0, "[]\n"), done


def test_every_part_is_needed_by_a_program_here() -> None:
    # Settings load these: a report, checks of streams, --streams and --clock.
    assert set(NEEDING) | {"clock", "counting", "deferral", "races", "rehearsal"} == set(PARTS)


@pytest.mark.parametrize("part", NEEDING)
def test_a_part_is_loaded_when_it_is_needed(part: str) -> None:
    code = f"import torch\nfrom torch import nn\nassert loaded() == []\n{NEEDING[part]}\nprint(loaded())"
    done = run_program(code)
    assert (done.status, done.out) == (0, f"True\n{[part]}\n"), done
    assert "torchdevice" not in done.err, done


def test_the_part_of_reports_is_loaded_for_one(tmp_path: Path) -> None:
    done = run_program("import torch\ntorch.ones(3).cuda()\nprint(loaded())", "--report", str(tmp_path / "report.json"))
    assert (done.status, done.out) == (0, "['counting']\n"), done


def test_parts_bring_what_they_are_loaded_for() -> None:
    """Each operator that a part is loaded for, where this torch has it, and each function; and nothing unannounced.

    A kernel that is registered although the boxed one has its operator would have PyTorch warn.
    """
    code = "import torch, _hostdevice_cuda as native\ntorch.ones(3).cuda()\n"
    code += f"for part in {PARTS}:\n    native.load_part(part)\n    print(native.find_unfilled(part))\n"
    code += f"for name in {[name for part in PARTS for name in parts.parts_of('cuda')[part].functions]}:\n"
    code += "    assert name in vars(native), name\n"
    done = run_program(code)
    assert (done.status, done.out, done.err) == (0, "[]\n" * len(PARTS), ""), done


def test_threads_that_need_a_part_at_once_load_it_once() -> None:
    code = """
import threading, torch
x = torch.arange(50.0).flip(0).cuda()
found, start = [], threading.Barrier(8)
def work():
    start.wait()
    found.append(x.sort().values.tolist() == sorted(x.tolist()))
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(found == [True] * 8, loaded())
"""
    done = run_program(code)
    assert (done.status, done.out) == (0, "True ['composites']\n"), done


def test_a_part_that_is_missing_and_may_not_be_built_is_one_line(tmp_path: Path) -> None:
    code = """
import torch
x = torch.ones(3, device="cuda")
try:
    x.sort()
except RuntimeError as error:
    print(type(error).__name__, str(error).splitlines()[0])
print((x + x).tolist(), loaded())
"""
    done = run_program(code, "--no-build", **copy_core(tmp_path))
    said = "RuntimeError the native device's part composites is not built (missing); "
    said += "python -m torchdevice_cuda --build composites builds it\n[2.0, 2.0, 2.0] []\n"
    assert (done.status, done.out) == (0, said), done


def test_a_part_that_is_built_in_a_test_is_seen(tmp_path: Path) -> None:
    """Pytest captures what a test says, and a build takes longer than most of them; a compiler that fails is quick."""
    (tmp_path / "cache").mkdir()
    bench = Bench(tmp_path)
    environment = {**bench.environment("exit 1"), **copy_core(tmp_path / "cache")}
    file = tmp_path / "test_case.py"
    file.write_text(
        "import pytest, torch\n"
        "def test_it():\n"
        "    with pytest.raises(RuntimeError, match='compiling composites failed'):\n"
        "        torch.ones(3, device='cuda').sort()\n"
    )
    words = [
        "-m",
        "pytest",
        "--torchdevice",
        "--torchdevice-driver",
        "virtual",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
    ]
    done = python(*words, "--rootdir", tmp_path, file, environment=environment, check=False)
    assert "1 passed" in done.out and "building the native device's part composites for torch" in done.err, done


def test_names_that_no_part_has() -> None:
    done = run_program("import torch, _hostdevice_cuda as native\nprint(getattr(native, 'absent', 7), loaded())")
    assert (done.status, done.out) == (0, "7 []\n"), done


@pytest.mark.slow
def test_a_part_is_built_when_it_is_needed(tmp_path: Path) -> None:
    code = "import torch\nprint(torch.arange(3.0).cuda().sort(descending=True).values.tolist(), loaded())"
    environment = copy_core(tmp_path)
    done = run_program(code, **environment)
    assert (done.status, done.out) == (0, "[2.0, 1.0, 0.0] ['composites']\n"), done
    assert "building the native device's part composites for torch" in done.err and "built in" in done.err
    again = run_program(code, **environment)
    assert (again.status, again.out, again.err) == (0, done.out, ""), again
