"""``--float64 cpu``: float64 in full precision, on a GPU that has none. Held against stock torch on the CPU."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, child
from torch import nn
from torch.nn import functional

from torchdevice_cuda._compat import torch_release
from torchdevice_cuda.report.departures import departures

from .seeing import left

wide = child(MPS_FAITHFUL.with_settings(float64="cpu"))
pytestmark = pytest.mark.filterwarnings("ignore:the GPU has no")


def _numbers(*size: int, device: str, grad: bool = False) -> torch.Tensor:
    """Numbers of which float32 would lose half."""
    count = torch.Size(size).numel()
    return (torch.arange(1, count + 1, dtype=torch.float64).reshape(size) / 3).to(device).requires_grad_(grad)


def _trained(device: str) -> Any:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2)).double()
    for number, parameter in enumerate(model.parameters()):
        nn.init.constant_(parameter, 0.1 + number / 30)
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    target = torch.tensor([0, 1, 1], device=device)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(_numbers(3, 4, device=device)), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


def _in_place(device: str) -> torch.Tensor:
    x = _numbers(3, 4, device=device)
    x[0] = 7
    x[:, 1] += 1 / 3
    x.mul_(2).clamp_(max=9)
    x[x > 8] = 1 / 7
    x.t_()
    return x


def _views(device: str) -> torch.Tensor:
    x = _numbers(4, 4, device=device)
    x.view(-1)[::5].zero_()
    first, second = x.chunk(2)
    first.copy_(second)
    return x


def _mixed(device: str) -> torch.Tensor:
    x, narrow = _numbers(3, device=device, grad=True), torch.full((3,), 0.1, device=device, requires_grad=True)
    (x * narrow + narrow.double() + x.float().sum() + x.cpu().sum().to(device)).sum().backward()
    assert narrow.grad is not None
    return torch.stack([x.grad, narrow.grad.double()])


def _written(device: str) -> torch.Tensor:
    x, into = _numbers(3, device=device, grad=True), torch.zeros(3, device=device)
    into[:] = x * 2
    into.sum().backward()
    return x.grad


def _listed(device: str) -> list[torch.Tensor]:
    given = [_numbers(2, device=device), _numbers(3, device=device)]
    torch._foreach_mul_(given, 3)
    torch._foreach_add_(given, torch._foreach_sqrt(given))
    return given


def _grad_of_grad(device: str) -> Any:
    x = _numbers(3, device=device, grad=True)
    (first,) = torch.autograd.grad((x.double().cpu().to(device) ** 3).sum(), x, create_graph=True)
    return first, torch.autograd.grad(first.sum(), x)


def _directional(device: str) -> Any:
    return torch.func.jvp(lambda x: (x * x).float(), (_numbers(3, device=device),), (_numbers(3, device=device),))


def _shown(x: torch.Tensor) -> str:
    """Return the printed text in one line: with the device it is longer, and wrapped."""
    return " ".join(repr(x).replace(" device='cuda:0',", "").split())


@torch.inference_mode()
def _inferred(device: str) -> Any:
    x = _numbers(3, device=device)
    assert x.cpu().device.type == x.to("cpu", torch.float32).device.type == "cpu"
    return x.cpu(), x.to(torch.float32), x.type_as(torch.ones(1, device=device)), x * 2


#: What is computed on ``cpu`` by stock torch, and on ``cuda``.
PROGRAMS: dict[str, Callable[[str], Any]] = {
    "training": _trained,
    "in place": _in_place,
    "views": _views,
    "with float32": _mixed,
    "into float32": _written,
    "lists": _listed,
    "a gradient's gradient": _grad_of_grad,
    "forward mode": _directional,
    "inference": _inferred,
    "complex": lambda d: torch.view_as_real(torch.polar(_numbers(2, device=d), _numbers(2, device=d)) ** 2),
    "to complex": lambda d: _numbers(3, device=d).cdouble() * 1j,
    "linalg": lambda d: torch.linalg.eigh(_numbers(3, 3, device=d) + _numbers(3, 3, device=d).T).eigenvalues,
    "solve": lambda d: torch.linalg.solve(_numbers(2, 2, device=d), _numbers(2, device=d)),
    "fft": lambda d: torch.fft.rfft(_numbers(8, device=d)).abs(),
    "sort": lambda d: torch.sort(_numbers(5, device=d), descending=True),
    "truths": lambda d: (_numbers(5, device=d) > 1).sum(),
    "where": lambda d: torch.where(_numbers(4, device=d) > 1, _numbers(4, device=d), 0.1),
    "einsum": lambda d: torch.einsum("ij,kj->ik", _numbers(2, 3, device=d), _numbers(4, 3, device=d)),
    "statistics": lambda d: torch.stack([f(_numbers(7, device=d)) for f in (torch.std, torch.var, torch.mean)]),
    "composed": lambda d: functional.scaled_dot_product_attention(*[_numbers(1, 2, 4, 8, device=d) / 99] * 3),
    "convolution": lambda d: functional.conv2d(_numbers(1, 2, 5, 5, device=d), _numbers(3, 2, 3, 3, device=d)),
    "float_power": lambda d: torch.full((3,), 0.1, device=d).float_power(3),
    "float_power_": lambda d: _numbers(3, device=d).float_power_(torch.full((3,), 2.0, device=d)),
    "lengths on the CPU": lambda d: functional.ctc_loss(
        _numbers(5, 1, 4, device=d).log_softmax(2),
        torch.tensor([[1, 2]], device=d),
        torch.tensor([5]),
        torch.tensor([2]),
    ),
    "packed": lambda d: nn.utils.rnn.pack_padded_sequence(_numbers(4, 2, 3, device=d), [4, 3]).data,
    "jagged": lambda d: (
        torch.nested.nested_tensor_from_jagged(_numbers(4, 2, device=d), torch.tensor([0, 1, 4], device=d))
        .sin()
        .values()
    ),
    "sum of float32": lambda d: torch.full((99,), 0.1, device=d).sum(dtype=torch.float64),
    "out": lambda d: torch.add(_numbers(3, device=d), 1, out=torch.empty(3, dtype=torch.float64, device=d)),
    "index": lambda d: _numbers(5, device=d)[torch.tensor([0, 3], device=d)],
    "scatter": lambda d: torch.zeros(3, dtype=torch.float64, device=d).index_add_(
        0, torch.tensor([0, 0, 2], device=d), _numbers(3, device=d)
    ),
    "embedding": lambda d: nn.Embedding.from_pretrained(_numbers(4, 2, device=d))(torch.tensor([1, 3], device=d)),
    "linspace": lambda d: torch.linspace(0, 1, 7, dtype=torch.float64, device=d),
    "pad": lambda d: functional.pad(_numbers(2, 3, device=d), (1, 2), value=1 / 3),
    "list": lambda d: _numbers(3, device=d).tolist(),
    "item": lambda d: _numbers(1, device=d).item(),
    "shown": lambda d: _shown(_numbers(2, device=d)),
    "parameter shown": lambda d: _shown(nn.Parameter(_numbers(2, device=d))),
}


def _same(here: Any, stock: Any, path: str = "") -> None:
    if isinstance(stock, torch.Tensor):
        assert here.dtype is stock.dtype, path
        torch.testing.assert_close(here.cpu(), stock, rtol=1e-13, atol=1e-15)
    elif isinstance(stock, (list, tuple)):
        assert len(here) == len(stock)
        for place, pair in enumerate(zip(here, stock, strict=True)):
            _same(*pair, f"{path}[{place}]")
    elif isinstance(stock, float):
        assert here == pytest.approx(stock, rel=1e-13), path
    else:
        assert here == stock, path


@wide
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_numbers_are_the_cpus(program: str) -> None:
    _same(PROGRAMS[program]("cuda"), PROGRAMS[program]("cpu"))


@wide
def test_it_is_a_tensor_of_cudas() -> None:
    x = _numbers(2, device="cuda")
    assert x.is_cuda
    assert x.type() == "torch.cuda.DoubleTensor"
    assert isinstance(x, torch.cuda.DoubleTensor)
    assert x.to("cuda") is x
    assert x.double() is x
    assert (x > 0).is_cuda
    assert x.float().is_cuda
    assert not x.cpu().is_cuda
    with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy"):
        x.numpy()


@wide
def test_moves_from_and_to_the_cpu_copy() -> None:
    host = torch.ones(2, dtype=torch.float64)
    x = host.cuda()
    host.zero_()
    x.cpu().zero_()
    assert x.tolist() == [1, 1]


@wide
def test_tensors_of_the_cpu_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        _numbers(2, device="cuda") + torch.ones(2, dtype=torch.float64)


@wide
def test_gradients_are_checked() -> None:
    layer = nn.Linear(3, 2).cuda().double()
    given = _numbers(2, 3, device="cuda", grad=True)
    assert torch.autograd.gradcheck(lambda x: torch.tanh(layer(x)), given)
    assert torch.autograd.gradgradcheck(lambda x: torch.tanh(layer(x)), given)


@wide
def test_a_module_keeps_its_parameters() -> None:
    layer = nn.Linear(2, 2).cuda()
    weight, optimizer = layer.weight, torch.optim.SGD(layer.parameters(), lr=1.0)
    layer.double()
    assert layer.weight is weight
    assert isinstance(weight, nn.Parameter)
    before = weight.detach().cpu()
    layer(_numbers(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    assert not torch.equal(weight.detach().cpu(), before)


@wide
def test_copies_and_checkpoints() -> None:
    model = nn.Linear(2, 2).cuda().double()
    twin = copy.deepcopy(model)
    assert type(twin.weight) is type(model.weight)
    assert twin.weight.requires_grad
    with torch.no_grad():
        twin.weight.zero_()
    assert model.weight.count_nonzero() == 4
    file = io.BytesIO()
    torch.save({"state": model.state_dict(), "view": _numbers(3, 4, device="cuda").t()[1:]}, file)
    for where in (None, "cpu", "cuda"):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert loaded["state"]["weight"].is_cuda is (where != "cpu")
        assert loaded["state"]["weight"].dtype is torch.float64
        _same(loaded["view"].cpu(), _numbers(3, 4, device="cpu").t()[1:])
    twin.load_state_dict(loaded["state"])
    _same(twin.weight.detach().cpu(), model.weight.detach().cpu())


@wide
def test_seeds_hold() -> None:
    def draw() -> list[float]:
        torch.cuda.manual_seed(3)
        x = torch.zeros(4, dtype=torch.float64, device="cuda")
        return [*x.normal_().tolist(), *torch.rand(2, dtype=torch.float64, device="cuda").tolist()]

    first = draw()
    assert first == draw()
    assert len(set(first)) == 6


@wide
def test_its_cost_is_reported() -> None:
    departures.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.ones(2, dtype=torch.float64, device="cuda")
    x.exp()
    assert "the tensor is kept and computed on the CPU" in str(caught[0].message)
    assert [1, "aten::exp", "CPU", "the GPU has no float64"] in left()


@wide
def test_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.ones(2, device="cuda").dtype is torch.float64
        assert nn.Linear(2, 2, device="cuda")(torch.ones(2, device="cuda")).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@wide
def test_data_changes_the_dtype_both_ways() -> None:
    layer = nn.Linear(2, 2).cuda()
    weight = layer.weight
    weight.data = weight.data.double()
    assert (weight.dtype, (weight + 1).dtype) == (torch.float64, torch.float64)
    weight.data = weight.data.float()
    assert type(weight) is nn.Parameter
    assert (weight.dtype, (weight + 1).dtype) == (torch.float32, torch.float32)
    assert layer.double().float().weight is weight


@wide
@pytest.mark.skipif(torch_release(torch.__version__) < (2, 13), reason="its compiler does not take such a class apart")
def test_compiled_functions_take_it() -> None:
    x = _numbers(4, device="cuda")
    _same(torch.compile(lambda a: (a * 2).sin().sum(), backend="aot_eager")(x), (x.cpu() * 2).sin().sum())


@wide
def test_between_processes() -> None:
    torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        x, gathered = _numbers(3, device="cuda"), [torch.zeros(3, dtype=torch.float64, device="cuda")]
        torch.distributed.all_reduce(x)
        torch.distributed.all_gather(gathered, x)
        _same(gathered, [_numbers(3, device="cpu")])
    finally:
        torch.distributed.destroy_process_group()


@wide
def test_unsupported_float64_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"no float64, and this one is of layout torch.sparse_coo: make it"):
        _numbers(3, device="cuda").to_sparse()


@child(MPS_FAITHFUL.with_settings(float64="cpu"), MPS_FAITHFUL.with_settings(float64="cpu", policy="accelerate"))
def test_queues() -> None:
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    queue.put(nn.Parameter(_numbers(3, device="cuda")))
    taken = queue.get()
    assert taken.is_cuda
    assert isinstance(taken, nn.Parameter)
    assert taken.tolist() == _numbers(3, device="cuda").tolist()


@child(MPS_FAITHFUL.with_settings(float64="cpu", policy="accelerate"))
def test_requests_for_the_cpu_under_accelerate() -> None:
    layer = nn.Linear(2, 2, dtype=torch.float64)
    made = layer(torch.ones(2, dtype=torch.float64)) + torch.tensor(1 / 3, dtype=torch.float64)
    made.sum().backward()
    assert made.dtype is torch.float64
    assert layer.weight.grad.tolist() == [[1, 1], [1, 1]]
    assert made.detach().numpy().tolist() == made.tolist()
    assert made.detach().cpu().tolist() == made.tolist()
    assert torch.ones(2, dtype=torch.complex128).cuda().to("cuda").dtype is torch.complex128
    assert layer.float().weight.dtype is torch.float32
