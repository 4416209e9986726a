"""Every entry point that names a device, on the ``cpu`` driver. A case asserts; there CUDA's results are the CPU's."""

from __future__ import annotations

import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

CPU = torch.device("cpu")
ARGUMENTS: dict[str, tuple[tuple, dict[str, Any]]] = {
    "_efficientzerotensor": (((2,),), {}),
    "arange": ((3,), {}),
    "as_tensor": (([1.0, 2.0],), {}),
    "asarray": (([1.0, 2.0],), {}),
    "bartlett_window": ((4,), {}),
    "blackman_window": ((4,), {}),
    "empty": ((2,), {}),
    "empty_permuted": (((2, 3), (1, 0)), {}),
    "empty_strided": (((2, 3), (1, 2)), {}),
    "eye": ((2,), {}),
    "fft_fftfreq": ((4,), {}),
    "fft_rfftfreq": ((4,), {}),
    "full": (((2,), 3.0), {}),
    "hamming_window": ((4,), {}),
    "hann_window": ((4,), {}),
    "kaiser_window": ((4,), {}),
    "linspace": ((0, 1, 3), {}),
    "logspace": ((0, 1, 3), {}),
    "nested_tensor": (([torch.ones(2), torch.ones(3)],), {}),
    "normal": ((0.0, 1.0, (2,)), {}),
    "ones": ((2,), {}),
    "rand": ((2,), {}),
    "randint": ((5, (2,)), {}),
    "randn": ((2,), {}),
    "randperm": ((4,), {}),
    "range": ((0, 3), {}),
    "scalar_tensor": ((2.0,), {}),
    "sparse_bsc_tensor": (([0, 1], [0], [[[1.0]]]), {"size": (1, 1)}),
    "sparse_bsr_tensor": (([0, 1], [0], [[[1.0]]]), {"size": (1, 1)}),
    "sparse_compressed_tensor": (([0, 1], [0], [1.0]), {"size": (1, 1), "layout": torch.sparse_csr}),
    "sparse_coo_tensor": (([[0]], [1.0], (1,)), {}),
    "sparse_csc_tensor": (([0, 1], [0], [1.0]), {"size": (1, 1)}),
    "sparse_csr_tensor": (([0, 1], [0], [1.0]), {"size": (1, 1)}),
    "tensor": (([1.0, 2.0],), {}),
    "tril_indices": ((2, 2), {}),
    "triu_indices": ((2, 2), {}),
    "zeros": ((2,), {}),
    "empty_quantized": (((2,), torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)), {}),
    "_empty_affine_quantized": (((2,),), {"scale": 1.0, "zero_point": 0, "dtype": torch.quint8}),
}
UNDEFINED = ("empty", "empty_permuted", "empty_strided", "empty_quantized", "_empty_affine_quantized")
REQUESTS = ("cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0), 0, "mps", "mps:0", "cpu", "cpu:0", b"cuda")


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal in everything: values, data type, layout, device."""
    if (one.dtype, one.layout, one.device) != (other.dtype, other.layout, other.device):
        return False
    if one.is_nested:
        return all(torch.equal(a, b) for a, b in zip(one.unbind(), other.unbind(), strict=True))
    dense = [t.to_dense() if t.layout is not torch.strided else t for t in (one, other)]
    return torch.equal(*dense)


def refused(call: Any, *kinds: type[BaseException]) -> str:
    """The text of the error that a call raises."""
    try:
        call()
    except kinds as error:
        return str(error)
    raise AssertionError("no error")


def on_cuda(tensor: torch.Tensor) -> bool:
    """Whether a tensor counts as CUDA's: then asking for CUDA moves nothing."""
    return tensor.cuda() is tensor


# --------------------------------------------------------------------------- factories
def case_every_constructor() -> None:
    from torch.utils._device import _device_constructors

    # The set has originals and wrappers; the wrappers are what torch offers.
    offered = {id(v) for m in (torch, torch.fft, torch.nested) for v in vars(m).values() if callable(v)}
    found = {f.__name__: f for f in _device_constructors() if id(f) in offered}
    assert len(found) > 35, sorted(found)
    unknown = set(found) - set(ARGUMENTS) - {"vander", "complex", "from_file"}
    assert not unknown, f"give arguments for {unknown}"
    for name in ARGUMENTS:
        if name in ("normal", "_efficientzerotensor", "_empty_affine_quantized"):
            found.setdefault(name, getattr(torch, name))
    for name, function in found.items():
        if name not in ARGUMENTS:
            continue
        args, kwargs = ARGUMENTS[name]
        for request in REQUESTS:
            torch.manual_seed(7)
            made = function(*args, **kwargs, device=request)
            assert made.device == CPU, (name, request)
            if name in UNDEFINED:
                continue
            torch.manual_seed(7)
            assert same(made, function(*args, **kwargs)), (name, request)
        if made.layout is torch.strided and not made.is_nested:
            assert on_cuda(function(*args, **kwargs, device="cuda")), name
            assert not on_cuda(function(*args, **kwargs)), name


def case_likes() -> None:
    for x in (torch.ones(2, 3), torch.ones(2, 3, device="cuda")):
        for name, more in (
            ("zeros_like", ()),
            ("ones_like", ()),
            ("full_like", (2.0,)),
            ("rand_like", ()),
            ("randn_like", ()),
            ("randint_like", (5,)),
            ("empty_like", ()),
        ):
            function = getattr(torch, name)
            for request in REQUESTS:
                made = function(x, *more, device=request, dtype=torch.float64)
                assert made.shape == x.shape and made.dtype is torch.float64 and made.device == CPU, (name, request)
            assert on_cuda(function(x, *more)) == on_cuda(x), f"{name} is where its model is"
            assert on_cuda(function(x, *more, device="cuda")) and not on_cuda(function(x, *more, device="cpu"))
    assert torch.zeros_like(input=torch.ones(2), device="cuda").tolist() == [0.0, 0.0]


def case_normal_forms() -> None:
    torch.manual_seed(1)
    first = torch.normal(0.0, 1.0, (3,), device="cuda")
    torch.manual_seed(1)
    assert torch.equal(first, torch.normal(0.0, 1.0, (3,)))
    mean = torch.zeros(2, device="cuda")
    assert torch.normal(mean, 1.0).shape == torch.normal(0.0, torch.ones(2)).shape == (2,)


def case_host_data() -> None:
    numpy = __import__("numpy")
    array = numpy.arange(3.0)
    assert torch.from_numpy(array).data_ptr() == array.ctypes.data
    assert torch.frombuffer(bytearray(8), dtype=torch.float32).tolist() == [0.0, 0.0]
    for function in (torch.as_tensor, torch.asarray, torch.tensor):
        for moved in (function(array, device="cuda"), function(torch.from_numpy(array), device="cuda")):
            moved.add_(1)
            assert array.tolist() == [0.0, 1.0, 2.0], f"{function.__name__} to another device is a copy"
            assert on_cuda(moved)
    there = torch.ones(2, device="cuda")
    assert torch.as_tensor(there, device="cuda") is there and torch.as_tensor(there) is there
    assert torch.asarray(there, device="cuda").data_ptr() == there.data_ptr()
    assert torch.as_tensor(there, device="cpu").data_ptr() != there.data_ptr()
    here = torch.ones(2)
    assert torch.as_tensor(here, device="cpu") is here
    assert torch.as_tensor([1, 2], dtype=torch.float64, device=torch.device("cuda:0")).dtype is torch.float64
    refused(lambda: torch.as_tensor([1, 2], torch.float64, "cuda"), TypeError)  # both by name only, as with stock torch
    assert "alias" in refused(lambda: torch.asarray(here, device="cuda", copy=False), ValueError)
    assert torch.tensor(there, device="cuda").data_ptr() != there.data_ptr()


def case_from_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "data"))
        Path(path).write_bytes(torch.arange(3.0).numpy().tobytes())
        for request in (None, "cuda", torch.device("cuda:0"), "cpu"):
            assert torch.from_file(path, size=3, device=request).tolist() == [0.0, 1.0, 2.0]


def case_random_draws_from_cudas_generator() -> None:
    torch.manual_seed(3)
    a = torch.rand(4, device="cuda")
    host = torch.get_rng_state()
    b = torch.rand(4, device="cuda")
    assert torch.equal(host, torch.get_rng_state()), "drawing for CUDA leaves the CPU's sequence alone"
    assert not torch.equal(a, b)
    torch.cuda.manual_seed(3)
    assert torch.equal(a, torch.rand(4, device="cuda")), "CUDA's seed repeats it"
    mine = torch.Generator(device="cuda").manual_seed(5)
    c = torch.randn(4, device="cuda", generator=mine)
    mine.manual_seed(5)
    assert torch.equal(c, torch.randn(4, device="cuda", generator=mine))
    state = torch.cuda.get_rng_state()
    d = torch.randperm(9, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(d, torch.randperm(9, device="cuda"))
    torch.cuda.set_rng_state(state)
    assert torch.rand_like(a).shape == (4,) and not torch.equal(torch.cuda.get_rng_state(), state)


# ------------------------------------------------------------------------------ moves
def case_to_overloads() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    other = torch.zeros(1, dtype=torch.float64)
    for target in ("cuda", "cuda:0", torch.device("cuda"), 0, "mps"):
        for moved in (
            x.to(target),
            x.to(device=target),
            x.to(target, non_blocking=True),
            x.to(target, copy=True),
            x.to(target, memory_format=torch.preserve_format),
            x.to(device=target, non_blocking=False, copy=False),
        ):
            assert torch.equal(moved, x) and moved.dtype is x.dtype
            assert moved.data_ptr() != x.data_ptr() or target == "mps"
        for moved in (
            x.to(target, torch.float64),
            x.to(target, dtype=torch.float64),
            x.to(device=target, dtype=torch.float64),
            x.to(target, torch.float64, True),
            x.to(target, torch.float64, False, True),
            x.to(dtype=torch.float64, device=target, copy=True),
        ):
            assert moved.dtype is torch.float64 and moved.tolist() == x.tolist()
    assert x.to(torch.float64).dtype is torch.float64 and x.to(torch.float32) is x
    assert x.to(torch.float16, True).dtype is torch.float16
    assert x.to(torch.float32, copy=True) is not x and x.to(dtype=torch.int64).dtype is torch.int64
    assert x.to(other).dtype is torch.float64 and x.to(other, non_blocking=True).dtype is torch.float64
    assert x.to(x) is x and x.to(None, torch.float64).dtype is torch.float64
    assert x.to(tensor=other).dtype is torch.float64
    four = torch.ones(1, 2, 3, 4)
    assert four.to("cuda", memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
    assert x.t().to("cuda").stride() == x.t().stride()


def case_to_like_another_tensor() -> None:
    here, there = torch.ones(2), torch.ones(1, dtype=torch.float64, device="cuda")
    moved = here.to(there)
    assert on_cuda(moved) and moved.dtype is torch.float64
    same_type = here.to(torch.ones(1, device="cuda"))
    same_type.add_(1)
    assert here.tolist() == [1.0, 1.0], "a move to another tensor's device is a copy too"
    assert there.to(there) is there


def case_copies_between_cuda_and_cpu() -> None:
    c = torch.zeros(3)
    g = c.cuda()
    g.add_(1)
    h = g.cpu()
    g.add_(1)
    assert (c.tolist(), h.tolist(), g.tolist()) == ([0.0] * 3, [1.0] * 3, [2.0] * 3)
    assert g.cuda() is g and g.to("cuda") is g and g.to("cuda:0") is g and g.to(0) is g and g.cuda(0) is g
    assert g.to("cuda", copy=True) is not g and g.to(device="cuda") is g
    assert c.cpu() is c and c.to("cpu") is c and g.to("cpu") is not g
    assert g.cuda(non_blocking=True) is g and g.cuda(torch.device("cuda")) is g and g.cuda("cuda:0") is g
    assert g.type("torch.FloatTensor").data_ptr() != g.data_ptr()
    leaf = torch.ones(2, requires_grad=True)
    (leaf.cuda() * 3).sum().backward()
    assert leaf.grad.tolist() == [3.0, 3.0] and not leaf.cuda().is_leaf
    wide = torch.ones(1, 2, 3, 4).cuda(memory_format=torch.channels_last)
    assert wide.is_contiguous(memory_format=torch.channels_last)
    assert g.cpu(memory_format=torch.contiguous_format).is_contiguous()


def case_cuda_wants_a_cuda_device() -> None:
    x = torch.ones(2)
    assert "must be cuda device but got cpu" in refused(lambda: x.cuda("cpu"), RuntimeError)
    assert "invalid device ordinal" in refused(lambda: x.cuda(5), RuntimeError)
    refused(lambda: x.cuda(nonsense=1), TypeError)
    refused(lambda: x.cuda(0, True, torch.preserve_format, 1), TypeError)


def case_new() -> None:
    for x in (torch.ones(2), torch.ones(2, device="cuda")):
        makers = {
            "new_zeros": (3,),
            "new_ones": (3,),
            "new_empty": (3,),
            "new_full": ((3,), 2.0),
            "new_tensor": ([1.0],),
            "new_empty_strided": ((2, 3), (1, 2)),
        }
        for name, args in makers.items():
            make = getattr(x, name)
            for request in REQUESTS:
                assert make(*args, device=request, dtype=torch.float64).dtype is torch.float64, (name, request)
            assert on_cuda(make(*args)) == on_cuda(x) and on_cuda(make(*args, device="cuda")), name


def case_type() -> None:
    x = torch.ones(2)
    assert x.type() == "torch.FloatTensor" and x.type(torch.float64).dtype is torch.float64
    for kind in ("torch.cuda.DoubleTensor", torch.cuda.DoubleTensor):
        moved = x.type(kind)
        assert moved.dtype is torch.float64 and on_cuda(moved)
    assert x.type("torch.IntTensor").dtype is torch.int32 and x.type(torch.LongTensor).dtype is torch.int64


def case_pinning_and_record_stream() -> None:
    x = torch.ones(2)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned
    assert torch.zeros(2, pin_memory=True).is_pinned() and not torch.zeros(2, pin_memory=False).is_pinned()
    assert torch.zeros_like(x, pin_memory=True).is_pinned()
    assert "dense CPU tensors can be pinned" in refused(lambda: x.cuda().pin_memory(), RuntimeError)
    assert "can be pinned" in refused(lambda: torch.zeros(2, device="cuda", pin_memory=True), RuntimeError)
    assert pinned.to("cuda", non_blocking=True).tolist() == [1.0, 1.0]
    assert x.cuda().record_stream(torch.cuda.current_stream()) is None
    refused(lambda: x.cuda().record_stream(3), RuntimeError)


def case_numpy() -> None:
    numpy = __import__("numpy")
    x = torch.ones(2, device="cuda")
    assert x.cpu().numpy().tolist() == [1.0, 1.0] and numpy.asarray(x.cpu()).shape == (2,)
    assert torch.from_dlpack(x.cpu()).tolist() == [1.0, 1.0]


# ----------------------------------------------------------------- generators, storages
def case_generator_is_a_class() -> None:
    made = torch.Generator(device="cuda")
    assert isinstance(torch.Generator, type) and isinstance(made, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator) and issubclass(type(made), torch.Generator)
    assert torch.Generator().device == CPU and torch.Generator("cpu").manual_seed(1).initial_seed() == 1
    assert made.manual_seed(9) is made and made.initial_seed() == 9
    assert isinstance(torch.cuda.default_generators[0], torch.Generator)
    assert torch.Generator.__name__ == "Generator"
    refused(lambda: torch.Generator(device="nowhere"), RuntimeError)


def case_storages() -> None:
    made = torch.UntypedStorage(8, device="cuda")
    assert made.nbytes() == 8 and isinstance(made, torch.UntypedStorage)
    x = torch.ones(2)
    for moved in (x.untyped_storage().cuda(), x.untyped_storage().to(device="cuda")):
        moved.fill_(0)
        assert x.tolist() == [1.0, 1.0] and moved.nbytes() == 8
    assert x.cuda().untyped_storage().cpu().nbytes() == 8


# ----------------------------------------------------------------------------- modules
def case_modules() -> None:
    for call in (
        lambda m: m.cuda(),
        lambda m: m.cuda(0),
        lambda m: m.to("cuda"),
        lambda m: m.to(device="cuda:0"),
        lambda m: m.to(torch.device("cuda")),
        lambda m: m.to(0),
        lambda m: m.to("cuda", torch.float32, True),
        lambda m: m.cpu(),
        lambda m: m.to("cpu"),
        lambda m: m.to(torch.ones(1)),
    ):
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        parameter = model[0].weight
        assert call(model) is model and model[0].weight is parameter and parameter.is_leaf
        assert model(torch.ones(2, 2, device="cuda")).shape == (2, 2)
    assert nn.Linear(2, 2).to(torch.float16).weight.dtype is torch.float16
    assert nn.Linear(2, 2).to("cuda", torch.float64).weight.dtype is torch.float64
    assert nn.Linear(2, 2).to("cuda", dtype=torch.float64, non_blocking=True).weight.dtype is torch.float64
    assert nn.Conv2d(1, 1, 1).to(memory_format=torch.channels_last).weight.shape == (1, 1, 1, 1)
    assert nn.Linear(2, 2, device="cuda").weight.device == CPU
    empty = nn.Linear(2, 2, device="meta").to_empty(device="cuda")
    assert empty.weight.device == CPU and empty.to_empty(device=0).weight.shape == (2, 2)
    refused(lambda: nn.Linear(1, 1).to("cuda:7"), RuntimeError)
    refused(lambda: nn.Linear(1, 1).to(torch.int64), TypeError)
    nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(2))).cuda()


def case_training_equals_stock_cpu() -> None:
    def train(device: Any) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
        x, y = torch.ones(4, 4).to(device), torch.zeros(4, 1, device=device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    assert train("cuda") == train("cpu") == train(torch.device("cuda", 0))


def case_packed_sequences() -> None:
    from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

    packed = pack_padded_sequence(torch.ones(3, 2, 4), torch.tensor([3, 2]))
    for moved in (
        packed.cuda(),
        packed.to("cuda"),
        packed.to(torch.device("cuda:0")),
        packed.cuda(0),
        packed.to(torch.float64),
        packed.cuda().cpu(),
        packed.to("cuda", dtype=torch.float64),
        packed.pin_memory(),
    ):
        assert type(moved) is PackedSequence and moved.batch_sizes.tolist() == packed.batch_sizes.tolist()
        assert pad_packed_sequence(moved)[1].tolist() == [3, 2]
    output, _ = nn.LSTM(4, 5).cuda()(packed.cuda())
    assert type(output) is PackedSequence


def case_data_parallel() -> None:
    model = nn.DataParallel(nn.Linear(2, 2).cuda())
    model(torch.ones(4, 2, device="cuda")).sum().backward()
    assert (
        model.module.weight.grad is not None and nn.DataParallel(nn.Linear(2, 2).cuda(), [0])(torch.ones(1, 2)).numel()
    )


# ----------------------------------------------------------------------------- loading
def _saved(value: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def case_load_map_locations() -> None:
    state = {"x": torch.arange(3.0, device="cuda"), "n": 1, "s": "cuda:0"}
    seen: list[str] = []

    def callback(storage: Any, location: str) -> Any:
        seen.append(location)
        return storage

    for location in (
        None,
        "cpu",
        "cuda",
        "cuda:0",
        torch.device("cuda"),
        torch.device("cpu"),
        {"cuda:0": "cpu"},
        {"cpu": "cuda:0"},
        callback,
        lambda storage, where: storage.cuda(),
        lambda storage, where: storage.cuda(0),
    ):
        loaded = torch.load(_saved(state), map_location=location)
        assert loaded["x"].tolist() == [0.0, 1.0, 2.0] and loaded["s"] == "cuda:0", location
        assert loaded["x"].device == CPU
    assert seen
    assert "device" in refused(lambda: torch.load(_saved(state), map_location="cuda:9"), RuntimeError)


def case_load_written_on_cuda() -> None:
    """A checkpoint whose storages are tagged "cuda:0", as a GPU writes them."""
    from torch import serialization

    serialization._package_registry.insert(0, (1, lambda storage: "cuda:0", lambda storage, location: None))
    try:
        text = _saved({"x": torch.arange(3.0)}).getvalue()
    finally:
        serialization._package_registry.pop(0)
    assert b"cuda:0" in text
    assert torch.load(io.BytesIO(text))["x"].tolist() == [0.0, 1.0, 2.0]
    assert torch.load(io.BytesIO(text), map_location="cpu")["x"].device == CPU
    assert torch.load(io.BytesIO(text), weights_only=False)["x"].device == CPU


def case_load_from_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cuda.pt")
        torch.save(nn.Linear(2, 2).cuda().state_dict(), path)
        for options in ({}, {"mmap": True}, {"mmap": True, "map_location": "cuda"}, {"map_location": "cuda"}):
            assert set(torch.load(path, **options)) == {"weight", "bias"}, options
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), str(Path(folder, "cuda.jit")))
        for location in ("cuda", torch.device("cuda:0"), "cpu", None):
            assert torch.jit.load(str(Path(folder, "cuda.jit")), map_location=location)(torch.ones(1, 2)).shape == (
                1,
                2,
            )


def case_load_weights_only_by_default() -> None:
    refused(lambda: torch.load(_saved(Path("cuda"))), Exception)
    assert torch.load(_saved(Path("cuda")), weights_only=False) == Path("cuda")


# ---------------------------------------------------------------------------- defaults
def case_default_device() -> None:
    try:
        for request in ("cuda", "cuda:0", torch.device("cuda"), "mps"):
            torch.set_default_device(request)
            made = [torch.zeros(2), torch.tensor([1.0]), torch.arange(2), nn.Linear(2, 2).weight, torch.rand(2)]
            assert all(t.device == CPU for t in made)
            assert on_cuda(torch.zeros(2)) == ("cuda" in str(request))
    finally:
        torch.set_default_device(None)
    assert not on_cuda(torch.zeros(2)) and torch.get_default_device() == CPU


def case_device_contexts() -> None:
    with torch.device("cuda"):
        assert on_cuda(torch.zeros(2)) and on_cuda(torch.full((1,), 2.0)) and not on_cuda(torch.zeros(2, device="cpu"))
        with torch.device("meta"):
            assert torch.zeros(2).is_meta and torch.empty(3, device="cuda").device == CPU
        assert on_cuda(torch.zeros(2)) and nn.Linear(2, 2).weight.device == CPU
        with torch.device("cpu"):
            assert not on_cuda(torch.zeros(2))
    assert not on_cuda(torch.zeros(2))
    with torch.cuda.device(0):
        assert torch.zeros(2, device="cuda").device == CPU


def case_default_tensor_type_and_dtype() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.set_default_tensor_type(torch.cuda.DoubleTensor)
            assert torch.zeros(1).dtype is torch.float64
            torch.set_default_tensor_type("torch.cuda.HalfTensor")
            assert torch.zeros(1, device="cuda").dtype is torch.float16
        finally:
            torch.set_default_tensor_type(torch.FloatTensor)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.zeros(1, device="cuda").dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def case_legacy_classes() -> None:
    x = torch.cuda.FloatTensor([1.0, 2.0])
    assert x.tolist() == [1.0, 2.0] and on_cuda(x) and torch.cuda.LongTensor(2, 3).shape == (2, 3)
    assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.DoubleTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor) and isinstance(x, torch.Tensor)
    assert torch.cuda.HalfTensor(2).dtype is torch.float16 and torch.cuda.FloatTensor().numel() == 0
    assert isinstance(torch.zeros(1, device="cuda"), torch.cuda.FloatTensor)


# ---------------------------------------------------------------------------- autocast
def case_autocast() -> None:
    x = torch.ones(4, 4, device="cuda")
    for context in (
        torch.autocast("cuda"),
        torch.amp.autocast("cuda", dtype=torch.float16),
        torch.autocast(device_type="cuda", dtype=torch.bfloat16),
    ):
        with context:
            assert torch.is_autocast_enabled("cuda") and torch.is_autocast_enabled()
            assert not torch.is_autocast_enabled("cpu")
            dtype = torch.get_autocast_dtype("cuda")
            assert (x @ x).dtype is dtype and nn.functional.linear(x, x).dtype is dtype
            assert (x @ x).softmax(-1).dtype is torch.float32
            assert nn.functional.mse_loss(x @ x, x).dtype is torch.float32
            with torch.autocast("cuda", enabled=False):
                assert (x @ x).dtype is torch.float32
            assert (x @ x).dtype is dtype
        assert not torch.is_autocast_enabled("cuda") and (x @ x).dtype is torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype is torch.bfloat16 and torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_enabled("cuda")

    @torch.autocast("cuda")
    def decorated() -> torch.dtype:
        return (x @ x).dtype

    assert decorated() is torch.float16


class _Custom(torch.autograd.Function):
    seen: list[Any] = []

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        _Custom.seen.append((x.dtype, torch.is_autocast_enabled("cuda")))
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        _Custom.seen.append((grad.dtype, torch.is_autocast_enabled("cuda")))
        return grad * 2


def case_custom_forward_and_backward() -> None:
    _Custom.seen.clear()
    x = torch.ones(2, device="cuda", dtype=torch.float16, requires_grad=True)
    with torch.autocast("cuda"):
        _Custom.apply(x).sum().backward()
    assert _Custom.seen == [(torch.float32, False), (torch.float32, False)], _Custom.seen
    assert x.grad.tolist() == [2.0, 2.0]


def case_grad_scaler_cycle() -> None:
    for make in (torch.amp.GradScaler, torch.cuda.amp.GradScaler):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kwargs = {"init_scale": 8.0, "growth_interval": 2, "growth_factor": 2.0, "backoff_factor": 0.5}
            scaler = make("cuda", **kwargs) if make is torch.amp.GradScaler else make(**kwargs)
        weight = nn.Parameter(torch.ones(2, device="cuda"))
        optimizer = torch.optim.SGD([weight], lr=0.5)

        def step(factor: float, scaler: Any = scaler, weight: Any = weight, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            scaler.scale((weight * factor).sum()).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_([weight], 1e9)
            scaler.step(optimizer)
            scaler.update()

        assert scaler.is_enabled() and scaler.get_scale() == 8.0
        step(1.0)
        assert weight.tolist() == [0.5, 0.5] and scaler.get_scale() == 8.0
        step(float("inf"))
        assert weight.tolist() == [0.5, 0.5], "a step with infinite gradients is skipped"
        assert scaler.get_scale() == 4.0, "and the scale backs off"
        step(1.0)
        step(1.0)
        assert weight.tolist() == [-0.5, -0.5] and scaler.get_scale() == 8.0, "two good steps let it grow"
        other = torch.amp.GradScaler("cuda")
        other.load_state_dict(scaler.state_dict())
        assert other.get_scale() == 8.0


# ------------------------------------------------------------------------------ random
def case_fork_rng() -> None:
    torch.manual_seed(1)
    host, device = torch.get_rng_state(), torch.cuda.get_rng_state()
    for options in ({}, {"devices": [0]}, {"devices": ["cuda:0"]}, {"device_type": "cuda"}):
        with torch.random.fork_rng(**options):
            torch.rand(2), torch.rand(2, device="cuda"), torch.cuda.manual_seed(5)
        assert torch.equal(host, torch.get_rng_state()) and torch.equal(device, torch.cuda.get_rng_state()), options
    states = torch.cuda.get_rng_state_all()
    first = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state_all(states)
    assert torch.equal(first, torch.rand(3, device="cuda"))


# ------------------------------------------------------------------------- accelerator
def case_accelerator() -> None:
    a = torch.accelerator
    assert a.is_available() and a.current_accelerator() == torch.device("cuda") and a.device_count() == 1
    assert a.current_device_index() == 0 and a.synchronize() is None and a.set_device_index(0) is None
    assert a.current_stream() is not None
    assert torch.get_device_module() is torch.cuda and torch.get_device_module("cuda") is torch.cuda
    assert torch.get_device_module(torch.device("cuda:0")) is torch.cuda and torch.get_device_module("cpu") is torch.cpu
    assert torch.zeros(1, device=0).device == CPU and torch.zeros(1, device=a.current_accelerator()).device == CPU


def case_dataloader_pins() -> None:
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(6.0), torch.arange(6))
    for options in ({}, {"pin_memory_device": "cuda"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batches = list(DataLoader(data, batch_size=3, pin_memory=True, **options))
        assert all(x.is_pinned() and y.is_pinned() for x, y in batches) and len(batches) == 2
    moved = [x.cuda(non_blocking=True) for x, _ in DataLoader(data, batch_size=3, pin_memory=True)]
    assert torch.cat(moved).tolist() == list(range(6))


def case_optimizer_options() -> None:
    cases = [
        (torch.optim.Adam, {"fused": True}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.SGD, {"fused": True}),
        (torch.optim.Adam, {"capturable": True}),
        (torch.optim.Adam, {"foreach": True}),
        (torch.optim.RMSprop, {"capturable": True}),
        (torch.optim.NAdam, {"capturable": True}),
    ]
    for make, options in cases:
        weight = nn.Parameter(torch.ones(3, device="cuda"))
        optimizer = make([weight], lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
        assert weight.detach().max() < 1, (make, options)
        other = make([weight], lr=0.1, **options)
        other.load_state_dict(optimizer.state_dict())


def case_checkpoint() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).cuda()
    for reentrant in (True, False):
        x = torch.ones(2, 4, device="cuda", requires_grad=True)
        checkpoint(layer, x, use_reentrant=reentrant, preserve_rng_state=True).sum().backward()
        assert x.grad is not None


def case_profiler() -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as run:
        torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")
    assert "aten::mm" in run.key_averages().table(sort_by="cpu_time_total")


def case_out_of_memory_is_cudas_error() -> None:
    text = refused(lambda: torch.empty(1 << 60, device="cuda", dtype=torch.uint8), torch.cuda.OutOfMemoryError)
    assert text.startswith("CUDA out of memory. Tried to allocate"), text
    text = refused(lambda: torch.empty(1 << 60, dtype=torch.uint8), RuntimeError)
    assert "DefaultCPUAllocator" in text


def case_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(number: int) -> bool:
        for _ in range(200):
            x = torch.full((3,), float(number), device="cuda")
            y = x.cpu()
            x.add_(1)
            if y.tolist() != [number] * 3 or x.cuda() is not x or y.cuda() is y:
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
