"""Random numbers: the same seed, the same numbers as on the GPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from recorded.oracle.probing import every, numbers, probe, raises

#: Draws that go through the logarithm and trigonometric functions of the GPU.
CLOSE = 1e-4


def seeded(draw: Any, seed: int = 1234) -> Any:
    torch.cuda.manual_seed(seed)
    value = draw()
    return [
        numbers(value.float() if value.is_floating_point() else value),
        torch.cuda.default_generators[0].get_offset(),
    ]


@probe()
def uniform_numbers() -> Any:
    return [
        seeded(lambda d=d: torch.rand(7, dtype=d, device="cuda"))
        for d in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    ]


@probe()
def normal_numbers() -> Any:
    return [
        seeded(lambda d=d: torch.randn(7, dtype=d, device="cuda"))
        for d in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    ]


@probe()
def integers() -> Any:
    return [
        seeded(lambda: torch.randint(0, 10, (8,), device="cuda")),
        seeded(lambda: torch.randint(-5, 1 << 40, (4,), device="cuda")),
        seeded(lambda: torch.randint(0, 255, (8,), dtype=torch.uint8, device="cuda")),
        seeded(lambda: torch.randint(0, 2, (8,), dtype=torch.bool, device="cuda")),
        seeded(lambda: torch.randint(3, (5,), dtype=torch.float32, device="cuda")),
    ]


@probe()
def permutations() -> Any:
    return [seeded(lambda n=n: torch.randperm(n, device="cuda")) for n in (1, 2, 10, 64)]


@probe()
def random_in_place() -> Any:
    z = torch.zeros
    return [
        seeded(lambda: z(6, dtype=torch.int64, device="cuda").random_()),
        seeded(lambda: z(6, dtype=torch.int32, device="cuda").random_(100)),
        seeded(lambda: z(6, device="cuda").random_()),
        seeded(lambda: z(6, dtype=torch.int8, device="cuda").random_(-3, 3)),
        seeded(lambda: z(6, device="cuda").uniform_(-1, 3)),
        seeded(lambda: z(6, device="cuda").normal_(2, 5)),
        seeded(lambda: z(6, dtype=torch.float16, device="cuda").uniform_(-1, 3)),
    ]


@probe(tolerance=CLOSE)
def distributions_in_place() -> Any:
    z = torch.zeros
    return [
        seeded(lambda: z(6, device="cuda").exponential_(2.0)),
        seeded(lambda: z(6, device="cuda").cauchy_(0.5, 2.0)),
        seeded(lambda: z(6, device="cuda").log_normal_(0.1, 0.5)),
        seeded(lambda: z(6, device="cuda").geometric_(0.3)),
        seeded(lambda: z(6, device="cuda").bernoulli_(0.4)),
        seeded(lambda: z(6, dtype=torch.float64, device="cuda").exponential_()),
        seeded(lambda: z(6, dtype=torch.int64, device="cuda").geometric_(0.3)),
    ]


@probe()
def bernoulli() -> Any:
    p = torch.linspace(0, 1, 8, device="cuda")
    return [
        seeded(lambda: torch.bernoulli(p)),
        seeded(lambda: torch.bernoulli(p, 0.5)),
        seeded(lambda: torch.bernoulli(p.double())),
        seeded(lambda: torch.zeros(8, device="cuda").bernoulli_(p)),
        seeded(lambda: torch.zeros(8, dtype=torch.bool, device="cuda").bernoulli_(0.5)),
    ]


@probe()
def multinomial() -> Any:
    p = torch.tensor([0.1, 0.5, 0.2, 0.2], device="cuda")
    return [
        seeded(lambda: torch.multinomial(p, 3)),
        seeded(lambda: torch.multinomial(p, 6, replacement=True)),
        seeded(lambda: torch.multinomial(torch.stack([p, p.flip(0)]), 2)),
        seeded(lambda: torch.multinomial(torch.stack([p, p]), 5, replacement=True)),
        seeded(lambda: torch.multinomial(p, 1)),
        raises(lambda: torch.multinomial(p, 5)),
        raises(lambda: torch.multinomial(p, 0)),
        raises(lambda: torch.multinomial(p[None, None], 1)),
    ]


@probe()
def poisson_and_binomial() -> Any:
    r = torch.tensor([0.5, 3.0, 20.0, 100.0], device="cuda")
    return [
        seeded(lambda: torch.poisson(r)),
        seeded(lambda: torch.binomial(torch.full((4,), 10.0, device="cuda"), torch.full((4,), 0.3, device="cuda"))),
    ]


@probe(tolerance=CLOSE)
def gamma_and_dirichlet() -> Any:
    r = torch.tensor([0.5, 3.0, 20.0], device="cuda")
    return [seeded(lambda: torch._standard_gamma(r)), seeded(lambda: torch._sample_dirichlet(r))]


@probe()
def dropouts() -> Any:
    x = torch.ones(16, device="cuda")
    image = torch.ones(2, 4, 2, device="cuda")
    return [
        seeded(lambda: F.dropout(x, 0.3)),
        seeded(lambda: F.dropout(x.half(), 0.3)),
        seeded(lambda: F.dropout(x.double(), 0.5)),
        seeded(lambda: F.dropout1d(image, 0.5)),
        seeded(lambda: F.alpha_dropout(x, 0.3, training=True)),
        seeded(lambda: F.feature_alpha_dropout(image, 0.3, training=True)),
        seeded(lambda: F.dropout(x, 0.0)),
        seeded(lambda: F.dropout(x, 1.0)),
        seeded(lambda: F.rrelu(-x, training=True)),
    ]


@probe()
def one_draw_after_another() -> Any:
    torch.cuda.manual_seed(3)
    g = torch.cuda.default_generators[0]
    out = []
    for draw in (
        lambda: torch.rand(1, device="cuda"),
        lambda: torch.randn(5, device="cuda"),
        lambda: torch.randint(9, (3,), device="cuda"),
        lambda: torch.randperm(4, device="cuda"),
        lambda: F.dropout(torch.ones(3, device="cuda")),
        lambda: torch.rand(1000, 100, device="cuda")[0, :2],
        lambda: torch.normal(torch.zeros(3, device="cuda"), 2.0),
        lambda: torch.empty(0, device="cuda").uniform_(),
    ):
        value = draw()
        out.append([numbers(value), g.get_offset()])
    return out


@probe()
def offsets() -> Any:
    g = torch.Generator("cuda")
    g.manual_seed(5)
    a = torch.rand(3, device="cuda", generator=g)
    g.set_offset(0)
    b = torch.rand(3, device="cuda", generator=g)
    return [
        g.get_offset(),
        torch.equal(a, b),
        raises(lambda: g.set_offset(3)),
        raises(lambda: g.set_offset(-4)),
        raises(lambda: g.set_offset("x")),
        raises(lambda: torch.Generator().get_offset()),
        raises(lambda: torch.Generator().set_offset(4)),
    ]


@probe()
def states() -> Any:
    g = torch.Generator("cuda").manual_seed(5)
    s = g.get_state()
    torch.rand(3, device="cuda", generator=g)
    h = g.clone_state()
    k = torch.Generator("cuda")
    k.graphsafe_set_state(g.graphsafe_get_state())
    return [
        s.dtype,
        list(s.shape),
        s.device,
        s.tolist(),
        h.get_state().tolist() == g.get_state().tolist(),
        k.get_offset(),
        raises(lambda: g.set_state(torch.zeros(5, dtype=torch.uint8))),
        raises(lambda: g.set_state(s.cuda())),
        raises(lambda: g.set_state([1, 2])),
        raises(lambda: g.set_state(torch.get_rng_state())),
    ]


@probe()
def generators() -> Any:
    g = torch.Generator("cuda")
    return [
        str(g.device),
        g.initial_seed(),
        g.get_offset(),
        raises(lambda: torch.Generator("cuda:9")),
        raises(lambda: torch.rand(2, device="cuda", generator=torch.Generator())),
        raises(lambda: torch.rand(2, generator=g)),
        raises(lambda: torch.randperm(3, device="cuda", generator=torch.Generator())),
        raises(lambda: torch.zeros(3, device="cuda").normal_(generator=torch.Generator())),
        raises(lambda: torch.bernoulli(torch.ones(2, device="cuda"), generator=torch.Generator())),
        raises(lambda: g.manual_seed("x")),
        raises(lambda: g.manual_seed(1 << 65)),
        repr(g)[:40],
        raises(lambda: torch.Generator("cuda").seed() >= 0),
    ]


@probe()
def seeds() -> Any:
    torch.manual_seed(42)
    a = torch.rand(2, device="cuda")
    torch.cuda.manual_seed(42)
    b = torch.rand(2, device="cuda")
    torch.cuda.manual_seed(-1)
    c = torch.cuda.initial_seed()
    torch.random.manual_seed(-3)
    return [
        numbers(a),
        torch.equal(a, b),
        c,
        torch.cuda.initial_seed(),
        torch.initial_seed(),
        raises(lambda: torch.manual_seed(1 << 64)),
        raises(lambda: torch.cuda.manual_seed(None)),
    ]


@probe()
def initialisations() -> Any:
    def made(init: Any) -> Any:
        torch.cuda.manual_seed(9)
        return numbers(init(torch.empty(2, 3, device="cuda")))

    i = torch.nn.init
    return [
        made(f)
        for f in (
            i.uniform_,
            i.normal_,
            i.xavier_uniform_,
            i.xavier_normal_,
            i.kaiming_uniform_,
            i.kaiming_normal_,
            i.trunc_normal_,
        )
    ]


@probe()
def distributions_of_torch() -> Any:
    d = torch.distributions
    one = torch.ones(2, device="cuda")
    out = []
    for dist in (
        d.Normal(one, one),
        d.Uniform(-one, one),
        d.Categorical(torch.tensor([0.3, 0.7], device="cuda")),
        d.Bernoulli(one / 2),
        d.Exponential(one),
        d.Laplace(one, one),
        d.Gumbel(one, one),
        d.LogNormal(one, one),
        d.Cauchy(one, one),
        d.Geometric(one / 3),
        d.Poisson(one * 4),
        d.OneHotCategorical(torch.tensor([0.3, 0.7], device="cuda")),
        d.HalfNormal(one),
        d.Weibull(one, one),
    ):
        torch.cuda.manual_seed(13)
        out.append([type(dist).__name__, numbers(dist.sample((2,)))])
    return out


@probe()
def attention_dropout() -> Any:
    torch.cuda.manual_seed(2)
    q = torch.ones(1, 1, 4, 8, device="cuda")
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        y = F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    return [numbers(y[0, 0, :, 0]), torch.cuda.default_generators[0].get_offset()]


@probe()
def forks_of_generators() -> Any:
    torch.manual_seed(1)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        inside = torch.rand(2, device="cuda")
    with torch.random.fork_rng(devices=[]):
        torch.rand(2, device="cuda")
    return [
        inside,
        torch.rand(2, device="cuda"),
        raises(lambda: torch.random.fork_rng(devices=[99]).__enter__()),
        raises(lambda: torch.random.fork_rng(device_type="bogus").__enter__()),
    ]


@probe()
def noise_of_layers() -> Any:
    torch.cuda.manual_seed(4)
    x = torch.zeros(2, 3, device="cuda")
    out = [
        numbers(F.gumbel_softmax(x, tau=0.5)),
        numbers(F.gumbel_softmax(x, hard=True)),
        torch.cuda.default_generators[0].get_offset(),
    ]
    lstm = torch.nn.LSTM(2, 2, 2, dropout=0.5, device="cuda")
    lstm(torch.ones(3, 1, 2, device="cuda"))
    return [out, numbers(torch.rand(2, device="cuda"))]


@probe()
def large_draws() -> Any:
    torch.cuda.manual_seed(6)
    x = torch.rand(1_000_003, device="cuda")
    a = [numbers(x[[0, 1, 500_000, -1]]), torch.cuda.default_generators[0].get_offset()]
    y = torch.randn(3_000_001, device="cuda")
    b = [numbers(y[[0, 1, 2_000_000, -1]]), torch.cuda.default_generators[0].get_offset()]
    z = torch.randperm(50_000, device="cuda")
    return [a, b, numbers(z[:5]), torch.cuda.default_generators[0].get_offset()]


@probe()
def layouts_and_draws() -> Any:
    torch.cuda.manual_seed(8)
    x = torch.empty(4, 4, device="cuda").t().uniform_()
    y = torch.empty(4, 8, device="cuda")[:, ::2].normal_()
    z = torch.rand(2, 3, 2, 2, device="cuda").to(memory_format=torch.channels_last)
    return [
        numbers(x),
        numbers(y),
        numbers(F.dropout(z, 0.5)),
        numbers(torch.rand_like(z)),
        torch.cuda.default_generators[0].get_offset(),
    ]


@probe()
def bad_parameters() -> Any:
    x = torch.zeros(3, device="cuda")
    return list(
        every(
            (
                "x.normal_(0, -1)",
                "x.uniform_(2, 1)",
                "x.exponential_(-1)",
                "x.geometric_(2)",
                "x.bernoulli_(2)",
                "x.log_normal_(0, -1)",
                "x.cauchy_(0, -1)",
                "x.random_(5, 2)",
                "torch.randint(5, 2, (3,), device='cuda')",
                "torch.randint(0, 300, (3,), dtype=torch.uint8, device='cuda')",
                "torch.normal(x, -1.0)",
                "torch.rand(3, dtype=torch.int64, device='cuda')",
                "torch.randn(3, dtype=torch.bool, device='cuda')",
                "torch.randperm(-1, device='cuda')",
                "torch.randperm(300, dtype=torch.uint8, device='cuda')",
                "F.dropout(x, 1.5)",
                "torch.normal(x, x - 1)",
            ),
            lambda text: eval(text, {"x": x, "torch": torch, "F": F}),
        )
    )
