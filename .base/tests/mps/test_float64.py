"""float64 and complex128 on a GPU that has neither, by the setting."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MADE = """
import warnings
import numpy
warnings.simplefilter("ignore")
real = lambda x: [str(x.dtype).removeprefix("torch."), torch._C.TensorBase.device.__get__(x).type]
x = torch.ones(3, device="cuda", requires_grad=True)
ways = {
    "factory": lambda: torch.zeros(2, dtype=torch.float64, device="cuda"),
    "random": lambda: torch.rand(2, dtype=torch.float64, device="cuda"),
    "data": lambda: torch.tensor(numpy.ones(2), device="cuda"),
    "as_tensor": lambda: torch.as_tensor(numpy.ones(2), device="cuda"),
    "like": lambda: torch.zeros_like(x, dtype=torch.float64),
    "new": lambda: x.new_zeros(2, dtype=torch.float64),
    "double": lambda: x.double(),
    "to dtype": lambda: x.to(torch.float64),
    "to both": lambda: torch.ones(2).to("cuda", torch.float64),
    "move": lambda: torch.ones(2, dtype=torch.float64).to("cuda"),
    "cuda": lambda: torch.ones(2, dtype=torch.float64).cuda(),
    "type": lambda: x.type(torch.float64),
    "legacy": lambda: torch.cuda.DoubleTensor(2),
    "module": lambda: torch.nn.Linear(2, 2).cuda().double().weight,
    "module dtype": lambda: torch.nn.Linear(2, 2, dtype=torch.float64).cuda().weight,
    "sum": lambda: x.sum(dtype=torch.float64),
    "cumsum": lambda: torch.cumsum(x, 0, dtype=torch.float64),
    "power": lambda: x.float_power(2),
}
def attempt(make):
    try:
        return real(make())
    except TypeError as error:
        return str(error).split(" dtype")[0]
result = {name: attempt(make) for name, make in ways.items()}
result["complex"] = attempt(lambda: torch.zeros(2, dtype=torch.complex128, device="cuda"))
"""


@pytest.mark.parametrize(
    "choice, double, twice",
    [("downcast", ["float32", "mps"], ["complex64", "mps"]), ("cpu", ["float64", "cpu"], ["complex128", "cpu"])],
)
def test_what_becomes_of_it(on_mps: Callable, choice: str, double: list, twice: list) -> None:
    made = on_mps(MADE, float64=choice)
    assert made.pop("complex") == twice
    assert made == dict.fromkeys(made, double)


def test_raise(on_mps: Callable) -> None:
    made = on_mps(MADE, float64="raise")
    del made["complex"]  # complex128 is refused in other words
    assert set(map(str, made.values())) == {"Cannot convert a MPS Tensor to float64"}


def test_warnings_come_once_per_line_and_are_counted(on_mps: Callable) -> None:
    body = """
    import warnings
    from torchdevice_cuda.report.departures import departures
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.ones(2, device="cuda").double()
        torch.zeros(1, dtype=torch.float64, device="cuda")
    result = [[str(w.message).split(":")[0] for w in caught], [w.filename == __file__ for w in caught],
              [row for row in departures.rows() if row[1] == "float64"]]
    """
    messages, here, rows = on_mps(body)
    assert messages == ["the GPU has no float64"] * 2 and here == [True, True]
    assert rows == [[4, "float64", "float32", "the GPU has no float64"]]


def test_gradients_flow_through_a_downcast(on_mps: Callable) -> None:
    body = """
    x = torch.ones(3, device="cuda", requires_grad=True)
    (x.double() * 2).sum().backward()
    y = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (y.cuda() * 3).sum().backward()
    result = [x.grad.tolist(), y.grad.tolist(), str(y.grad.dtype)]
    """
    assert on_mps(body) == [[2, 2, 2], [3, 3, 3], "torch.float64"]


def test_checkpoints_with_doubles(on_mps: Callable) -> None:
    body = """
    import io
    file = io.BytesIO(); torch.save(torch.arange(3, dtype=torch.float64)[1:], file); file.seek(0)
    loaded = torch.load(file, map_location="cuda")
    result = [str(loaded.dtype), loaded.tolist(), loaded.is_cuda]
    """
    assert on_mps(body) == ["torch.float32", [1, 2], True]


def test_errors_of_the_program_are_its_own(on_mps: Callable) -> None:
    body = """
    errors = []
    for make in (lambda: torch.zeros(2, dtype="float64", device="cuda"), lambda: torch.zeros(-1, device="cuda"),
                 lambda: torch.ones(2, device="cuda").to("nonsense"), lambda: torch.ones(2, device="cuda").sum(9)):
        try:
            make()
        except Exception as error:
            errors.append(type(error).__name__)
    result = errors
    """
    assert on_mps(body) == ["TypeError", "RuntimeError", "RuntimeError", "IndexError"]
