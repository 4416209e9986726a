"""Compressed sparse tensors (CSR, CSC, BSR, BSC) on a GPU on which torch makes none."""

from __future__ import annotations

from collections.abc import Callable

CALCULATE = """
import warnings
warnings.simplefilter("ignore")

def dense():
    return torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 3.0, 0.0], [4.0, 5.0, 0.0, 6.0], [0.0, 7.0, 0.0, 0.0]])

def plain(value):
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    if value.layout is torch.strided:
        return value.tolist()
    return [str(value.layout), list(value.shape), value.values().tolist() if value.layout is not torch.sparse_coo else
            value.coalesce().values().tolist(), value.to_dense().tolist()]
"""


def test_the_backend_makes_none(on_mps: Callable) -> None:
    """The double refuses as torch does, so that what follows shows what a Mac would."""
    body = """
    import warnings
    warnings.simplefilter("ignore")
    x = torch.eye(2).to_sparse_csr()
    members = x.crow_indices().cuda(), x.col_indices().cuda(), x.values().cuda()
    torchdevice_cuda.deactivate()
    try:
        torch.sparse_csr_tensor(*members)
    except (NotImplementedError, RuntimeError) as error:
        result = [type(error).__name__, "mps" in str(error)]
    """
    assert on_mps(body) in (["NotImplementedError", True], ["RuntimeError", True])


def test_made_and_moved(on_mps: Callable) -> None:
    body = (
        CALCULATE
        + """
x = dense()
made = {
    "moved": lambda device: x.to_sparse_csr().to(device), "csr": lambda device: x.to(device).to_sparse_csr(),
    "csc": lambda device: x.to(device).to_sparse_csc(), "bsr": lambda device: x.to(device).to_sparse_bsr((2, 2)),
    "bsc": lambda device: x.to(device).to_sparse_bsc((2, 2)), "coo": lambda device: x.to(device).to_sparse().to_sparse_csr(),
    "members": lambda device: torch.sparse_csr_tensor(*(torch.tensor(m, device=device) for m in ([0, 1, 2], [1, 0], [3.0, 4.0]))),
    "lists": lambda device: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [3.0, 4.0], (2, 2), device=device),
    "zeros": lambda device: torch.zeros(3, 2, layout=torch.sparse_csr, device=device),
}
result = {}
for name, f in made.items():
    there, here = f("cuda"), f("cpu")
    result[name] = [plain(there) == plain(here), there.is_cuda, str(there.device), there.layout == here.layout,
                    there.values().is_cuda, plain(there.to_dense()) == plain(here.to_dense()), repr(there)[:7]]
"""
    )
    seen = on_mps(body)
    assert seen == dict.fromkeys(seen, [True, True, "cuda:0", True, True, True, "tensor("])


def test_operators_and_gradients(on_mps: Callable) -> None:
    body = (
        CALCULATE
        + """
def outcome(f, device):
    x = dense().to(device).to_sparse_csr().requires_grad_()
    y = torch.arange(8.0).reshape(4, 2).to(device).requires_grad_()
    made = f(x, y)
    if made.layout is torch.strided and made.requires_grad:
        made.sum().backward()
    return [plain(made), plain(x.grad), plain(y.grad), made.device.type]

operators = {
    "mm": torch.sparse.mm, "matmul": lambda x, y: x @ y, "reduce": lambda x, y: torch.sparse.mm(x, y, "amax"),
    "sampled": lambda x, y: torch.sparse.sampled_addmm(x, y, y.T).to_dense(), "scaled": lambda x, y: (x * 2).to_dense(),
    "sum": lambda x, y: x.sum(), "mv": lambda x, y: torch.mv(x, y[:, 0]), "dense": lambda x, y: x.to_dense(),
    "sin": lambda x, y: torch.sin(x.detach()), "t": lambda x, y: x.detach().t(), "row": lambda x, y: x.detach()[0],
    "csc": lambda x, y: x.detach().to_sparse_csc(), "half": lambda x, y: x.detach().half(),
    "like": lambda x, y: torch.zeros_like(x.detach()),
}
result = {}
for name, f in operators.items():
    there, here = outcome(f, "cuda"), outcome(f, "cpu")
    result[name] = [there[:3] == here[:3], there[3], here[3]]
"""
    )
    seen = on_mps(body)
    assert seen == dict.fromkeys(seen, [True, "cuda", "cpu"])


def test_in_place_saved_and_copied(on_mps: Callable) -> None:
    body = (
        CALCULATE
        + """
import copy, io
from torchdevice_cuda.report.departures import departures

def changed(x):
    x.values().mul_(2); x.neg_(); other = torch.zeros_like(x).to(x.dtype)
    x.resize_(5, 4)
    return plain(x)

there, here = dense().cuda().to_sparse_csr(), dense().to_sparse_csr()
file = io.BytesIO(); torch.save(there, file); file.seek(0); loaded = torch.load(file)
copied = copy.deepcopy(there)
result = {"saved": plain(loaded) == plain(here) and loaded.is_cuda, "copied": plain(copied) == plain(here),
          "changed": changed(there) == changed(here), "copy unchanged": plain(copied) == plain(dense().to_sparse_csr()),
          "double": str(copied.double().dtype), "counted": any(row[1] == "aten::neg_" for row in departures.rows())}
for name in ("stride", "is_contiguous", "ccol_indices"):
    errors = []
    for x in (copied, here):
        try:
            getattr(x, name)()
        except RuntimeError as error:
            errors.append(str(error))
    result[name] = len(errors) == 2 and errors[0] == errors[1]
"""
    )
    seen = on_mps(body)
    assert seen.pop("double") == "torch.float32"
    assert seen == dict.fromkeys(seen, True)


def test_coo_operators_the_gpu_lacks(on_mps: Callable) -> None:
    body = (
        CALCULATE
        + """
from torchdevice_cuda.fallback.capabilities import keys, missing
def outcome(device):
    x = dense().to(device).to_sparse()
    y = torch.arange(8.0).reshape(4, 2).to(device)
    return [plain(torch.hspmm(x, y)), plain(x.to_sparse_csc()), plain(torch.empty_like(x).resize_as_sparse_(x))[:2]]
result = [outcome("cuda") == outcome("cpu"), {key: list(missing(key)) for key in keys()}]
"""
    )
    agree, left = on_mps(body)
    assert agree and left == dict.fromkeys(left, [])


def test_error_when_nothing_may_leave(on_mps: Callable) -> None:
    body = """
    import warnings
    warnings.simplefilter("ignore")
    x = torch.eye(2).to_sparse_csr().cuda()
    try:
        x.sin()
    except NotImplementedError as error:
        result = str(error)
    """
    assert "aten::sin would leave the accelerator" in on_mps(body, fallback="error")


def test_members_that_do_not_fit(on_mps: Callable) -> None:
    body = """
    import warnings
    warnings.simplefilter("ignore")
    def error(device):
        try:
            with torch.sparse.check_sparse_tensor_invariants():
                torch.sparse_csr_tensor(torch.tensor([0, 3, 2], device=device), torch.tensor([0, 1], device=device),
                                        torch.ones(2, device=device), (2, 2))
        except RuntimeError as raised:
            return str(raised)
    result = [error("cuda"), error("cpu")]
    """
    there, here = on_mps(body)
    assert there == here and here is not None
