"""The redirection table: cell by cell as a function, and through a translator with any accelerator."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch

from torchdevice_cuda import settings
from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.translate.core import policy
from torchdevice_cuda.translate.core.policy import Override, Request, default_policy, destination
from torchdevice_cuda.translate.core.requests import Translator, _in_child

A, F = policy.ACCELERATE, policy.FAITHFUL
CPU, MPS, CUDA = Request("cpu"), Request("mps"), Request("cuda")
#: request -> where it goes with accelerator mps, cuda, none; and the same under ``faithful``
TABLE: dict[Request, tuple[tuple[Request, Request, Request], tuple[Request, Request, Request]]] = {
    Request(None): ((MPS, CUDA, CPU), (CPU, CPU, CPU)),
    Request("cpu"): ((MPS, CUDA, CPU), (CPU, CPU, CPU)),
    Request("cpu", 0): ((MPS, CUDA, CPU), (CPU, CPU, CPU)),
    Request("cpu", 3): ((MPS, CUDA, CPU), (CPU, CPU, CPU)),
    Request("cpu", -1): ((CPU, CPU, CPU), (CPU, CPU, CPU)),
    Request("mps"): ((MPS, CUDA, CPU), (MPS, CUDA, CPU)),
    Request("mps", 0): ((MPS, CUDA, CPU), (MPS, CUDA, CPU)),
    Request("cuda"): ((MPS, CUDA, CPU), (MPS, CUDA, CPU)),
    Request("cuda", 0): ((MPS, Request("cuda", 0), CPU), (MPS, Request("cuda", 0), CPU)),
    Request("cuda", 2): ((MPS, Request("cuda", 2), CPU), (MPS, Request("cuda", 2), CPU)),
}
COLUMNS = ("mps", "cuda", "cpu")
CELLS = [
    (request, accelerator, chosen, cells[row][column])
    for request, cells in TABLE.items()
    for (row, chosen), (column, accelerator) in itertools.product(enumerate((A, F)), enumerate(COLUMNS))
]


@pytest.mark.parametrize(("request_", "accelerator", "chosen", "expected"), CELLS)
def test_cell(request_: Request, accelerator: str, chosen: str, expected: Request) -> None:
    assert destination(request_, accelerator, chosen, override=False) == expected


@pytest.mark.parametrize(("request_", "accelerator", "chosen", "expected"), CELLS)
def test_cell_while_the_override_is_on(request_: Request, accelerator: str, chosen: str, expected: Request) -> None:
    """Explicit requests for the CPU then give the CPU; nothing else changes."""
    wanted = CPU if request_.type == "cpu" else expected
    assert destination(request_, accelerator, chosen, override=True) == wanted


@pytest.mark.parametrize("kind", ["meta", "xpu", "privateuseone"])
@pytest.mark.parametrize("accelerator", COLUMNS)
@pytest.mark.parametrize("chosen", [A, F])
@pytest.mark.parametrize("override", [False, True])
def test_other_device_types_pass_through(kind: str, accelerator: str, chosen: str, override: bool) -> None:
    for request in (Request(kind), Request(kind, 1)):
        assert destination(request, accelerator, chosen, override) == request


@pytest.mark.parametrize(
    ("redirects", "allowed", "asked", "expected"),
    [
        (False, False, None, F),
        (True, False, None, A),
        (False, True, None, A),
        (True, True, None, A),
        (True, True, F, F),
        (False, False, A, A),
    ],
)
def test_policy_in_force(redirects: bool, allowed: bool, asked: str | None, expected: str) -> None:
    assert default_policy(redirects, allowed, asked) == expected


def test_override_toggles() -> None:
    override = Override()
    assert override.on is False
    assert [override.toggle(), override.toggle(), override.toggle()] == [True, False, True]
    override.reset()
    assert override.on is False


def test_override_counts_every_toggle_of_every_thread() -> None:
    override, seen = Override(), list[bool]()

    def work() -> None:
        seen.extend(override.toggle() for _ in range(2000))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A toggle that two threads saw as the same one would leave more of one state than of the other.
    assert seen.count(True) == seen.count(False) == 8000
    assert not override.on


# ------------------------------------------------------------------- the translator, any column
class Machine:
    """A driver for a translator's questions, with the accelerator of a column."""

    redirects_by_default = True
    traits = Trait.REDIRECTS
    forked = False

    def __init__(self, device_type: str) -> None:
        self.device_type = device_type

    devices = 1

    def device_count(self) -> int:
        return self.devices

    def in_bad_fork(self) -> bool:
        return self.forked

    def check(self, index: int) -> int:
        if index:
            raise RuntimeError("CUDA error: invalid device ordinal")
        return index


def translator(accelerator: str, chosen: str) -> Translator:
    return Translator(Machine(accelerator), settings.load({"policy": chosen}))  # type: ignore[arg-type]


WRITTEN = [request for request in TABLE if request.type is not None and request.index not in (2, -1)]


@pytest.mark.parametrize("request_", WRITTEN, ids=str)
@pytest.mark.parametrize("accelerator", COLUMNS)
@pytest.mark.parametrize("chosen", [A, F])
def test_requests_as_programs_write_them(request_: Request, accelerator: str, chosen: str) -> None:
    made = translator(accelerator, chosen)
    cell = TABLE[request_][0 if chosen == A else 1][COLUMNS.index(accelerator)]
    text = request_.type if request_.index is None else f"{request_.type}:{request_.index}"
    assert text is not None
    for form in (text, text, torch.device(text), torch.device(text)):  # worked out, and from the cache
        got = made.device(form)
        assert got.type == cell.type
        assert (got.index or 0) == (cell.index or 0)


@pytest.mark.parametrize("accelerator", COLUMNS)
@pytest.mark.parametrize("chosen", [A, F])
def test_the_toggle_as_programs_write_it(accelerator: str, chosen: str) -> None:
    made = translator(accelerator, chosen)
    assert made.device("cpu:-1").type == "cpu"
    assert made.device("cpu:-1").type == "cpu"


@pytest.mark.parametrize("accelerator", COLUMNS)
def test_a_number_is_the_accelerator(accelerator: str) -> None:
    assert translator(accelerator, A).device(0).type == accelerator


def test_requests_that_name_the_accelerator() -> None:
    made = translator("cuda", A)
    for request in ("cuda", 0, "cpu", "mps"):
        made.device(request)  # it is known once the request has been worked out
    assert made.names_accelerator("cuda")
    assert made.names_accelerator(0)
    assert made.names_accelerator("mps")
    assert not made.names_accelerator("cpu")


@pytest.mark.parametrize("accelerator", COLUMNS)
@pytest.mark.parametrize("chosen", [A, F])
def test_requests_without_a_device(accelerator: str, chosen: str) -> None:
    unasked = translator(accelerator, chosen).default_target
    expected = TABLE[Request(None)][0 if chosen == A else 1][COLUMNS.index(accelerator)]
    assert ("cpu" if unasked is None else unasked.type) == expected.type


@pytest.mark.parametrize("accelerator", ["mps", "cuda"])
def test_toggle_through_the_translator(accelerator: str) -> None:
    made = translator(accelerator, A)

    def cpus() -> list[str]:
        return [made.device(form).type for form in ("cpu", "cpu:0", torch.device("cpu"), "cuda", "mps")]

    redirected = [accelerator] * 5
    assert cpus() == redirected
    assert made.device("cpu:-1").type == "cpu"
    assert cpus() == ["cpu", "cpu", "cpu", accelerator, accelerator]
    assert made.device("cpu:-1").type == "cpu"
    assert cpus() == redirected


def test_without_a_device_that_the_program_may_see_nothing_is_redirected() -> None:
    machine = Machine("cuda")
    machine.devices = 0
    made = Translator(machine, settings.load({"policy": A}))  # type: ignore[arg-type]
    assert made.default_target is None
    assert made.device("cpu").type == "cpu"


def test_forked_children_keep_the_cpu() -> None:
    made = translator("cuda", A)
    assert made.device("cpu").type == "cuda"
    assert made.applies_default_target()
    made.driver.forked = True  # type: ignore[attr-defined]
    _in_child(made)()
    assert made.device("cpu").type == "cpu"
    assert not made.applies_default_target()
