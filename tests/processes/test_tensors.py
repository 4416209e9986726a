"""CUDA's tensors in several processes at once, on the virtual GPU: shared memory, not copies."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from harness import VIRTUAL, child
from torch import nn

from .peer import SPAWN, Failed, Peer, peer

KEPT: dict[str, torch.Tensor] = {}
shared = child(VIRTUAL.with_settings(devices=2))


# ----------------------------------------------------------------- for the other process
def add(x: torch.Tensor, number: float) -> list[float]:
    x.add_(number)
    return x.flatten().tolist()


def describe(x: torch.Tensor) -> list[Any]:
    facts = [type(x).__name__, str(x.device), x.requires_grad, x.is_shared(), x.untyped_storage().resizable()]
    return [*facts, tuple(x.shape), x.stride(), x.storage_offset(), torch.cuda.memory_allocated(x.device)]


def keep(x: torch.Tensor | None) -> None:
    KEPT.clear()
    if x is not None:
        KEPT["x"] = x


def kept() -> list[float]:
    return KEPT["x"].tolist()


def made(number: float, device: str = "cuda") -> torch.Tensor:
    return torch.full((4,), number, device=device)


def tell(x: torch.Tensor) -> tuple[Any, ...]:
    KEPT["x"] = x
    return x.untyped_storage()._share_cuda_()


def make_and_tell() -> tuple[Any, ...]:
    return tell(torch.ones(4, device="cuda"))


def step(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(torch.ones(8, 4, device="cuda")) - 3).square().mean().backward()
        optimizer.step()


def again(x: torch.Tensor, what: str) -> str:
    storage = x.untyped_storage()
    return repr({"send": storage._share_cuda_, "resize": lambda: x.resize_(10_000)}[what]())


def through(pairs: list[tuple[Any, Any]]) -> None:
    for queue, back in pairs:
        x = queue.get()
        x.mul_(2)
        back.put(x.clone())
        del x
        queue.get()  # until the other has what it was sent


# ----------------------------------------------------------------------------- the tests
@shared
def test_it_is_the_same_memory() -> None:
    x, beside = torch.arange(10.0, device="cuda"), torch.zeros(4, device="cuda")
    address = x.data_ptr()
    assert peer()(add, x[2:8].view(2, 3), 100) == [102, 103, 104, 105, 106, 107]
    assert x.tolist() == [0, 1, 102, 103, 104, 105, 106, 107, 8, 9]
    x.zero_()
    assert x.data_ptr() == address
    assert beside.tolist() == [0] * 4
    assert peer()(add, x, 1) == [1] * 10


@shared
@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
@pytest.mark.parametrize("megabytes", [1, 5, 24])
def test_of_every_size_on_every_device(device: str, megabytes: int) -> None:
    x = torch.arange(megabytes << 18, device=device, dtype=torch.float32)
    assert peer()(add, x[-5:], 0.5)[-1] == x.numel() - 0.5
    assert x[-1].item() == x.numel() - 0.5
    assert x[: 1 << 18].sum().item() == torch.arange(1 << 18, dtype=torch.float32).sum().item()


@shared
def test_received_tensors() -> None:
    x = torch.ones(3, 4, device="cuda:1").t()[1:]
    # The receiver's books know nothing of it.
    assert peer()(describe, x) == ["Tensor", "cuda:1", False, True, False, (3, 3), (1, 4), 1, 0]
    parameter = nn.Parameter(torch.ones(2, device="cuda"))
    assert peer()(describe, parameter)[:3] == ["Parameter", "cuda:0", True]
    whole = nn.Parameter(torch.ones(2, device="cuda", dtype=torch.int32), requires_grad=False)
    assert peer()(describe, whole)[:3] == ["Parameter", "cuda:0", False]
    assert peer()(describe, torch.ones(0, 3, device="cuda"))[5] == (0, 3)
    assert peer()(describe, torch.eye(3, device="cuda").to_sparse().coalesce().values())[5] == (3,)


@shared
def test_returned_tensors() -> None:
    x = peer()(made, 3.0)
    assert x.tolist() == [3.0] * 4
    other = peer()(made, 4.0, "cuda:1")
    assert (str(other.device), other.tolist()) == ("cuda:1", [4.0] * 4)
    assert x.tolist() == [3.0] * 4  # its memory was not used again
    assert x.is_shared()


@shared
def test_queues_carry_them() -> None:
    pairs = [(SPAWN.Queue(), SPAWN.Queue()), (SPAWN.SimpleQueue(), SPAWN.SimpleQueue())]
    helper = SPAWN.Process(target=through, args=(pairs,))
    helper.start()
    for queue, back in pairs:
        x = torch.ones(3, device="cuda")
        queue.put(x)
        assert back.get().tolist() == [2.0] * 3
        assert x.tolist() == [2.0] * 3
        queue.put(None)
    helper.join()


@shared
def test_two_processes_train_one_model() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1).cuda()
    model.share_memory()
    loss = [(model(torch.ones(8, 4, device="cuda")) - 3).square().mean().item()]
    peer().begin(step, model, 20)
    step(model, 20)
    peer().end()
    loss.append((model(torch.ones(8, 4, device="cuda")) - 3).square().mean().item())
    assert loss[1] < 1e-3 < loss[0]


@shared
def test_gradients_are_shared_too() -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    x.grad = torch.zeros(3, device="cuda")
    peer()(add, x.grad, 2.0)
    assert x.grad.tolist() == [2.0] * 3


@shared
def test_memory_lives_until_the_other_lets_go() -> None:
    torch.cuda.ipc_collect()
    before, size = torch.cuda.memory_allocated(), 3 << 20
    x = torch.full((size,), 7, dtype=torch.uint8, device="cuda")
    peer()(keep, x)
    del x
    assert torch.cuda.memory_allocated() - before == size
    torch.cuda.ipc_collect()
    assert torch.cuda.memory_allocated() - before == size
    torch.full((size,), 1, dtype=torch.uint8, device="cuda")
    assert set(peer()(kept)) == {7}
    peer()(keep, None)
    torch.cuda.ipc_collect()
    assert torch.cuda.memory_allocated() == before


@shared
def test_released_memory_is_reused_when_memory_is_short() -> None:
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    x = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    address = x.data_ptr()
    peer()(keep, x)
    del x
    peer()(keep, None)
    assert torch.empty(30 << 20, dtype=torch.uint8, device="cuda").data_ptr() == address


def _shared_bytes() -> int:
    """Return the bytes that this process shares with others, as the system counts them."""
    files = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    mine = [file for file in files if file.is_symlink() and "memfd:torchdevice_cuda" in os.readlink(file)]
    return sum(file.stat().st_blocks * 512 for file in mine)


@shared
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_system_gets_its_memory_back() -> None:
    peer()(add, torch.ones(1, device="cuda"), 1)  # now there is a slot
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    before, size = _shared_bytes(), 32 << 20
    for _ in range(3):
        x = torch.ones(size // 4, device="cuda")
        peer()(add, x[:1], 1)
        assert _shared_bytes() - before == size
        del x
        torch.cuda.ipc_collect()
        torch.cuda.empty_cache()
    assert _shared_bytes() == before
    untouched = torch.empty(size, dtype=torch.uint8, device="cuda")
    untouched.untyped_storage()._share_cuda_()
    assert _shared_bytes() - before < size // 8  # what nobody has written takes no memory


@shared
def test_sending_it_often_costs_nothing_that_stays() -> None:
    x = torch.ones(8, device="cuda")
    for _ in range(50):
        peer()(add, x, 1)
    assert x.untyped_storage()._share_cuda_()[5] < 50  # slots were used again
    assert x.tolist() == [51] * 8


@shared
def test_concurrent_writes_are_kept() -> None:
    torch.cuda.empty_cache()
    tensors = sorted((torch.zeros(1 << 18, device="cuda") for _ in range(40)), key=torch.Tensor.data_ptr)
    # Two in one segment: it moves when the one is sent, while the other is being computed in.
    pairs = [(a, b) for a, b in itertools.pairwise(tensors) if a.data_ptr() >> 21 == b.data_ptr() >> 21]
    assert len(pairs) > 10
    for sent, busy in pairs:
        counted, done = 0, threading.Event()

        def compute(busy: torch.Tensor = busy, done: threading.Event = done) -> None:
            nonlocal counted
            while not done.is_set() or counted < 20:
                busy.add_(1)
                counted += 1

        thread = threading.Thread(target=compute)
        thread.start()
        while counted < 10:
            pass
        sent.untyped_storage()._share_cuda_()
        done.set()
        thread.join()
        assert busy.unique().tolist() == [counted]


def _code(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value).split("\n", 1)[0]


@shared
def test_handles_that_lead_nowhere() -> None:
    new = torch.UntypedStorage._new_shared_cuda
    own = tell(torch.ones(4, device="cuda"))
    with pytest.raises(RuntimeError) as error:
        new(*own)
    assert _code(error) == "CUDA error: invalid device context"
    with pytest.raises(RuntimeError) as error:
        new(*own[:6], b"q" * 64, True)
    assert _code(error) == "CUDA error: mapping of buffer object failed"
    with pytest.raises(RuntimeError) as error:
        new(9, *own[1:])
    assert _code(error) == "CUDA error: invalid device ordinal"
    with pytest.raises(RuntimeError, match="^tuple of 8 items expected"):
        new(1, 2)
    with pytest.raises(
        TypeError, match=r"got \(!str!, bytes, int, int, bytes, int, bytes, bool\), but expected \(int d"
    ):
        new("0", *own[1:])
    assert torch.UntypedStorage._release_ipc_counter_cuda(b"/nothing", 3) is None
    with pytest.raises(RuntimeError, match="^_share_cuda_: only available on CUDA"):
        torch.ones(1).untyped_storage()._share_cuda_()
    assert torch.empty(0, device="cuda").untyped_storage()._share_cuda_() == (0, None, 0, 0, None, 0, None, None)
    sent = peer()(make_and_tell)
    assert [type(value) for value in sent] == [int, bytes, int, int, bytes, int, bytes, bool]
    assert [len(value) for value in sent if isinstance(value, bytes)][::2] == [66, 64]
    assert new(*sent).nbytes() == 16
    KEPT.clear()


@shared
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere no limit of the system's is for this memory"
)
def test_a_system_without_shared_memory() -> None:
    x = torch.ones(20 << 18, device="cuda")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(RuntimeError) as error:
            x.untyped_storage()._share_cuda_()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert _code(error) == "CUDA error: out of memory"
    assert x.add_(1).unique().tolist() == [2.0]  # it is where it was, and can be written
    assert peer()(add, x[:1], 1) == [3.0]


@shared
def test_a_received_tensor_cannot_be_sent_again() -> None:
    x = torch.ones(4, device="cuda")
    with pytest.raises(Failed, match="Attempted to send CUDA tensor received from another process"):
        peer()(again, x, "send")
    with pytest.raises(Failed, match="Trying to resize storage that is not resizable"):
        peer()(again, x, "resize")


def _named_for(process: int) -> list[str]:
    """Shared memory that bears a process's number in its name, as torch's does and ours where it needs one."""
    names = os.listdir("/dev/shm") if Path("/dev/shm").is_dir() else []
    return [name for name in names if name.startswith((f"torch_{process}_", f"tdc{process:x}."))]


@shared
def test_a_sender_that_is_killed() -> None:
    other = Peer()
    process = other.process.pid or 0
    x, told = other(made, 5.0), other(make_and_tell)
    os.kill(process, signal.SIGKILL)
    other.process.join()
    assert x.add_(1).tolist() == [6.0] * 4
    del x
    with pytest.raises(RuntimeError) as error:
        torch.UntypedStorage._new_shared_cuda(*told)
    assert _code(error) == "CUDA error: invalid resource handle"
    assert _named_for(process) == []


@shared
def test_a_fork_does_not_let_go_of_what_its_parent_holds() -> None:
    x = peer()(make_one)
    forked = os.fork()
    if not forked:
        del x
        os._exit(0)
    os.waitpid(forked, 0)
    assert peer()(overwrite) is False
    assert x.tolist() == [1.0] * 4


def make_one() -> torch.Tensor:
    return torch.ones(4, device="cuda")


def overwrite() -> bool:
    """Return whether new memory is that of the last sent tensor, which its sender has dropped."""
    torch.cuda.ipc_collect()
    return any(torch.zeros(4, device="cuda").sum().item() for _ in range(10))


def hold(x: torch.Tensor, number: int) -> torch.Tensor:
    return x + number


@shared
def test_a_pool_takes_and_gives_them() -> None:
    x = torch.ones(2, device="cuda")
    with SPAWN.Pool(1) as pool:
        assert [y.tolist() for y in pool.starmap(hold, [(x, 1), (x, 2)])] == [[2.0, 2.0], [3.0, 3.0]]


def own_row(rank: int, table: torch.Tensor) -> None:
    table[rank] = rank + 1


@shared
def test_spawn_hands_them_over() -> None:
    table = torch.zeros(2, 3, device="cuda")
    mp.spawn(own_row, args=(table,), nprocs=2)
    assert table.tolist() == [[1.0] * 3, [2.0] * 3]


class OnTheGpu(torch.utils.data.Dataset[torch.Tensor]):
    """Made on the GPU, in the workers."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index), device="cuda")


@shared
def test_workers_make_batches_on_the_gpu() -> None:
    loader = torch.utils.data.DataLoader(OnTheGpu(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    batches = list(loader)
    assert [str(batch.device) for batch in batches] == ["cuda:0"] * 2
    assert torch.cat(batches)[:, 0].tolist() == list(range(8))
