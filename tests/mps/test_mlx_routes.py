"""MLX or the CPU: measured on the program's own calls, kept for later processes, and never seen in results."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import in_child

from torchdevice_cuda.fallback import mlx_ops, mlx_routes, thresholds
from torchdevice_cuda.fallback.operators import Shape, overload
from torchdevice_cuda.report.departures import departures

from .caches import cached_in

pytestmark = pytest.mark.skipif(not mlx_routes.installed(), reason="MLX is not installed")
COUNT = 2**20
CLASS = COUNT.bit_length()
X = torch.randn(COUNT)
STEPS = torch.rand(COUNT)
EXPECTED = torch.heaviside(X, STEPS)


class Clock:
    """Time as the routes see it: a busy machine must not decide who wins."""

    #: Seconds that the CPU takes for anything.
    CPU = 0.01

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        """Asked before and after: what is between takes as long as the CPU."""
        self.now += self.CPU
        return self.now

    def monotonic(self) -> float:
        return self.now


class Mlx:
    """MLX's part in a test: how long it takes, what it was asked, what it answers."""

    def __init__(self, clock: Clock) -> None:
        self.calls, self.inside, self.most = 0, 0, 0
        self.seconds = 0.0
        self.error: Exception | None = None
        self.garbage = torch.full((COUNT,), 7.0)
        self._clock = clock

    def run(self, entry: mlx_ops.Entry, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.calls += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.01)  # for other threads to come in, if they may
        self._clock.now += self.seconds - Clock.CPU
        self.inside -= 1
        if self.error is not None:
            raise self.error
        return self.garbage


@pytest.fixture
def mlx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mlx:
    """Return an MLX that answers at once with something recognisable; nothing is quick enough for the CPU."""
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(mlx_routes, "QUICK", 0.0)
    clock = Clock()
    monkeypatch.setattr(mlx_routes, "time", clock)
    made = Mlx(clock)
    monkeypatch.setattr(mlx_ops, "run", made.run)
    return made


class Operator:
    """An operator under the routes of one process."""

    def __init__(self, routes: mlx_routes.Routes, op: Any) -> None:
        self.op, self.route = op, routes.of(Shape.of(op))

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[str, Any]:
        where, inner = self.route(args, kwargs)
        return where, (inner or self.op)(*args, **kwargs)


@pytest.fixture
def process() -> Iterator[Callable[..., mlx_routes.Routes]]:
    """Return the results of a new process."""
    made: list[mlx_routes.Routes] = []

    def start(setting: str = "auto", left: Callable[..., None] = lambda *row: None) -> mlx_routes.Routes:
        made.append(mlx_routes.Routes(setting, left))
        return made[-1]

    yield start
    for routes in made:
        routes.close()


heaviside = torch.ops.aten.heaviside.default


def test_while_measuring_the_program_gets_the_cpus_result(mlx: Mlx, process: Callable) -> None:
    step = Operator(process(), heaviside)
    for _ in range(mlx_routes.ROUNDS):
        where, given = step(X, STEPS)
        assert where == "CPU"
        assert torch.equal(given, EXPECTED)
    assert mlx.calls == mlx_routes.ROUNDS
    where, given = step(X, STEPS)
    assert where == "MLX"
    assert given is mlx.garbage


def test_the_slower_backend_is_not_called_again(mlx: Mlx, process: Callable) -> None:
    mlx.seconds = 0.1
    step = Operator(process(), heaviside)
    seen = [step(X, STEPS)[0] for _ in range(5)]
    assert seen == ["CPU"] * 5
    assert mlx.calls == mlx_routes.ROUNDS


def test_classes_and_dtypes_are_decided_apart(mlx: Mlx, process: Callable) -> None:
    step = Operator(process(), heaviside)
    for _ in range(3):
        step(X, STEPS)
    assert step(X, STEPS)[0] == "MLX"
    assert step(X[:1000], STEPS[:1000])[0] == "CPU"
    assert step(X.half(), STEPS.half())[0] == "CPU"
    assert step(X.double(), STEPS.double())[0] == "CPU"


@pytest.mark.parametrize("seconds, where", [(0.0, "MLX"), (0.1, "CPU")])
def test_the_next_process_does_not_measure(
    mlx: Mlx, process: Callable, tmp_path: Path, seconds: float, where: str
) -> None:
    mlx.seconds = seconds
    first = process()
    step = Operator(first, heaviside)
    for _ in range(mlx_routes.ROUNDS):
        step(X, STEPS)
    first.close()
    mlx.calls = 0
    assert Operator(process(), heaviside)(X, STEPS)[0] == where
    assert mlx.calls == (where == "MLX")
    assert [entry.name for entry in tmp_path.iterdir()] == [thresholds.FILE]


def test_two_processes_keep_each_others_figures(mlx: Mlx, process: Callable) -> None:
    one, other = process(), process()
    first, second = Operator(one, heaviside), Operator(other, torch.ops.aten.take.default)
    for _ in range(mlx_routes.ROUNDS):
        first(X, STEPS)
        second(X, torch.zeros(COUNT, dtype=torch.int64))
    one.close()
    other.close()
    known = thresholds.Figures()
    assert known.measured(("heaviside", "float32", CLASS))
    assert known.measured(("take", "float32", CLASS))


def test_another_machines_figures_do_not_count(mlx: Mlx, process: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    known = thresholds.Figures()
    known.add(("heaviside", "float32", CLASS), (1.0, 0.1))
    known.save()
    assert Operator(process(), heaviside)(X, STEPS)[0] == "MLX"
    monkeypatch.setattr(thresholds, "machine", lambda: "another")
    assert Operator(process(), heaviside)(X, STEPS)[0] == "CPU"


@pytest.mark.parametrize("broken", ["{", "[]", '{"KEY": 5}', '{"KEY": [["heaviside", 1]]}'])
def test_a_broken_file_is_ignored_with_a_line(
    mlx: Mlx, process: Callable, tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    (tmp_path / thresholds.FILE).write_text(broken.replace("KEY", thresholds.machine()))
    routes = process()
    step = Operator(routes, heaviside)
    assert torch.equal(step(X, STEPS)[1], EXPECTED)
    assert len([record for record in caplog.records if thresholds.FILE in record.getMessage()]) == 1
    step(X, STEPS)
    routes.close()
    assert len(json.loads((tmp_path / thresholds.FILE).read_text())[thresholds.machine()]) == 1


def test_fast_and_small_calls_are_not_measured(mlx: Mlx, process: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Operator(process(), heaviside)
    assert step(X[:63], STEPS[:63])[0] == "CPU"
    assert mlx.calls == 0
    monkeypatch.setattr(mlx_routes, "QUICK", 60.0)
    assert [step(X, STEPS)[0] for _ in range(3)] == ["CPU"] * 3
    assert mlx.calls == 0


def test_in_place_calls_follow_the_measured_route(mlx: Mlx, process: Callable) -> None:
    routes = process()
    step, in_place = Operator(routes, heaviside), Operator(routes, torch.ops.aten.heaviside_.default)
    out = Operator(routes, torch.ops.aten.heaviside.out)
    target = torch.empty(0)
    for _ in range(3):
        same = X.clone()
        assert in_place(same, STEPS)[0] == "CPU"
        assert torch.equal(same, EXPECTED)
        assert out(X, STEPS, out=target)[0] == "CPU"
        assert torch.equal(target, EXPECTED)
    assert mlx.calls == 0
    for _ in range(mlx_routes.ROUNDS):
        step(X, STEPS)
    same = X.clone()
    assert in_place(same, STEPS)[0] == "MLX"
    assert torch.equal(same, mlx.garbage)
    assert out(X, STEPS, out=target)[0] == "MLX"
    assert torch.equal(target, mlx.garbage)


def test_random_operators_have_no_route(process: Callable) -> None:
    assert process("always").of(Shape.of(torch.ops.aten.poisson.default)) is None


def test_measuring_ends_where_it_costs_too_much(mlx: Mlx, process: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_routes, "ALLOWANCE", 0.05)
    monkeypatch.setattr(mlx_routes, "SHARE", 0.0)
    mlx.seconds = 0.06
    step = Operator(process(), heaviside)
    assert [step(X[:size], STEPS[:size])[0] for size in (COUNT, 2**14, 2**13)] == ["CPU"] * 3
    assert mlx.calls == 1


@pytest.mark.parametrize("smaller, where", [((1.0, 0.1), "MLX"), ((1.0, 2.0), "CPU"), (None, "CPU")])
def test_costly_calls_use_the_next_smaller_size_class(
    mlx: Mlx, process: Callable, monkeypatch: pytest.MonkeyPatch, smaller: thresholds.Pair | None, where: str
) -> None:
    monkeypatch.setattr(mlx_routes, "ALLOWANCE", 0.0)
    monkeypatch.setattr(mlx_routes, "SHARE", 0.0)
    if smaller is not None:
        known = thresholds.Figures()
        known.add(("heaviside", "float32", 12), smaller)
        known.save()
    step = Operator(process(), heaviside)
    step(X, STEPS)
    assert step(X, STEPS)[0] == where


def test_shipped_sizes_count_where_nothing_was_measured(
    mlx: Mlx, process: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "defaults.json"
    file.write_text(json.dumps({thresholds.kind(): {"least": {"heaviside": {"float32": 2**18}}}}))
    monkeypatch.setattr(thresholds, "DEFAULTS", file)
    monkeypatch.setattr(mlx_routes, "ALLOWANCE", -1.0)
    step = Operator(process(), heaviside)
    assert step(X, STEPS)[0] == "MLX"
    assert step(X[:1000], STEPS[:1000])[0] == "CPU"
    file.write_text(json.dumps({"another kind": {"least": {"heaviside": {"float32": 2**18}}}}))
    assert Operator(process(), heaviside)(X, STEPS)[0] == "CPU"


def test_the_shipped_table_holds_operators_of_the_mlx_table() -> None:
    for entry in json.loads(thresholds.DEFAULTS.read_text()).values():
        assert set(entry["least"]) <= set(mlx_ops.TABLE)
        assert entry["measured"]


def test_threads_measure_one_at_a_time(mlx: Mlx, process: Callable) -> None:
    mlx.seconds = 0.1
    step = Operator(process(), heaviside)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(5):
            where, given = step(X, STEPS)
            if where != "CPU" or not torch.equal(given, EXPECTED):
                wrong.append(where)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert mlx.most == 1
    assert mlx.calls == mlx_routes.ROUNDS


def test_an_mlx_that_fails_is_given_up(mlx: Mlx, process: Callable) -> None:
    mlx.error = RuntimeError("[metal] no")
    routes = process()
    step = Operator(routes, heaviside)
    seen = [step(X, STEPS) for _ in range(5)]
    assert {where for where, _ in seen} == {"CPU"}
    assert all(torch.equal(given, EXPECTED) for _, given in seen)
    assert mlx.calls == mlx_routes.ROUNDS


def test_a_failure_later_on_goes_to_the_cpu(mlx: Mlx, process: Callable) -> None:
    left: list[tuple] = []
    step = Operator(process("always", lambda *row: left.append(row)), heaviside)
    assert step(X, STEPS) == ("MLX", mlx.garbage)
    mlx.error = ValueError("no")
    assert torch.equal(step(X, STEPS)[1], EXPECTED)
    assert left == [("aten::heaviside", "CPU", mlx_routes.MLX_FAILED)]


def test_off_and_absent(mlx: Mlx, process: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    assert process("off").of(Shape.of(heaviside)) is None
    monkeypatch.setattr(mlx_routes, "installed", lambda: False)
    assert process("always").of(Shape.of(heaviside)) is None


@pytest.mark.parametrize(
    "name, entry",
    [
        ("heaviside", "heaviside"),
        ("heaviside.out", "heaviside"),
        ("heaviside_", "heaviside"),
        ("max.unary_out", "max"),
        ("std.correction_out", "std.correction"),
        ("_linalg_eigh.eigenvalues", "_linalg_eigh"),
        ("put_", None),
        ("mode", None),
    ],
)
def test_forms_of_an_operator_share_its_entry(name: str, entry: str | None) -> None:
    assert mlx_routes.functional(overload(name)) == entry


def calculate() -> dict[str, Any]:
    """Return how often MLX was called, and the backends of the four results."""
    asked: list[int] = []
    run = mlx_ops.run

    def counted(*args: Any, **kwargs: Any) -> Any:
        asked.append(1)
        return run(*args, **kwargs)

    mlx_ops.run = counted
    torch.manual_seed(0)
    m = torch.randn(100, 100)
    m = m + m.T
    for _ in range(4):
        assert torch.allclose(torch.linalg.eigvalsh(m.cuda()).cpu(), torch.linalg.eigvalsh(m), atol=1e-3)
    return {"asked": len(asked), "where": {where: count for count, _, where, _ in departures.rows()}}


@pytest.mark.native
@pytest.mark.mps
def test_one_program_measures_and_the_next_does_not(tmp_path: Path) -> None:
    place, file = cached_in(tmp_path), tmp_path / thresholds.FILE
    first = in_child(calculate, place)
    assert first["asked"] - first["where"].get("MLX", 0) == mlx_routes.ROUNDS
    assert first["where"]["CPU"] >= mlx_routes.ROUNDS
    measured = file.read_text()
    (((name, dtype, size, on_cpu, through_mlx),),) = json.loads(measured).values()
    assert (name, dtype, size) == ("_linalg_eigh", "float32", (100 * 100).bit_length())
    second = in_child(calculate, place)
    winner = "MLX" if thresholds.wins((on_cpu, through_mlx)) else "CPU"
    assert second["where"] == {winner: 4}
    assert second["asked"] == second["where"].get("MLX", 0)
    assert file.read_text() == measured
