"""What a program sees on the Apple GPU is what it sees on CUDA: the same questions to the virtual GPU, which is one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

SETUP = """
import copy, io, json, pickle, warnings
from torch.nn import parallel
warnings.simplefilter("ignore")
x, c, linear = torch.ones(2, 2, device="cuda"), torch.ones(2, 2), torch.nn.Linear(2, 2).cuda()
class Sub(torch.Tensor): pass
def refusal(make):
    try:
        return ["none", str(make())]
    except Exception as error:
        return [type(error).__name__, str(error)]
def saved(value, **options):
    file = io.BytesIO(); torch.save(value, file, **options); return file.getvalue()
def loaded(value, **options): return torch.load(io.BytesIO(saved(value)), **options)
def stepped():
    model = torch.nn.Linear(2, 2).cuda(); optimizer = torch.optim.AdamW(model.parameters()); model(x).sum().backward()
    optimizer.step(); return model, optimizer
def hooked():
    seen, t = [], torch.ones(2, device="cuda", requires_grad=True)
    t.register_hook(lambda g: seen.append(str(g.device))); (t * 2).sum().backward(); return seen
def under(context, ask):
    with context: return ask()
def within(function):
    seen = []; function(lambda t: (seen.append([str(t.device), t.is_cuda]), t.sum())[1])(x); return seen
def by_default():
    torch.set_default_device("cuda")
    try: return [str(d) for d in (torch.get_default_device(), torch.zeros(1).device, torch.nn.Linear(1, 1).weight.device)]
    finally: torch.set_default_device(None)
"""
ASKED = {
    "repr": "[repr(t) for t in (x, x.half(), x.long(), x * 0 == 1, x[:0], x.requires_grad_(False), linear.weight.grad)]",
    "repr of a parameter": "repr(torch.nn.Parameter(torch.ones(2, device='cuda')))",
    "f-strings": "f'{x.sum()} {x.sum():.1f} {x.device} {x.device!r}'",
    "equality": "[x.device == torch.device('cuda:0'), x.device == torch.device('cuda'), x.device == c.device]",
    "hash": "{torch.device('cuda', 0): 1}.get(x.device)",
    "parts": "[x.device.type, x.device.index, str(x.device).split(':'), x.get_device(), torch.get_device(x)]",
    "flags": "[x.is_cuda, x.is_cpu, x.is_mps, x.is_xpu, x.is_meta, c.is_cuda]",
    "like": "[str(f(x).device) for f in (torch.empty_like, torch.zeros_like, torch.rand_like)]",
    "new": "[str(t.device) for t in (x.new_zeros(2), x.new_tensor([1.0]), x.new(2), x.new_zeros(2, device='cpu'))]",
    "results": "[str(t.device) for t in (x + 1, x @ x, x.sum(), x.T, x[0], x.data, x.detach(), x.nonzero(), x.argmax())]",
    "made for it": "[str(f([1.0], device=x.device).device) for f in (torch.tensor, torch.as_tensor)]",
    "moved": "[str(t.device) for t in (c.to(x.device), x.to(c.device), c.to(x), c.to(0), c.cuda(x.device), c.type_as(x))]",
    "modules": "[str(t.device) for t in (*linear.parameters(), *torch.nn.BatchNorm1d(2).to('cuda').buffers())]",
    "state_dict": "{k: str(v.device) for k, v in linear.state_dict().items()}",
    "made on it": "str(torch.nn.Linear(2, 2, device='cuda').weight.device)",
    "optimizer state": "[str(v.device) for s in stepped()[1].state_dict()['state'].values() for v in s.values()]",
    "gradients": "[str(p.grad.device) for p in stepped()[0].parameters()]",
    "hooks": "hooked()",
    "subclasses": "[str(x.as_subclass(Sub).device), x.as_subclass(Sub).is_cuda, type(x.as_subclass(Sub) + 1).__name__]",
    "parameters": "[str(torch.nn.Parameter(x).device), str(torch.nn.Buffer(x).device), torch.nn.Parameter(x).is_cuda]",
    "legacy classes": "[isinstance(t, k) for t in (x, c, x.half()) for k in (torch.cuda.FloatTensor, torch.FloatTensor)]",
    "type names": "[t.type() for t in (x, x.half(), x.long(), x.bool(), c)] + [torch.typename(x)]",
    "storages": "[str(s.device) + str(s.is_cuda) for s in (x.storage(), x.untyped_storage(), c.untyped_storage())]",
    "storage types": "[x.storage().type(), isinstance(x.storage(), torch.cuda.FloatStorage), x.is_shared()]",
    "storage repr": "[repr(x.untyped_storage()), repr(x.storage())]",
    "storage moves": "[str(s.device) for s in (c.untyped_storage().cuda(), x.untyped_storage().cpu(), c.storage().cuda())]",
    "generators": "[str(torch.Generator(d).device) for d in ('cuda', 'cuda:0', torch.device('cuda', 0), 0, 'cpu')]",
    "default generators": "[str(g.device) for g in torch.cuda.default_generators]",
    "generator copies": "[str(f(torch.Generator('cuda')).device) for f in (copy.deepcopy, lambda g: g.clone_state())]",
    "generator class": "[isinstance(torch.Generator('cuda'), torch.Generator), type(torch.Generator('cuda')).__name__]",
    "generators refused": "[refusal(lambda: torch.rand(3, generator=torch.Generator('cuda'))),"
    " refusal(lambda: torch.rand(3, device='cuda', generator=torch.Generator()))]",
    "pickled generator": "str(pickle.loads(pickle.dumps(torch.Generator('cuda'))).device)",
    "indices": "[torch._utils._get_device_index(x.device), torch.cuda.current_device(), torch.cuda.device_of(x).idx]",
    "accelerator": "[str(torch.accelerator.current_accelerator()), torch.accelerator.current_device_index()]",
    "device modules": "[torch.get_device_module(x.device).__name__, torch.get_device_module().__name__]",
    "default device": "by_default()",
    "device contexts": "under(torch.device('cuda'), lambda: [str(torch.zeros(1).device), str(torch.get_default_device())])",
    "current device": "under(torch.cuda.device(x.device), torch.cuda.current_device)",
    "DLPack": "[*map(int, x.__dlpack_device__()), str(torch.from_dlpack(x).device)]",
    "array interface": "[hasattr(x, '__cuda_array_interface__'), hasattr(c, '__cuda_array_interface__'),"
    " x.__cuda_array_interface__['data'][0] == x.data_ptr(), refusal(lambda: linear.weight.__cuda_array_interface__)]",
    "numpy": "[refusal(x.numpy), x.numpy(force=True).tolist()]",
    "pickles": "[str(pickle.loads(pickle.dumps(x)).device), b'mps' in pickle.dumps(linear), str(copy.deepcopy(x).device)]",
    "checkpoints": "[str(loaded(x).device), str(loaded(x, map_location='cpu').device), b'mps' in saved([x, x.device])]",
    "old checkpoints": "b'mps' in saved(linear.state_dict(), _use_new_zipfile_serialization=False)",
    "tags": "[torch.serialization.location_tag(t.untyped_storage()) for t in (x, c)]",
    "autocast": "under(torch.autocast(x.device.type), lambda: [str((x @ x).dtype), torch.is_autocast_enabled('cuda')])",
    "DataParallel": "[str(parallel.DataParallel(linear)(c).device), str(parallel.DataParallel(linear).src_device_obj)]",
    "data_parallel": "str(parallel.data_parallel(linear, c).device)",
    "scattered": "[str(parallel.scatter(c, [0])[0].device), str(parallel.replicate(linear, [0])[0].weight.device)]",
    "gathered": "[str(parallel.gather([x], d).device) for d in (0, 'cuda:0', 'cpu')]",
    "wrong module": "refusal(lambda: parallel.data_parallel(torch.nn.Linear(2, 2), c))",
    "transforms": "[within(torch.vmap), within(torch.func.grad)]",
    "streams": "[str(s.device) for s in (torch.cuda.current_stream(), torch.cuda.Stream(), torch.Stream())]",
    "sparse": "[str(x.to_sparse().device), x.to_sparse().is_cuda, x.to_sparse().type()]",
    "traced": "str(torch.jit.trace(lambda t: t * 2, x)(x).device)",
    "compiled": "[str(torch.compile(lambda t: torch.zeros(2, device=t.device) + t, backend='eager')(x).device)]",
    "huge": "refusal(lambda: torch.empty(1 << 60, dtype=torch.uint8, device='cuda'))",
    "division": "[refusal(lambda: x.long() // 0)[0], (x / 0).tolist()[0][0] == float('inf')]",
}
BODY = SETUP + "result = {}\nfor name, expression in json.loads(ASKED).items():\n    result[name] = eval(expression)\n"


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, emulated: dict[str, str], native_library: str) -> Any:
    """What the virtual GPU and the Apple GPU answer."""
    from conftest import active_program, run_python

    tail = "print('RESULT ' + json.dumps(result))"
    found = {}
    for driver, env in (("virtual", {}), ("mps", emulated)):
        body = f"ASKED = {json.dumps(ASKED)!r}\n{BODY}{tail}"
        done = run_python(active_program(body, driver=driver, policy="faithful"), **env)
        found[driver] = json.loads(done.stdout.rpartition("RESULT ")[2])
    return found


@pytest.mark.parametrize("name", ASKED)
def test_same_as_cuda(answers: dict[str, Any], name: str) -> None:
    assert answers["mps"][name] == answers["virtual"][name]


def test_the_reference_is_cuda(answers: dict[str, Any]) -> None:
    """What is compared with says CUDA throughout."""
    assert "mps:0" not in json.dumps(answers["virtual"])
    assert answers["virtual"]["parts"][0] == "cuda"


def test_torch_sees_the_truth(on_mps: Callable) -> None:
    body = """
    exec("def inside(g): return str(g.device)", within := {"__name__": "torch.some.module"})
    exec("def nameless(x): return str(x.device)", nowhere := {})
    del nowhere["__builtins__"]
    g = torch.Generator("cuda")
    same = torch.cuda.default_generators[0]
    torch.mps.manual_seed(5)
    result = [within["inside"](g), nowhere["nameless"](torch.ones(1, device="cuda")), same.initial_seed(),
              torch.rand(2, device="cuda", generator=same).tolist()
              == torch.rand(2, device="cuda", generator=torch.Generator("cuda").manual_seed(5)).tolist()]
    """
    assert on_mps(body) == ["mps", "cuda:0", 5, True]


def test_snapshots_list_what_tensors_hold(on_mps: Callable) -> None:
    body = """
    x, y = torch.empty(3 << 20, dtype=torch.uint8, device="cuda"), torch.empty(8, device="cuda")
    z = x[1 << 20:]
    found = torch.cuda.memory_snapshot()
    def holds(t): return [s["segment_type"] for s in found if s["address"] <= t.data_ptr() < s["address"] + s["total_size"]]
    result = [holds(x), holds(y), holds(z), sum(s["allocated_size"] for s in found) == torch.cuda.memory_allocated(),
              sum(s["total_size"] for s in found) == torch.cuda.memory_reserved(),
              all(sum(b["size"] for b in s["blocks"]) == s["total_size"] for s in found)]
    """
    assert on_mps(body) == [["large"], ["small"], ["large"], True, True, True]


def test_profilers(on_mps: Callable) -> None:
    """``torch.cuda.profiler`` starts and stops torch.mps's signposts; starting twice is no error, as on CUDA."""
    body = """
    def tracing():
        try:
            torch.mps.profiler.start()
        except RuntimeError:
            return True
        torch.mps.profiler.stop()
        return False
    seen = [tracing()]
    torch.cuda.profiler.start(); torch.cuda.profiler.start(); seen.append(tracing())
    torch.cuda.profiler.stop(); torch.cuda.profiler.stop(); seen.append(tracing())
    with torch.cuda.profiler.profile():
        seen.append(tracing())
    result = seen + [tracing()]
    """
    assert on_mps(body) == [False, True, False, True, False]
