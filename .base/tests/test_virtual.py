"""The virtual GPU through the whole product: identity, memory, several devices, errors, compilation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import clean_environment


@pytest.fixture(autouse=True)
def built(native_library: str) -> None:
    """Every test here needs the native part."""


@pytest.fixture
def virtual(answer: Callable) -> Callable:
    def ask(body: str, **options):
        return answer(body, driver="virtual", **options)

    return ask


def test_tensors_are_cuda_down_to_the_dispatcher(virtual: Callable, order: str) -> None:
    found = virtual(
        """
        x = torch.ones(2, 3, device="cuda")
        y = (x @ x.T).relu()
        result = [str(x.device), x.is_cuda, x.type(), str(y.device), repr(y)[-16:], str(x.cpu().device), x.get_device(),
                  torch._C._dispatch_keys(x).has(torch._C.DispatchKey.CUDA), y.tolist()]
        """,
        order=order,
    )
    assert found == [
        "cuda:0",
        True,
        "torch.cuda.FloatTensor",
        "cuda:0",
        "device='cuda:0')",
        "cpu",
        0,
        True,
        [[3.0] * 2] * 2,
    ]


def test_training_agrees_with_the_cpu(virtual: Callable) -> None:
    losses = virtual(
        """
        def train(device):
            torch.manual_seed(0)
            model = torch.nn.Sequential(
                torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(),
                torch.nn.Linear(8 * 36, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4),
            ).to(device)
            data, target = torch.randn(16, 3, 8, 8).to(device), torch.randint(0, 4, (16,)).to(device)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            losses = []
            for _ in range(5):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(data), target)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses
        result = [train("cuda"), train("cpu")]
        """
    )
    assert losses[0] == pytest.approx(losses[1], rel=1e-5) and losses[0][-1] < losses[0][0]


def test_recurrent_layers_attention_and_fused_optimizers(virtual: Callable) -> None:
    assert virtual(
        """
        nn = torch.nn
        torch.manual_seed(0)
        result = {}
        for name, make, shape in (
            ("lstm", lambda: nn.LSTM(4, 5, 2, batch_first=True), (2, 3, 4)),
            ("gru", lambda: nn.GRU(4, 5, batch_first=True), (2, 3, 4)),
            ("attention", lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 3, 8)),
        ):
            module, x = make(), torch.randn(shape)
            want = module(x); want = want[0] if isinstance(want, tuple) else want
            want.sum().backward()
            grads = [p.grad.clone() for p in module.parameters()]
            module.zero_grad(); module.cuda()
            optimizer = torch.optim.Adam(module.parameters(), fused=True, capturable=True)
            got = module(x.cuda()); got = got[0] if isinstance(got, tuple) else got
            got.sum().backward()
            same = torch.allclose(want, got.cpu(), atol=1e-5) and all(
                torch.allclose(g, p.grad.cpu(), atol=1e-4) for g, p in zip(grads, module.parameters()))
            optimizer.step()
            result[name] = same and got.is_cuda
        """
    ) == {"lstm": True, "gru": True, "attention": True}


def test_memory_is_exact_and_limited(virtual: Callable) -> None:
    assert virtual(
        """
        c = torch.cuda
        start = c.memory_allocated()
        x = torch.empty(1000, device="cuda")
        y = x * 2
        steps = [c.memory_allocated() - start]
        del y
        steps.append(c.memory_allocated() - start)
        try:
            torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
        except c.OutOfMemoryError as error:
            words = str(error)
        z = torch.ones(1 << 20, device="cuda")  # the program goes on
        result = [steps, words.splitlines()[0][:75], c.memory_stats()["num_ooms"], int(z.sum()),
                  c.get_device_properties(0).total_memory == 64 << 20, c.mem_get_info()[1] == 64 << 20]
        """,
        memory="64MiB",
    ) == [
        [8192, 4096],
        "CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total capacit",
        1,
        1 << 20,
        True,
        True,
    ]


def test_history_is_what_the_viewer_reads(virtual: Callable) -> None:
    assert virtual(
        """
        c = torch.cuda
        c.memory._record_memory_history(max_entries=1000)
        def make():
            return torch.ones(1 << 20, device="cuda")
        x = make()
        del x
        shot = c.memory._snapshot()
        actions = [entry["action"] for entry in shot["device_traces"][0]]
        names = [frame["name"] for entry in shot["device_traces"][0] if entry["action"] == "alloc" for frame in entry["frames"]]
        page = c._memory_viz.trace_plot(shot)
        result = ["alloc" in actions, "free_completed" in actions, "make" in names, "<script" in page]
        """
    ) == [True, True, True, True]


def test_several_devices(virtual: Callable) -> None:
    assert virtual(
        """
        import torch.cuda.comm
        c = torch.cuda
        a = torch.ones(4, 2, device="cuda:1")
        b = a.to("cuda:2")
        c.set_device(3)
        here = torch.zeros(1, device="cuda").get_device()
        c.set_device(0)
        try:
            a + b
        except RuntimeError as error:
            mixed = str(error).splitlines()[0]
        module = torch.nn.Linear(2, 3).cuda()
        out = torch.nn.DataParallel(module)(torch.ones(8, 2, device="cuda"))
        out.sum().backward()
        parts = torch.cuda.comm.scatter(torch.arange(8.0, device="cuda"), [0, 1, 2, 3])
        total = torch.cuda.comm.reduce_add([part for part in parts], destination=2)
        result = [c.device_count(), str(b.device), here, mixed, list(out.shape), module.weight.grad.tolist() == [[8.0] * 2] * 3,
                  [str(p.device) for p in parts], total.tolist(), str(total.device),
                  [c.memory_allocated(i) > 0 for i in range(4)]]
        """,
        devices=4,
    ) == [
        4, "cuda:2", 3,
        "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:2!",
        [8, 3], True, ["cuda:0", "cuda:1", "cuda:2", "cuda:3"], [12.0, 16.0], "cuda:2", [True] * 4,
    ]  # fmt: skip


def test_visible_devices(virtual: Callable) -> None:
    ask = "result = [torch.cuda.is_available(), torch.cuda.device_count()]"
    assert virtual(ask, devices=4, env={"CUDA_VISIBLE_DEVICES": "2,0"}) == [True, 2]
    assert virtual(ask, devices=4, env={"CUDA_VISIBLE_DEVICES": ""}) == [False, 0]


def test_fork_after_use_is_refused_as_cuda_refuses_it(virtual: Callable) -> None:
    kind, words = virtual(
        """
        import json, os
        torch.zeros(1, device="cuda")
        read, write = os.pipe()
        if os.fork() == 0:
            try:
                torch.zeros(1, device="cuda")
                os.write(write, json.dumps(["none", ""]).encode())
            except Exception as error:
                os.write(write, json.dumps([type(error).__name__, str(error)]).encode())
            os._exit(0)
        os.close(write)
        result = json.loads(os.fdopen(read).read())
        """
    )
    assert kind == "RuntimeError" and words.startswith("Cannot re-initialize CUDA in forked subprocess")


def test_dataloader_workers_and_pinned_memory(virtual: Callable) -> None:
    assert virtual(
        """
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.arange(8.0))
        torch.zeros(1, device="cuda")
        batches = [b[0] for b in DataLoader(data, batch_size=2, num_workers=2, pin_memory=True)]
        moved = [b.to("cuda", non_blocking=True) for b in batches]
        result = [all(b.is_pinned() for b in batches), all(m.is_cuda for m in moved), float(sum(m.sum() for m in moved))]
        """
    ) == [True, True, 28.0]


@pytest.mark.slow
def test_compile_really_compiles(virtual: Callable) -> None:
    assert virtual(
        """
        from torch._inductor import metrics
        f = torch.compile(lambda x, y: torch.relu(x) @ y + torch.sin(y).sum())
        x = torch.randn(8, 8, device="cuda", requires_grad=True)
        out = f(x, x)
        out.sum().backward()
        want = torch.relu(x) @ x + torch.sin(x).sum()
        result = [torch.allclose(out, want, atol=1e-4), out.is_cuda, metrics.generated_kernel_count > 0]
        """
    ) == [True, True, True]


def test_deactivation_gives_torch_without_cuda(virtual: Callable) -> None:
    assert virtual(
        """
        x = torch.ones(2, device="cuda")
        torchdevice_cuda.deactivate()
        result = [torch.cuda.is_available(), torch.cuda.device_count(), (torch.ones(2) * 2).tolist()]
        """
    ) == [False, 0, [2.0, 2.0]]


def test_command_line_builds_and_informs(native_library: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--devices", "2", "--memory", "1GiB", "--info"],
        capture_output=True, text=True, env=clean_environment(),
    )  # fmt: skip
    assert done.returncode == 0 and "virtual" in done.stdout and done.stdout.count("1.00 GiB") == 2, done.stdout
