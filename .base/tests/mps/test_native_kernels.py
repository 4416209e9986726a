"""What MPS has kernels for runs on the device, forward and backward: nothing takes a detour over the CPU."""

from __future__ import annotations

from collections.abc import Callable

STEPS = """
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from torchdevice_cuda.report.departures import departures

sequence, batch = torch.randn(5, 3, 4, device="cuda"), torch.randn(2, 5, 8, device="cuda")
mask = torch.triu(torch.ones(5, 5, device="cuda"), 1).bool()

def trained(model, *inputs, **options):
    model = model.cuda()
    out = model(*inputs, **options)
    out = out[0] if isinstance(out, tuple) else out
    (out.data if isinstance(out, nn.utils.rnn.PackedSequence) else out).square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with torch.no_grad():
        model.eval()(*inputs, **options)

def attended(**options):
    q = torch.randn(2, 2, 5, 4, device="cuda", requires_grad=True)
    F.scaled_dot_product_attention(q, q, q, **options).sum().backward()
    assert q.grad is not None

def packed():
    return pack_padded_sequence(sequence, [5, 2, 3], enforce_sorted=False)

def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)

WORK = {
    "lstm": lambda: trained(nn.LSTM(4, 6), sequence),
    "deep lstm": lambda: trained(nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True, dropout=0.1), sequence),
    "projected lstm": lambda: trained(nn.LSTM(4, 6, proj_size=3), sequence),
    "packed lstm": lambda: trained(nn.LSTM(4, 6), packed()),
    "lstm cell": lambda: trained(nn.LSTMCell(4, 6), sequence[0]),
    "gru": lambda: trained(nn.GRU(4, 6, 2, bidirectional=True), sequence),
    "packed gru": lambda: trained(nn.GRU(4, 6), packed()),
    "rnn": lambda: trained(nn.RNN(4, 6, nonlinearity="relu"), sequence),
    "attention": lambda: attended(),
    "causal attention": lambda: attended(is_causal=True),
    "masked attention": lambda: attended(attn_mask=mask),
    "attention with dropout": lambda: attended(dropout_p=0.1),
    "multihead": lambda: trained(nn.MultiheadAttention(8, 2, batch_first=True), batch, batch, batch),
    "multihead alone": lambda: trained(
        nn.MultiheadAttention(8, 2, batch_first=True), batch, batch, batch, attn_mask=mask, need_weights=False),
    "encoder": lambda: trained(encoder(), batch, mask=mask),
    "decoder": lambda: trained(
        nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1), batch, batch),
    "convolutions": lambda: trained(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(),
                      nn.Linear(36, 2)), torch.randn(2, 3, 8, 8, device="cuda")),
}
result = {}
for name, work in WORK.items():
    departures.clear()
    work()
    result[name] = departures.rows()
departures.clear()
torch.linalg.eigh(torch.eye(2, device="cuda"))
result["what has none"] = departures.rows()
"""


def test_nothing_leaves_the_device(on_mps: Callable) -> None:
    left = on_mps(STEPS)
    assert left.pop("what has none"), "departures are counted"
    assert left == dict.fromkeys(left, [])


def test_projected_lstm(on_mps: Callable) -> None:
    """The GPU's kernel has no projections; the numbers are the CPU's, whatever the layout."""
    body = """
    from torch import nn
    result = []
    for batch_first in (True, False):
        torch.manual_seed(0)
        home = nn.LSTM(4, 6, 2, proj_size=3, batch_first=batch_first, bidirectional=True)
        away = nn.LSTM(4, 6, 2, proj_size=3, batch_first=batch_first, bidirectional=True).cuda()
        away.load_state_dict(home.state_dict())
        x = torch.randn(5, 3, 4); y = x.cuda().requires_grad_(); x.requires_grad_()
        given = []
        for model, data in ((home, x), (away, y)):
            out, (h, c) = model(data)
            (out.square().sum() + h.sum() + c.sum()).backward()
            given.append([out, h, c, data.grad, *(p.grad for p in model.parameters())])
        result += [torch.allclose(a, b.cpu(), atol=1e-5) for a, b in zip(*given)]
        result.append(given[1][0].is_cuda)
    """
    assert set(on_mps(body)) == {True}


def test_a_program_of_its_own_device(on_mps: Callable) -> None:
    """A program written for ``mps`` keeps working: device, module, autocast, generator, checkpoint."""
    body = """
    import io
    from torch import nn
    x = torch.ones(3, 3, device="mps")
    model = nn.Linear(3, 3).to("mps")
    with torch.autocast("mps", torch.float16):
        half = model(x)
    torch.mps.manual_seed(3); a = torch.rand(2, device="mps")
    b = torch.rand(2, device="mps", generator=torch.Generator("mps").manual_seed(3))
    state = torch.mps.get_rng_state(); c = torch.rand(2, device="mps")
    torch.mps.set_rng_state(state); d = torch.rand(2, device="mps")
    start, end = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
    start.record(); y = x @ x; end.record(); end.synchronize(); torch.mps.synchronize()
    file = io.BytesIO(); torch.save(model.state_dict(), file); file.seek(0)
    model.load_state_dict(torch.load(file, map_location="mps"))
    with torch.device("mps"):
        inside = torch.zeros(1)
    torch.mps.empty_cache()
    real = lambda t: torch._C.TensorBase.device.__get__(t).type
    result = [real(x), real(model.weight), str(half.dtype), torch.equal(a, b), torch.equal(c, d),
              start.elapsed_time(end) >= 0, y.sum().item(), real(inside), x.to("mps") is x,
              torch.mps.current_allocated_memory() > 0, torch.mps.device_count(), (x.cuda() + x).sum().item()]
    """
    expected = ["mps", "mps", "torch.float16", True, True, True, 27.0, "mps", True, True, 1, 18.0]
    for policy in ("accelerate", "faithful"):
        assert on_mps(body, policy=policy) == expected
    assert on_mps(body, identity="native") == expected


def test_compiled_by_inductor(on_mps: Callable) -> None:
    body = """
    @torch.compile(fullgraph=True)
    def f(x, y):
        return torch.nn.functional.gelu(x @ y).sum(0)
    x, y = torch.randn(3, 4, device="cuda", requires_grad=True), torch.randn(4, 5, device="cuda")
    out = f(x, y); out.sum().backward(); grad = x.grad.clone(); x.grad = None
    plain = torch.nn.functional.gelu(x @ y).sum(0); plain.sum().backward()
    result = [torch.allclose(out, plain, atol=1e-5), torch.allclose(grad, x.grad, atol=1e-5), str(out.device)]
    """
    assert on_mps(body, policy="accelerate") == [True, True, "cuda:0"]
