"""The redirection table: cell by cell as a function, and through real tensors on the ``cpu`` driver."""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from cases import harness
from conftest import ORDERS, run_python

from torchdevice_cuda.translate import policy
from torchdevice_cuda.translate.policy import Override, Request, default_policy, destination

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
    assert [override.on, override.toggle(), override.toggle(), override.toggle()] == [False, True, False, True]
    override.reset()
    assert not override.on


def test_override_counts_every_toggle_of_every_thread() -> None:
    override, seen = Override(), []

    def work() -> None:
        seen.extend(override.toggle() for _ in range(2000))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A toggle that two threads saw as the same one would leave more of one state than of the other.
    assert not override.on and seen.count(True) == seen.count(False) == 8000


# ------------------------------------------------------------------- the translator, any column
class Machine:
    """A driver for a translator's questions, with the accelerator of a column."""

    redirects_by_default = True
    forked = False

    def __init__(self, device_type: str) -> None:
        self.device_type = device_type

    def in_bad_fork(self) -> bool:
        return self.forked

    def check(self, index: int) -> int:
        if index:
            raise RuntimeError("CUDA error: invalid device ordinal")
        return index


def translator(accelerator: str, chosen: str) -> Any:
    pytest.importorskip("torch")
    from torchdevice_cuda import settings
    from torchdevice_cuda.translate.devices import Translator

    return Translator(Machine(accelerator), settings.load({"policy": chosen}))  # type: ignore[arg-type]


@pytest.mark.parametrize("accelerator", COLUMNS)
@pytest.mark.parametrize("chosen", [A, F])
def test_requests_as_programs_write_them(accelerator: str, chosen: str) -> None:
    import torch

    made = translator(accelerator, chosen)
    column = COLUMNS.index(accelerator)
    for request in TABLE:
        if request.type is None or request.index == 2:
            continue
        cell = TABLE[request][0 if chosen == A else 1][column]
        text = request.type if request.index is None else f"{request.type}:{request.index}"
        forms = [text] if request.index == -1 else [text, torch.device(text)]
        for form in forms:
            for _ in range(2):  # worked out, and from the cache
                got = made.device(form)
                assert (got.type, got.index or 0) == (cell.type, cell.index or 0), (form, got)
        if request.index == -1:
            made.device(text)  # off again
    assert made.device(0).type == {"mps": "mps", "cuda": "cuda", "cpu": "cpu"}[accelerator]
    assert made.names_cuda("cuda") and made.names_cuda(0) and not made.names_cuda("cpu") and not made.names_cuda("mps")
    unasked = TABLE[Request(None)][0 if chosen == A else 1][column]
    assert (made.unasked.type if made.unasked is not None else "cpu") == unasked.type


@pytest.mark.parametrize("accelerator", ["mps", "cuda"])
def test_toggle_through_the_translator(accelerator: str) -> None:
    import torch

    made = translator(accelerator, A)

    def cpus() -> list[str]:
        return [made.device(form).type for form in ("cpu", "cpu:0", torch.device("cpu"), "cuda", "mps")]

    redirected = [accelerator] * 5
    assert cpus() == redirected
    assert made.device("cpu:-1").type == "cpu"
    assert cpus() == ["cpu", "cpu", "cpu", accelerator, accelerator]
    assert made.device("cpu:-1").type == "cpu"
    assert cpus() == redirected


def test_forked_children_keep_the_cpu() -> None:
    from torchdevice_cuda.translate.devices import _in_child

    made = translator("cuda", A)
    assert made.device("cpu").type == "cuda" and made.injects()
    made.driver.forked = True
    _in_child(made)()
    assert made.device("cpu").type == "cpu" and not made.injects()


# --------------------------------------------------------------------------------- real tensors
@functools.cache
def outcome(policy_: str | None, order: str = "before") -> dict[str, Any]:
    settings = "driver='cpu'" + (f", policy={policy_!r}" if policy_ else "")
    program = harness.program("policy", ORDERS[order].format(settings=settings))
    return harness.results(run_python(program).stdout)


@pytest.mark.parametrize("policy_", [None, A])
@pytest.mark.parametrize("case", harness.names("policy"))
def test_real_tensors(case: str, policy_: str | None) -> None:
    got = outcome(policy_)[case]
    assert "error" not in got, got["error"]


ORDINAL = "(RuntimeError|AcceleratorError): CUDA error: invalid device ordinal"
BAD = {
    "'cuda:99'": ORDINAL,
    "99": ORDINAL,
    "device(type='cuda', index=99)": ORDINAL,
    "'cuda:x'": "RuntimeError: Invalid device string: 'cuda:x'",
    "'cuda:-1'": "RuntimeError: Invalid device string: 'cuda:-1'",
    "'cuda:0:1'": "RuntimeError: Invalid device string: 'cuda:0:1'",
    "'gpu'": "RuntimeError: Expected one of cpu, cuda,",
    "''": "RuntimeError: Device string must not be empty",
    "True": "TypeError: .*argument 'device' must be torch.device, not bool",
    "1.5": "TypeError: .*must be torch.device, not float",
    "[]": "TypeError: .*argument 'device' must be torch.device, not list",
    "{}": "TypeError: .*argument 'device' must be torch.device, not dict",
}


@pytest.mark.parametrize("request_", BAD)
def test_bad_requests_get_the_errors_of_torch_and_cuda(request_: str) -> None:
    seen = outcome(None)["bad_requests"]["value"]
    kinds = [kind for kind in ("zeros", "like", "to") if f"{kind} {request_}" in seen]
    assert len(kinds) >= 2
    for kind in kinds:
        assert re.match(BAD[request_], seen[f"{kind} {request_}"]), (kind, seen[f"{kind} {request_}"])


def test_redirections_are_logged_once_per_call_site(run: Callable) -> None:
    done = run(
        """
        import logging, sys
        records = []
        class Keep(logging.Handler):
            def emit(self, record): records.append(record.getMessage())
        logger = logging.getLogger("torchdevice_cuda")
        logger.addHandler(Keep())
        records.clear()
        def line(): return sys._getframe(1).f_lineno
        expected = []
        for _ in range(3):
            torch.zeros(1, device="cuda"); expected.append(line())
            torch.zeros(1, device="cuda"); expected.append(line())
            torch.ones(1).to("cuda:0"); expected.append(line())
            torch.nn.Linear(1, 1).to("mps"); expected.append(line())
            torch.zeros(1); torch.zeros(1, device="cpu"); torch.ones(1).cpu()
        places = [int(text.split(":")[1]) for text in records]
        assert places == expected[:4], (records, expected)
        assert all(text.startswith(__file__ + ":") for text in records), records
        assert records[0].endswith(": cuda goes to cpu") and "cuda:0 goes to cpu" in records[2], records
        assert "mps goes to cpu" in records[3], records
        """,
        log_level="INFO",
    )
    assert done.returncode == 0


def test_nothing_is_logged_by_default(run: Callable) -> None:
    done = run("torch.zeros(1, device='cuda').cuda().cpu()")
    assert "goes to" not in done.stderr + done.stdout
