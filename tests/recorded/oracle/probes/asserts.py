"""Kernels that find something wrong while they run: the process' device is lost, which each of these probes uses up."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from recorded.oracle.probing import kind, probe, raises


def lost(work: Any) -> Any:
    """Return the error at the call or at the next synchronization, and whether the device works afterwards."""
    return [
        raises(lambda: (work(), torch.cuda.synchronize())),
        kind(lambda: torch.zeros(2, device="cuda")),
        kind(torch.cuda.synchronize),
        kind(lambda: torch.ones(2).cuda().cpu()),
    ]


def cuda(*values: int) -> torch.Tensor:
    return torch.tensor(values, device="cuda")


@probe(alone=True)
def index() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x[cuda(5)])


@probe(alone=True)
def index_put() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x.index_put_((cuda(7),), torch.ones(1, device="cuda")))


@probe(alone=True)
def embedding() -> Any:
    w = torch.ones(3, 2, device="cuda")
    return lost(lambda: F.embedding(cuda(9), w))


@probe(alone=True)
def cross_entropy() -> Any:
    x = torch.ones(2, 3, device="cuda")
    return lost(lambda: F.cross_entropy(x, cuda(0, 5)))


@probe(alone=True)
def nll_loss_of_images() -> Any:
    x = torch.ones(1, 3, 2, 2, device="cuda")
    return lost(lambda: F.nll_loss(x, torch.full((1, 2, 2), 9, device="cuda")))


@probe(alone=True)
def gather() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x.gather(0, cuda(9)))


@probe(alone=True)
def scatter() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x.scatter_(0, cuda(9), 1.0))


@probe(alone=True)
def scatter_add() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x.scatter_add_(0, cuda(9), torch.ones(1, device="cuda")))


@probe(alone=True)
def index_select() -> Any:
    x = torch.ones(3, 2, device="cuda")
    return lost(lambda: x.index_select(0, cuda(9)))


@probe(alone=True)
def index_add() -> Any:
    x = torch.ones(3, 2, device="cuda")
    return lost(lambda: x.index_add_(0, cuda(9), torch.ones(1, 2, device="cuda")))


@probe(alone=True)
def index_fill() -> Any:
    x = torch.ones(3, 2, device="cuda")
    return lost(lambda: x.index_fill_(0, cuda(9), 1.0))


@probe(alone=True)
def take() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x.take(cuda(9)))


@probe(alone=True)
def put() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x.put_(cuda(9), torch.ones(1, device="cuda")))


@probe(alone=True)
def one_hot() -> Any:
    return lost(lambda: F.one_hot(cuda(0, 4), 3))


@probe(alone=True)
def one_hot_of_negatives() -> Any:
    return lost(lambda: F.one_hot(cuda(-1), 3))


@probe(alone=True)
def multinomial_of_negatives() -> Any:
    return lost(lambda: torch.multinomial(torch.tensor([0.5, -1.0], device="cuda"), 1))


@probe(alone=True)
def multinomial_of_nothing() -> Any:
    return lost(lambda: torch.multinomial(torch.zeros(3, device="cuda"), 1, replacement=True))


@probe(alone=True)
def bernoulli_of_two() -> Any:
    return lost(lambda: torch.bernoulli(torch.full((2,), 2.0, device="cuda")))


@probe(alone=True)
def binary_cross_entropy() -> Any:
    return lost(lambda: F.binary_cross_entropy(torch.full((2,), 2.0, device="cuda"), torch.ones(2, device="cuda")))


@probe(alone=True)
def an_assertion_of_the_program() -> Any:
    return lost(lambda: torch._assert_async(torch.zeros(1, device="cuda")))


@probe(alone=True)
def an_assertion_with_words() -> Any:
    return lost(lambda: torch.ops.aten._assert_async.msg(torch.zeros(1, device="cuda"), "my words"))


@probe(alone=True)
def embedding_bag() -> Any:
    w = torch.ones(3, 2, device="cuda")
    return lost(lambda: F.embedding_bag(cuda(0, 9), w, cuda(0)))


@probe(alone=True)
def bincount_of_negatives() -> Any:
    return lost(lambda: torch.bincount(cuda(1, -1)))


@probe(alone=True)
def negative_index_within() -> Any:
    x = torch.arange(3.0, device="cuda")
    return [x[cuda(-1)], raises(lambda: x.gather(0, cuda(0, 2))), raises(lambda: x.take(cuda(-1)))]


@probe(alone=True)
def gather_of_a_negative() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x.gather(0, cuda(-1)))


@probe(alone=True)
def max_unpool() -> Any:
    x = torch.ones(1, 1, 1, device="cuda")
    return lost(lambda: F.max_unpool1d(x, torch.full((1, 1, 1), 99, device="cuda"), 2))


@probe(alone=True)
def ctc_loss() -> Any:
    return lost(
        lambda: F.ctc_loss(
            torch.ones(4, 1, 3, device="cuda").log_softmax(2), torch.full((1, 2), 9, device="cuda"), cuda(4), cuda(2)
        )
    )


@probe(alone=True)
def multi_margin_loss() -> Any:
    return lost(lambda: F.multi_margin_loss(torch.ones(2, 3, device="cuda"), cuda(0, 9)))


@probe(alone=True)
def after_a_loss_the_context() -> Any:
    x = torch.ones(3, device="cuda")
    first = raises(lambda: (x[cuda(5)], torch.cuda.synchronize()))
    return [
        first[0],
        raises(lambda: x + 1),
        raises(lambda: x.cpu()),
        kind(lambda: torch.cuda.Event().record()),
        kind(lambda: torch.cuda.Stream()),
        torch.cuda.is_available(),
        torch.cuda.device_count() > 0,
        kind(lambda: torch.cuda.memory_allocated()),
        kind(lambda: str(x)),
        kind(lambda: torch.cuda.empty_cache()),
        kind(lambda: torch.cuda.mem_get_info()),
    ]


@probe(alone=True)
def without_a_synchronisation() -> Any:
    x = torch.ones(3, device="cuda")
    out = [raises(lambda: str(x[cuda(5)].shape))]
    return [*out, kind(lambda: x.sum().item())]


@probe(alone=True)
def the_error_itself() -> Any:
    x = torch.ones(3, device="cuda")
    try:
        x[cuda(5)]
        torch.cuda.synchronize()
    except Exception as error:
        return [
            [c.__name__ for c in type(error).__mro__],
            getattr(error, "error_code", None),
            [line for line in str(error).splitlines() if line],
        ]
    return "none"


@probe(alone=True)
def masked_scatter_of_too_few() -> Any:
    x = torch.ones(3, device="cuda")
    return lost(lambda: x.masked_scatter(x > 0, torch.ones(1, device="cuda")))


@probe(alone=True)
def repeats_below_zero() -> Any:
    return lost(lambda: cuda(1, 2).repeat_interleave(cuda(-1, 1)))
