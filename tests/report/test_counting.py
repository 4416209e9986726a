"""Counts of the report: requests by requested device, resulting device and call site."""

from __future__ import annotations

import dataclasses
import io
import operator
import threading
import time
from pathlib import Path

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, in_child, outcome, run_forked

import torchdevice_cuda
from torchdevice_cuda.report.builds import BuildTime
from torchdevice_cuda.report.counters import MOST_ROWS, OTHER_SITES, Counters
from torchdevice_cuda.report.document import Document, Process, Site, Span, Timeline, Work
from torchdevice_cuda.report.graphics import bar, timeline
from torchdevice_cuda.report.page import cells
from torchdevice_cuda.report.verdict import verdict
from torchdevice_cuda.shadow import absent

from .reading import counts, read

CUDA = ChildConfig("cuda faithful", {"driver": "cuda", "policy": "faithful"})
CUDA_ACCELERATED = ChildConfig("cuda accelerate", {"driver": "cuda", "policy": "accelerate"})
SPAN = Span("kernel", 0, 0, "aten::mm", Site("a.py", 1), 0.0, 5.0, 5.0, 1, 0, False)
#: What a report calls the GPU.
GPU = {"cpu": "cpu", "virtual": "cuda:0", "cuda": "cuda:0", "mps": "cuda:0 (mps:0)"}
FAITHFUL = [pytest.param(place, marks=place.marks, id=str(place)) for place in (CPU, VIRTUAL, MPS_FAITHFUL, CUDA)]


def make() -> int:
    return len([torch.zeros(2, device="cuda") for _ in range(3)])


def ask() -> None:
    """Request a device in one way per line; most lines first create a tensor without a device."""
    make()
    make()
    torch.ones(1).to("cuda")
    torch.ones(1).to(device="cuda:0", dtype=torch.float16)
    torch.ones(1, device="cpu").cpu()
    torch.ones(1).cuda()
    torch.ones(1).cuda().cuda(0).cpu()
    torch.nn.Linear(2, 2)
    torch.nn.Linear(2, 2, device="cuda").cpu()
    torch.nn.Linear(2, 2).cuda()
    torch.nn.Linear(2, 2).to("cuda")
    torch.ones(1, device="mps")
    with torch.device("cuda"):
        torch.ones(1)
    torch.ones(1).new_zeros(1, device="cuda")
    torch.ones_like(torch.ones(1, device="cuda"))


#: By the line of ``ask``: how many requests of each kind it makes.
ASKED = {
    3: {"no device": 1, "cuda": 1},
    4: {"no device": 1, "cuda:0": 1},
    5: {"cpu": 2},
    6: {"no device": 1, "cuda": 1},
    7: {"no device": 1, "cuda": 1, "cuda:0": 1, "cpu": 1},
    8: {"no device": 2},
    9: {"cuda": 2, "cpu": 2},
    10: {"no device": 2, "cuda": 2},
    11: {"no device": 2, "cuda": 2},
    12: {"mps": 1},
    14: {"cuda": 1},
    15: {"no device": 1, "cuda": 1},
    16: {"cuda": 1},
}


def expected(gpu: str) -> dict[tuple[str, str, int], int]:
    """Return the expected report of ``ask`` for a GPU of this name."""
    start = ask.__code__.co_firstlineno + 1
    found = {("cuda", gpu, make.__code__.co_firstlineno + 1): 6}
    for line, kinds in ASKED.items():
        for kind, number in kinds.items():
            found[kind, "cpu" if kind in ("no device", "cpu") else gpu, start + line] = number
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "report.json"


@pytest.mark.parametrize("where", FAITHFUL)
def test_every_way_of_asking_is_counted_once(where: ChildConfig, file: Path) -> None:
    in_child(ask, where.with_settings(report=str(file)))
    document = read(file)
    assert counts(document) == expected(GPU[str(where.driver)])
    assert {row.site.rpartition(":")[0] for row in document.requests} == {__file__}


def accelerated() -> None:
    torch.ones(1, device="cpu").cpu()
    torch.ones(1)


@pytest.mark.parametrize("where", [pytest.param(CUDA_ACCELERATED, marks=CUDA_ACCELERATED.marks, id="cuda")])
def test_requests_that_are_redirected_are_counted_once(where: ChildConfig, file: Path) -> None:
    in_child(accelerated, where.with_settings(report=str(file)))
    line = accelerated.__code__.co_firstlineno + 1
    assert counts(read(file)) == {("cpu", "cuda:0", line): 2, ("no device", "cuda:0", line + 1): 1}


def load() -> None:
    buffer = io.BytesIO()
    torch.save(torch.nn.Parameter(torch.ones(1, device="cuda")), buffer)
    buffer.seek(0)
    torch.load(buffer)
    buffer.seek(0)
    torch.load(buffer, map_location="cpu")


@pytest.mark.native
def test_loads_are_counted(file: Path) -> None:
    in_child(load, VIRTUAL.with_settings(report=str(file)))
    line = load.__code__.co_firstlineno
    found = counts(read(file))
    # torch asks for the storage, and for the tensor on it, on behalf of the line.
    assert found["cuda:0", "cuda:0", line + 4] >= 1
    assert found["cpu", "cpu", line + 6] >= 1


def several_devices() -> None:
    torch.ones(1, device="cuda:1")
    with torch.cuda.device(1):
        torch.ones(1, device="cuda")


@pytest.mark.native
def test_the_current_device_is_what_is_given(file: Path) -> None:
    in_child(several_devices, VIRTUAL.with_settings(report=str(file), devices=2))
    assert {key[:2] for key in counts(read(file))} == {("cuda:1", "cuda:1"), ("cuda", "cuda:1")}


def changed() -> list[str]:
    """Return the functions that are not torch's own."""
    methods = {f"torch.Tensor.{name}": getattr(torch._C.TensorBase, name) for name in ("to", "cuda", "cpu")}
    own = {"torch.zeros": torch._C._VariableFunctions.zeros, **methods}
    return sorted(
        name for name, value in own.items() if operator.attrgetter(name.removeprefix("torch."))(torch) is not value
    )


@pytest.mark.native
def test_without_a_report_nothing_is_changed_for_one(file: Path) -> None:
    assert in_child(changed, VIRTUAL) == []
    assert in_child(changed, VIRTUAL.with_settings(report=str(file))) == [
        "torch.Tensor.cpu",
        "torch.Tensor.cuda",
        "torch.Tensor.to",
        "torch.zeros",
    ]


def refused() -> None:
    with pytest.raises(NotImplementedError, match="does not have"):
        absent.stand_in("_cuda_fromTheFuture")()


def test_calls_that_are_refused_are_listed(file: Path) -> None:
    in_child(refused, CPU.with_settings(report=str(file)))
    (row,) = read(file).unsupported
    assert (row.what, row.count) == ("torch._C._cuda_fromTheFuture", 1)
    assert row.site == f"{__file__}:{refused.__code__.co_firstlineno + 2}"


def compare() -> list[bool]:
    """Return whether the program's objects are those without this report."""

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen: list[object] = []
    with Mode():
        torch.zeros(1)
        torch.ones(1, device="cpu").cpu()
    return [torch.zeros in seen, torch.ones in seen, torch.Tensor.cpu in seen, len(seen) == 3]


@pytest.mark.parametrize("where", [pytest.param(p, marks=p.marks, id=str(p)) for p in (CPU, VIRTUAL, MPS_FAITHFUL)])
def test_function_modes_see_torchs_own_names(where: ChildConfig, file: Path) -> None:
    assert in_child(compare, where.with_settings(report=str(file))) == [True] * 4


FINDINGS = """
import torch
text = "__global__ void adds(int* x) { *x += blockIdx.x + 1; }"
kernel = torch.cuda._compile_kernel(text, "adds")
kernel(grid=(2, 1, 1), block=(1, 1, 1), args=[torch.zeros(1, dtype=torch.int32, device="cuda")])
x = torch.ones(9, device="cuda")
with torch.cuda.stream(torch.cuda.Stream()):
    x.add_(1)
"""


@pytest.mark.native
def test_findings_are_data(tmp_path: Path, file: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(FINDINGS)
    options = ("--driver", "virtual", "--check-streams", "warn", "--sanitize", "racecheck", "--report", str(file))
    done = run_forked("-m", "torchdevice_cuda", *options, str(program), check=False)
    found = {one.tool: one for one in read(file).findings}
    stream, kernel = found["check-streams"], found["racecheck"]
    assert (stream.level, stream.site.line, stream.lanes) == ("warning", 8, ("stream 1", "the default stream")), done
    assert stream.other is not None
    assert stream.other.line == 6
    later, earlier = stream.points
    assert (later.device, earlier.device, earlier.stream) == (0, 0, 0)
    assert later.stream != 0
    assert 0 < earlier.at < later.at
    assert timeline(read(file))["races"] == [
        {"text": stream.text, "ends": [(0, round(earlier.at * 1e6, 1)), (1, round(later.at * 1e6, 1))]}
    ]
    summary = verdict(read(file))
    assert summary.tone == "bad"
    assert summary.text.endswith(" 2 races and errors in kernels were found.")
    assert (kernel.level, kernel.site.line, kernel.kernel) == ("error", 1, "adds")
    assert "Race reported between Read access and Write access" in kernel.text
    assert done.status == 1


def test_standard_error() -> None:
    options = ("--driver", "cpu", "--report", "-")
    done = run_forked("-m", "torchdevice_cuda", *options, "-c", "import torch; torch.zeros(1, device='cuda')")
    assert "Device requests on the cpu driver: 1\n" in done.err


def deactivate_and_read(file: str) -> str:
    torch.zeros(1, device="cuda")
    torchdevice_cuda.deactivate()
    return Path(file).read_text()


@pytest.mark.parametrize("order", ["before", "after"])
def test_deactivation_writes_it(file: Path, order: str) -> None:
    assert '"count": 1' in in_child(deactivate_and_read, CPU.with_settings(report=str(file)).when(order), str(file))


def lose_the_folder(folder: str) -> bool:
    """Deactivation goes on to its end, whatever becomes of the report."""
    torch.zeros(1, device="cuda")
    Path(folder).rmdir()
    torchdevice_cuda.deactivate()
    return torch.cuda.is_available()


def test_a_report_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    done = outcome(lose_the_folder, CPU.with_settings(report=str(folder / "report.json")), str(folder))
    assert done.value is False
    assert "was not written: No such file or directory" in done.err
    assert "Traceback" not in done.err


# ----------------------------------------------------------------------------- without torch
def test_threads_lose_no_count() -> None:
    counters, times, threads = Counters(), 2000, 8

    def work(number: int) -> None:
        for turn in range(times):
            counters.count("cuda", "cpu", f"shared:{turn % 3}")
            counters.count("cuda", "cpu", f"own:{number}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        counters.rows()  # reading meanwhile neither fails nor disturbs
    for worker in workers:
        worker.join()
    found = {row[3]: row[0] for row in counters.rows()}
    assert sum(found.values()) == 2 * times * threads
    assert all(found[f"own:{number}"] == times for number in range(threads))


def test_a_report_is_bounded() -> None:
    counters = Counters()
    for number in range(3 * MOST_ROWS):
        counters.count("cuda", "cpu", f"<generated {number}>:1")
    found = counters.rows()
    assert len(found) == MOST_ROWS + 1
    assert found[0] == (2 * MOST_ROWS, "cuda", "cpu", OTHER_SITES)


def compute_around_a_build() -> None:
    from torchdevice_cuda.report.builds import build_time

    x = torch.ones(8, device="cuda")
    x.add(1)
    with build_time.measure():
        time.sleep(2.0)
    x.mul(2)


def test_builds_are_left_out_of_the_clock(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    began = time.monotonic()
    in_child(compute_around_a_build, VIRTUAL.with_settings(report=str(file)))
    most = time.monotonic() - began - 2.0
    report = read(file)
    assert "Compiling the virtual GPU took another 2 s, once; all times leave them out." in report.notes
    last = report.timelines[0].spans[-1]
    assert last.name == "aten::mul" and last.start / 1e6 < report.seconds < most
    assert report.memory[0].curve[-1][0] < most


def test_periods_of_builds_are_joined() -> None:
    builds = BuildTime()
    for began, ended in ((10.0, 12.0), (20.0, 25.0), (11.0, 14.0)):
        builds.add(began, ended)
    assert builds.between(0, 100) == 9
    assert builds.between(13, 21) == 2


def test_children_begin_earlier_by_builds_of_the_first_process() -> None:
    builds, now = BuildTime(), time.time()
    builds.add(time.monotonic() - 60, time.monotonic() - 40)
    child = Document("virtual", "", "", "", 1.0, (Process(2, "rank", started=now - 30),), sees_device=True)
    (shifted,) = builds.shift(child, since=now - 70).processes
    assert shifted.started == pytest.approx(now - 50, abs=0.1)


def test_predicted_times_are_no_part_of_this_machines() -> None:
    work = (Work("kernel", "aten::mm", Site("a.py", 1), 3, 0.3), Work("kernel", "aten::add", Site("a.py", 2), 1, 0.1))
    document = Document("virtual", "", "", "", 2.0, (Process(2, "a.py", seconds=2.0),), sees_device=True, work=work)
    assert [part.share for part in bar(document)] == [15, 5, 80]
    assert "in 400.00 ms of the program's 2.00 s" in verdict(document).text
    predicted = dataclasses.replace(document, predicted=True)
    assert [part.share for part in bar(predicted)] == [75, 25]
    assert "in a predicted 400.00 ms; the program took 2.00 s here" in verdict(predicted).text
    assert "Times are predictions." in cells(dataclasses.replace(predicted, timelines=(Timeline(2, (SPAN,)),)))
