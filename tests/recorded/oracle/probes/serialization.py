"""Saving and loading: where tensors come back, and what is refused."""

from __future__ import annotations

import copy
import io
import os
import pickle
import tempfile
from typing import Any

import torch

from recorded.oracle.probing import about, kind, probe, raises, ramp, warned


def saved(value: Any, **options: Any) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


@probe()
def places() -> Any:
    x = ramp(3)
    return [
        raises(lambda m=m: str(torch.load(saved(x), map_location=m).device))
        for m in (
            None,
            "cpu",
            "cuda",
            "cuda:0",
            torch.device("cuda"),
            torch.device("cpu"),
            {"cuda:0": "cpu"},
            {"cuda:0": "cuda:0"},
            {"cpu": "cuda:0"},
            lambda s, loc: s,
            lambda s, loc: s.cpu(),
            lambda s, loc: None,
            "cuda:99",
            "meta",
            3,
            "bogus",
        )
    ]


@probe()
def locations_seen() -> Any:
    seen: list[Any] = []
    torch.load(
        saved({"a": ramp(2), "b": torch.ones(2)}),
        map_location=lambda s, loc: (seen.append([loc, str(s.device), type(s).__name__]), s)[1],
    )
    return [
        seen,
        torch.serialization.location_tag(ramp(2).untyped_storage()),
        torch.serialization.default_restore_location(torch.ones(2).untyped_storage(), "cuda:0").device,
    ]


@probe()
def sharing_and_views() -> Any:
    x = ramp(6)
    there = torch.load(saved([x, x[2:], x.view(2, 3).t()]))
    there[0][2] = 99
    return [
        there[1],
        about(there[2]),
        len(saved(x[:1]).getvalue()) < 2000,
        len(saved(ramp(10_000)[:1]).getvalue()) > 20_000,
    ]


@probe()
def kinds_of_values() -> Any:
    p = torch.nn.Parameter(ramp(2))
    values = {
        "p": p,
        "buffer": torch.nn.Buffer(ramp(2)),
        "half": ramp(2).half(),
        "bool": ramp(2) > 0,
        "complex": torch.complex(ramp(2), ramp(2)),
        "fp8": ramp(2).to(torch.float8_e5m2),
        "device": torch.device("cuda:0"),
        "dtype": torch.float16,
        "size": torch.Size([1, 2]),
        "conj": torch.complex(ramp(2), ramp(2)).conj(),
        "empty": torch.empty(0, device="cuda"),
        "scalar": torch.tensor(3, device="cuda"),
    }
    there = torch.load(saved(values))
    return [[k, type(v).__name__, about(v) if isinstance(v, torch.Tensor) else str(v)] for k, v in there.items()] + [
        there["p"].requires_grad,
        there["conj"].is_conj(),
    ]


@probe()
def refused_pickles() -> Any:
    return [
        raises(lambda: torch.load(saved(torch.cuda.Stream()))),
        kind(lambda: torch.load(saved(torch.nn.Linear(1, 1)))),
        raises(lambda: saved(torch.cuda.Event())),
        raises(lambda: saved(torch.Generator("cuda"))),
        raises(lambda: saved(torch.cuda.CUDAGraph())),
        raises(lambda: pickle.dumps(torch.cuda.get_device_properties(0))[:0]),
        raises(lambda: torch.load(saved(torch.device("cuda")))),
    ]


@probe()
def old_formats() -> Any:
    x = ramp(3)
    b = saved(x, _use_new_zipfile_serialization=False)
    return [
        str(torch.load(b).device),
        str(torch.load(saved(x, _use_new_zipfile_serialization=False), map_location="cpu").device),
        str(pickle.loads(pickle.dumps(x)).device),
        str(pickle.loads(pickle.dumps(x.storage())).device) if hasattr(x.storage(), "device") else None,
        about(copy.deepcopy(x.t())),
        copy.copy(x).data_ptr() == x.data_ptr(),
        copy.deepcopy(torch.nn.Parameter(x)).is_leaf,
        raises(lambda: copy.deepcopy(x.requires_grad_() * 2)),
    ]


@probe()
def files_and_memory_maps() -> Any:
    path = os.path.join(tempfile.mkdtemp(), "x.pt")
    torch.save({"w": ramp(4), "c": torch.ones(2)}, path)
    a = torch.load(path, mmap=True)
    b = torch.load(path, mmap=True, map_location="cpu")
    with torch.serialization.skip_data():
        torch.save({"w": ramp(4)}, path + "2")
    with torch.device("cuda"):
        c = torch.load(path)
    return [
        str(a["w"].device),
        str(b["w"].device),
        str(a["c"].device),
        str(c["c"].device),
        raises(lambda: torch.load(io.BytesIO(b"x"), mmap=True)),
        kind(lambda: torch.load(io.BytesIO(b"bogus"))),
        raises(lambda: torch.load(path + "none")),
    ]


@probe()
def modules() -> Any:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).cuda()
    state = torch.load(saved(net.state_dict()))
    other = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    other.load_state_dict(state)
    meta = torch.nn.Linear(2, 2, device="meta")
    meta.load_state_dict({k[2:]: v for k, v in state.items() if k.startswith("0.")}, assign=True)
    return [
        [str(v.device) for v in state.values()],
        str(other[0].weight.device),
        str(meta.weight.device),
        type(meta.weight).__name__,
        raises(lambda: other.load_state_dict({})),
        raises(lambda: other[0].load_state_dict({"weight": torch.ones(3, 3, device="cuda"), "bias": torch.ones(2)})),
        str(torch.load(saved(net), weights_only=False)[0].weight.device),
    ]


@probe()
def scripts() -> Any:
    f = torch.jit.script(torch.nn.Linear(2, 2).cuda())
    b = io.BytesIO()
    torch.jit.save(f, b)
    out = []
    for place in (None, "cpu", "cuda"):
        b.seek(0)
        out.append(str(next(torch.jit.load(b, map_location=place).parameters()).device))
    t = torch.jit.trace(lambda x: x * torch.ones(2, device="cuda"), (ramp(2),))
    return [
        *out,
        t(ramp(2)),
        "cuda" in str(t.graph),
        raises(lambda: torch.jit.load(io.BytesIO(b.getvalue()), map_location="cuda:99")),
    ]


@probe()
def untyped_storages() -> Any:
    x = ramp(4)
    s = x.untyped_storage()
    return [
        str(s.device),
        s.nbytes(),
        s.is_cuda,
        s.is_pinned(),
        s.is_shared(),
        type(s.cpu()).__name__,
        str(s.cpu().device),
        str(s.cpu().cuda().device),
        str(s.clone().device),
        raises(lambda: s.tolist()[:4]),
        raises(lambda: s.share_memory_().is_shared()),
        s.resizable(),
        raises(lambda: torch.UntypedStorage(8, device="cuda").nbytes()),
        raises(lambda: torch.UntypedStorage.from_file("/none", nbytes=3)),
        raises(lambda: s.new(3)),
        raises(lambda: s.pin_memory()),
        s.data_ptr() == x.data_ptr(),
        hash(s) == hash(x.untyped_storage()),
        repr(s).splitlines()[-1],
        raises(lambda: s.fill_(0).nbytes()),
        raises(lambda: s.hpu()),
    ]


@probe()
def typed_storages() -> Any:
    return [
        warned(lambda: str(ramp(2).storage().device)),
        warned(lambda: type(torch.cuda.FloatStorage(2)).__name__),
        warned(lambda: str(torch.cuda.FloatStorage(2).dtype)),
        warned(lambda: raises(lambda: torch.cuda.FloatStorage("x"))),
        warned(lambda: raises(lambda: torch.cuda.FloatStorage([1.0, 2.0]).tolist())),
        warned(lambda: str(torch.FloatStorage([1.0]).cuda().device)),
        warned(lambda: isinstance(ramp(1).storage(), torch.cuda.FloatStorage)),
        warned(lambda: raises(lambda: torch.cuda.HalfStorage(2).float().dtype)),
        warned(lambda: ramp(1).storage().type()),
        warned(lambda: str(ramp(1).storage_type())),
    ]


@probe()
def numpy_and_lists() -> Any:
    x = ramp(3)
    import numpy as np

    return [
        raises(lambda: x.numpy()),
        raises(lambda: np.asarray(x)),
        raises(lambda: np.add(x, 1)),
        x.tolist(),
        float(x[0]),
        raises(lambda: int(x)),
        raises(lambda: x.numpy(force=True).tolist()),
        raises(lambda: np.float32(2) * x),
        raises(lambda: np.array([x[0].item()]).tolist()),
        raises(lambda: torch.as_tensor(np.ones(2), device="cuda")),
        raises(lambda: torch.from_numpy(np.ones(2)).cuda().dtype),
        raises(lambda: x.bfloat16().cpu().numpy()),
        raises(lambda: x.requires_grad_().cpu().numpy()),
        raises(lambda: bool(x)),
        raises(lambda: [*x.detach()][1]),
        raises(lambda: x.detach().__index__()),
        hash(x) == hash(x),
        f"{x[0]:.2f}",
        raises(lambda: f"{x:.2f}"),
        len(x),
        0.5 in x.detach(),
        raises(lambda: np.ones(3) + x.detach()),
        raises(lambda: x.detach() + np.ones(3)),
    ]
