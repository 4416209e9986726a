"""Operators the GPU lacks run elsewhere and come back; errors that are not about that go on unchanged."""

from __future__ import annotations

from collections.abc import Callable


def test_results_come_back(on_mps: Callable) -> None:
    body = """
    from torchdevice_cuda.report.departures import departures
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]], device="cuda")
    w, v = pair = torch.linalg.eigh(x)
    mode = torch.mode(torch.tensor([1, 2, 2], device="cuda"))
    result = {
        "types": [type(pair).__name__, type(mode).__name__], "where": [w.is_cuda, v.is_cuda, mode.indices.is_cuda],
        "values": [round(float(t), 4) for t in w], "rebuilt": torch.allclose(v @ torch.diag(w) @ v.T, x, atol=1e-5),
        "rows": departures.rows(),
    }
    """
    seen = on_mps(body)
    assert seen["types"] == ["linalg_eigh", "mode"] and seen["where"] == [True] * 3
    assert seen["values"] == [1.382, 3.618] and seen["rebuilt"]
    assert [1, "aten::_linalg_eigh", "CPU", "the GPU's backend has no kernel"] in seen["rows"]


def test_arguments_that_have_their_defaults(on_mps: Callable) -> None:
    """The dispatcher leaves them out; what computes in the operator's place must read the same defaults."""
    body = """
    from torch.nn import functional as F
    x, t = torch.linspace(0, 1, 15).reshape(3, 5), torch.tensor([1, 2, 0])
    calls = [
        *(lambda x, t, r=r: F.multi_margin_loss(x, t, reduction=r) for r in ("mean", "sum", "none")),
        lambda x, t: F.multilabel_margin_loss(x[0, :3], t), lambda x, t: torch.mode(x), lambda x, t: torch.frexp(x),
        lambda x, t: torch.linalg.ldl_factor(x[:, :3] + x[:, :3].T), lambda x, t: torch.ormqr(x.T, x[0, :3], x.T),
    ]
    home = lambda value: torch.utils._pytree.tree_map(lambda v: v.cpu(), value)
    leaves = torch.utils._pytree.tree_leaves
    result = [[(a.shape == b.shape, torch.allclose(a, b)) for a, b in zip(
                  leaves(home(call(x.cuda(), t.cuda()))), leaves(call(x, t)))] for call in calls]
    """
    for number, pairs in enumerate(on_mps(body)):
        assert pairs and all(pair == [True, True] for pair in pairs), number


def test_writing_where_it_should(on_mps: Callable) -> None:
    body = """
    x = torch.tensor([-1.0, 0.0, 2.0], device="cuda"); h = torch.full((3,), 0.5, device="cuda")
    same = x.clone(); given = same.heaviside_(h)
    out = torch.empty(0, device="cuda"); returned = torch.heaviside(x, h, out=out)
    view = torch.zeros(6, device="cuda")[::2]; torch.heaviside(x, h, out=view)
    put = torch.zeros(3, device="cuda"); put.put_(torch.tensor([2], device="cuda"), torch.tensor([5.0], device="cuda"))
    result = [same.tolist(), given is same, out.tolist(), returned is out, view.tolist(), put.tolist(), put.is_cuda]
    """
    steps = [0.0, 0.5, 1.0]
    assert on_mps(body) == [steps, True, steps, True, steps, [0, 0, 5], True]


def test_gradients_flow(on_mps: Callable) -> None:
    body = """
    def gradient(f, x, device):
        x = x.detach().to(device).requires_grad_(); f(x).sum().backward(); return x.grad.cpu()
    torch.manual_seed(0)
    square, pool = torch.randn(4, 4), torch.randn(1, 2, 4, 4, 4)
    cases = {
        "eigh": (lambda x: torch.linalg.eigvalsh(x + x.T), square), "svd": (torch.linalg.svdvals, square),
        "svd vectors": (lambda x: torch.linalg.svd(x)[1], square),
        "pool": (lambda x: torch.nn.functional.adaptive_avg_pool3d(x, 2), pool),
        "take": (lambda x: x.take(torch.tensor([1, 1, 3], device=x.device)), square),
        "matrix_exp": (torch.linalg.matrix_exp, square), "pdist": (torch.nn.functional.pdist, square),
        "ctc": (lambda x: torch.nn.functional.ctc_loss(
            x.log_softmax(1)[:, None], torch.tensor([[1, 2]], device=x.device), [4], [2]), square),
    }
    agree = lambda f, x: torch.allclose(gradient(f, x, "cuda"), gradient(f, x, "cpu"), atol=1e-4)
    result = {name: agree(*case) for name, case in cases.items()}
    """
    seen = on_mps(body)
    assert seen == dict.fromkeys(seen, True)


def test_random_operators_follow_the_devices_seed(on_mps: Callable) -> None:
    body = """
    rate = torch.full((64,), 5.0, device="cuda")
    torch.cuda.manual_seed(1); a = torch.poisson(rate); b = torch.poisson(rate)
    torch.cuda.manual_seed(1); c = torch.poisson(rate)
    g = torch.Generator("cuda").manual_seed(3); d = torch.poisson(rate, generator=g)
    g.manual_seed(3); e = torch.poisson(rate, generator=g)
    cpu = torch.get_rng_state(); torch.poisson(rate)
    result = [torch.equal(a, c), torch.equal(a, b), torch.equal(d, e), torch.equal(cpu, torch.get_rng_state())]
    """
    assert on_mps(body) == [True, False, True, True]


def test_operators_the_gpu_has_are_left_alone(on_mps: Callable) -> None:
    body = """
    from torchdevice_cuda.fallback.capabilities import missing
    from torchdevice_cuda.report.departures import departures
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(144, 8), torch.nn.Unflatten(1, (4, 2)),
                                torch.nn.TransformerEncoderLayer(2, 1, 4, batch_first=True)).cuda()
    model(torch.randn(2, 3, 8, 8, device="cuda")).sum().backward()
    lstm = torch.nn.LSTM(4, 5).cuda(); lstm(torch.randn(3, 2, 4, device="cuda"))[0].sum().backward()
    result = [departures.rows(), list(missing("MPS"))]
    """
    assert on_mps(body) == [[], []]


def test_warn(on_mps: Callable) -> None:
    body = """
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.heaviside(torch.ones(2, device="cuda"), torch.ones(2, device="cuda"))
    result = [[str(w.message), w.filename == __file__] for w in caught]
    """
    assert on_mps(body, fallback="warn") == [["aten::heaviside runs on CPU: the GPU's backend has no kernel", True]]


def test_error(on_mps: Callable) -> None:
    body = """
    try:
        torch.heaviside(torch.ones(2, device="cuda"), torch.ones(2, device="cuda"))
    except NotImplementedError as error:
        result = [str(error).replace(__file__, "FILE"), (torch.ones(2, device="cuda") + 1).tolist()]
    """
    message, sum_ = on_mps(body, fallback="error")
    assert message.startswith("FILE:") and "aten::heaviside would leave the accelerator" in message
    assert sum_ == [2, 2]


def test_general_errors_go_on_unchanged(on_mps: Callable) -> None:
    body = """
    def error(f):
        try:
            f()
        except Exception as raised:
            return [type(raised).__name__, str(raised)]
    def on(device):
        return [error(lambda: torch.linalg.eigh(torch.ones(2, 3, device=device))),
                error(lambda: torch.take(torch.ones(2, device=device), torch.tensor([9], device=device))),
                error(lambda: torch.sort(torch.ones(2, device=device), 5))]
    result = [on("cpu"), on("cuda")]
    """
    cpu, cuda = on_mps(body)
    assert cpu == cuda and None not in cpu
