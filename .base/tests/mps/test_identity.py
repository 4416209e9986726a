"""The program sees CUDA, torch sees the truth."""

from __future__ import annotations

from collections.abc import Callable

SEEN = """
x = torch.ones(2, device="cuda", requires_grad=True)
p = torch.nn.Linear(2, 2).cuda().weight
exec("def inside(x): return str(x.device), x.is_cuda, x.is_mps", within := {"__name__": "torch.some.module"})
exec("def outside(x): return str(x.device), x.is_cuda, x.is_mps", without := {"__name__": "torchvision.models"})
result = {
    "tensor": [str(x.device), x.is_cuda, x.is_mps, x.get_device(), x.type(), repr(x.detach())],
    "parameter": [str(p.device), p.is_cuda], "result": str((x * 2).device), "cpu": str(torch.ones(1).device),
    "storage": [str(x.untyped_storage().device), x.untyped_storage().is_cuda],
    "torch": within["inside"](x), "others": without["outside"](x), "loss": str(x.sum().device),
    "default": str(torch.get_default_device()), "equal": x.device == torch.device("cuda:0"),
    "meets": torch.zeros(2, device=x.device).is_cuda,
}
"""


def test_cuda(on_mps: Callable) -> None:
    seen = on_mps(SEEN)
    assert seen["tensor"] == ["cuda:0", True, False, 0, "torch.cuda.FloatTensor", "tensor([1., 1.], device='cuda:0')"]
    assert seen["parameter"] == ["cuda:0", True] and seen["result"] == seen["loss"] == "cuda:0"
    assert seen["storage"] == ["cuda:0", True]
    assert seen["cpu"] == seen["default"] == "cpu"
    assert seen["torch"] == ["mps:0", False, True]
    assert seen["others"] == ["cuda:0", True, False]
    assert seen["equal"] and seen["meets"]


def test_native(on_mps: Callable) -> None:
    body = """
    x = torch.ones(2, device="cuda")
    result = [str(x.device), x.is_cuda, x.is_mps, repr(x), sorted({"device", "is_cuda"} & set(vars(torch.Tensor)))]
    """
    assert on_mps(body, identity="native") == ["mps:0", False, True, "tensor([1., 1.], device='mps:0')", []]


def test_nothing_on_other_attributes(on_mps: Callable) -> None:
    assert on_mps('result = sorted({"shape", "dtype", "grad", "ndim", "data"} & set(vars(torch.Tensor)))') == []


def test_compile_and_script(on_mps: Callable) -> None:
    body = """
    def f(x):
        y = torch.zeros(2, device=x.device) + x
        return y * 2 if x.is_cuda or x.device.type != "cpu" else y
    @torch.jit.script
    def g(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(2, device=x.device) + x
    x = torch.ones(2, device="cuda")
    result = [torch.compile(f, backend="eager")(x).tolist(), torch.compile(f, backend="aot_eager")(x).tolist(),
              g(x).tolist(), str(g(x).device), torch.jit.trace(lambda t: t * 2, x)(x).tolist()]
    """
    assert on_mps(body) == [[2, 2], [2, 2], [1, 1], "cuda:0", [2, 2]]


def test_compiled_code_sees_what_the_program_sees(on_mps: Callable, order: str) -> None:
    """torch.compile folds the device into the graph: compiled and not, the same branch is taken."""
    body = """
    def by_type(x): return x * 2 if x.device.type == "cuda" else x * 3
    def by_flag(x): return x * 2 if x.is_cuda and not x.is_mps else x * 3
    def by_device(x): return torch.zeros(2, device=x.device) + x if x.device == torch.device("cuda:0") else x * 5
    class Net(torch.nn.Module):
        def __init__(self): super().__init__(); self.inner = torch.nn.Linear(2, 2)
        def forward(self, x): return self.inner(x.to(self.inner.weight.device)) if self.inner.weight.is_cuda else x * 9
    x, net = torch.ones(2, device="cuda"), Net().cuda()
    result = [torch.equal(f(x), torch.compile(f, backend=backend, fullgraph=True)(x))
              for f in (by_type, by_flag, by_device, net) for backend in ("eager", "aot_eager")]
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(x)
        result += [str(fake.device) == str((fake + 1).device) == "cuda:0", fake.is_cuda]
    """
    assert on_mps(body, order=order) == [True] * 10


def test_torch_functions_of_subclasses(on_mps: Callable) -> None:
    body = """
    seen = []
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", "?"))
            return super().__torch_function__(func, types, args, kwargs)
    x = torch.ones(2, device="cuda").as_subclass(Logged)
    result = [str(x.device), x.is_cuda, "__get__" in seen]
    """
    assert on_mps(body) == ["cuda:0", True, True]


def test_checkpoints_are_cudas(on_mps: Callable) -> None:
    body = """
    import io, zipfile
    file = io.BytesIO(); torch.save({"w": torch.arange(3.0, device="cuda")}, file)
    with zipfile.ZipFile(file) as archive:
        names = [n for n in archive.namelist() if n.endswith("data.pkl")]
        tagged = b"cuda:0" in archive.read(names[0])
    file.seek(0); back = torch.load(file)["w"]
    file.seek(0); home = torch.load(file, map_location="cpu")["w"]
    result = [tagged, str(back.device), back.tolist(), str(home.device)]
    """
    assert on_mps(body) == [True, "cuda:0", [0, 1, 2], "cpu"]


def test_libraries_find_cuda_and_not_mps(on_mps: Callable) -> None:
    body = """
    exec("import torch; ask = lambda: torch.backends.mps.is_available()", within := {"__name__": "torch.inner"})
    mps = torch.backends.mps
    result = [mps.is_available(), mps.is_built(), torch.cuda.is_available(), within["ask"]()]
    """
    assert on_mps(body) == [False, False, True, True]
    assert on_mps(body, identity="native") == [True, True, True, True]
