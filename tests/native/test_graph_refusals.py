"""Calls that are invalid during capture: CUDA's messages and the state of the capture, as on an H200."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, child

from torchdevice_cuda._compat import instantiates_by_itself

pytestmark = child(VIRTUAL, CPU, MPS_FAITHFUL)

NOT_PERMITTED, INVALIDATED = 900, 901
PAGEABLE = (
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use "
    "tensor.pin_memory() or allocate the tensor with pin_memory=True."
)
IN_CAPTURE = (
    " during CUDA graph capture. If you need this call to be captured, please file an issue. Current "
    "cudaStreamCaptureStatus: cudaStreamCaptureStatusActive"
)
NO_OFFSET = ("RuntimeError", "CPU Generator does not use offset")
NO_POOL = "Called CUDAGraph::pool() without a preceding successful capture."
NOT_REPLAYED = (
    "capture_end() must have been called before calling instantiate"
    if instantiates_by_itself(torch.__version__)
    else "Called CUDAGraph::replay without a preceding successful capture."
)
WORDS = {
    900: "CUDA error: operation not permitted when stream is capturing",
    901: "CUDA error: operation failed due to a previous error during capture",
    904: "CUDA error: capturing stream has unjoined work",
    905: "CUDA error: dependency created on uncaptured work in another stream",
    907: "CUDA error: operation not permitted on an event last recorded in a capturing stream",
    401: "CUDA error: the operation cannot be performed in the present state",
    908: "CUDA error: attempt to terminate a thread-local capture sequence from another thread",
}


#: What goes unnoticed where the kernels are PyTorch's own. ``repr`` looks past what watches operators; what other
#: threads compute is not seen; and where the GPU's memory is the host's, nothing tells a copy between them.
_PAST_US = {"repr", "a generator's offset", "memory", "an element", "pinned memory"}
_NOT_TOLD = {"to a list", "from the host", "from the host, not waiting", "data", "indices of the host"}
UNNOTICED = {
    "virtual": set[str](),
    "mps faithful": _PAST_US,
    "cpu": _PAST_US | _NOT_TOLD | {"an unknown generator"},
}


class Scene:
    """Objects that existed before the capture, for the calls below."""

    def __init__(self) -> None:
        self.x = torch.ones(3, device="cuda")
        self.pinned = torch.full((3,), 5.0).pin_memory()
        self.other = torch.cuda.Stream()
        self.old = torch.cuda.Event(enable_timing=True)
        self.old.record()
        self.generator = torch.Generator("cuda")
        self.stream, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()

    def capture(self, body: Callable[[Scene], object], mode: str = "global") -> tuple[Any, Any]:
        """Capture the call and one more operator; return its error and that of the end of the capture."""
        with torch.cuda.stream(self.stream):
            self.graph.capture_begin(capture_error_mode=mode)
            said = told(lambda: body(self))
            assert torch.cuda.is_current_stream_capturing()
            between = told(lambda: self.x.add_(1))
            ended = told(self.graph.capture_end)
            assert not torch.cuda.is_current_stream_capturing()
        assert between is None or between == ended, "an operator fails as the end does"
        assert self.x.tolist() == [1.0] * 3, "nothing was computed"
        return said, ended

    def on_other(self, body: Callable[[], object]) -> object:
        """On a stream that no one has made take part."""
        with torch.cuda.stream(self.other):
            return body()


def told(body: Callable[[], object]) -> tuple[int, str] | tuple[str, str] | None:
    """Return the code and words of a CUDA error; the type and words of another."""
    try:
        body()
    except torch.AcceleratorError as error:
        assert str(error).startswith(WORDS[error.error_code]), str(error)
        return error.error_code, WORDS[error.error_code]
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def elapsed(scene: Scene) -> float:
    end = torch.cuda.Event(enable_timing=True)
    scene.old.record()
    end.record()
    return scene.old.elapsed_time(end)


#: Code of the error; the capture fails with it.
FAILING: dict[str, tuple[Callable[[Scene], object], int]] = {
    "item": (lambda s: s.x[0].item(), 900),
    "bool": (lambda s: bool(s.x[0] > 0), 900),
    "nonzero": (lambda s: s.x.nonzero(), 900),
    "mask": (lambda s: s.x[s.x > 0], 900),
    "to sparse": (lambda s: s.x.to_sparse(), 900),
    "equal": (lambda s: torch.equal(s.x, s.x + 1), 900),
    "repr": (lambda s: repr(s.x), 900),
    "the device": (lambda s: torch.cuda.synchronize(), 900),
    "its stream": (lambda s: s.stream.synchronize(), 900),
    "asking its stream": (lambda s: s.stream.query(), 900),
    "another stream": (lambda s: s.other.synchronize(), 900),
    "asking the default stream": (lambda s: torch.cuda.default_stream().query(), 900),
    "asking its event": (lambda s: s.stream.record_event().query(), 907),
    "its event": (lambda s: s.stream.record_event().synchronize(), 907),
    "between events": (elapsed, 907),
    "asking an event of before": (lambda s: s.old.query(), 900),
    "an event of before": (lambda s: s.old.synchronize(), 900),
    "work that is not captured": (lambda s: s.stream.wait_stream(s.other), 905),
    "an event that is not captured": (lambda s: s.stream.wait_event(s.old), 905),
    "from pinned memory, waiting": (lambda s: s.x.copy_(s.pinned), 900),
    "to pinned memory, waiting": (lambda s: s.pinned.copy_(s.x), 900),
}


@pytest.mark.parametrize("call", FAILING)
def test_a_call_that_fails_the_capture(call: str, place: ChildConfig) -> None:
    body, code = FAILING[call]
    if call in UNNOTICED[place.name]:
        assert Scene().capture(body) == (None, None)
        return
    scene = Scene()
    said, ended = scene.capture(body)
    assert said == (code, WORDS[code])
    assert ended == (INVALIDATED, WORDS[INVALIDATED])
    assert told(scene.graph.replay) == ("RuntimeError", NOT_REPLAYED)
    assert told(scene.graph.pool) == ("RuntimeError", NO_POOL)


#: What it says, in type and words; the capture goes on.
REFUSED: dict[str, tuple[Callable[[Scene], object], tuple[str, str] | None]] = {
    "to the host": (lambda s: s.x.cpu(), ("RuntimeError", PAGEABLE)),
    "to a list": (lambda s: s.x.tolist(), ("RuntimeError", PAGEABLE)),
    "from the host": (lambda s: torch.ones(3).cuda(), ("RuntimeError", PAGEABLE)),
    "from the host, not waiting": (lambda s: s.x.copy_(torch.ones(3), non_blocking=True), ("RuntimeError", PAGEABLE)),
    "data": (lambda s: torch.tensor([1.0, 2.0], device="cuda"), ("RuntimeError", PAGEABLE)),
    "indices of the host": (lambda s: s.x[torch.tensor([1])], ("RuntimeError", PAGEABLE)),
    "another capture": (
        lambda s: torch.cuda.CUDAGraph().capture_begin(),
        ("RuntimeError", "Cannot register the state during capturing stage." + IN_CAPTURE),
    ),
    "the same again": (
        lambda s: s.graph.capture_begin(),
        ("RuntimeError", "Cannot register the state during capturing stage." + IN_CAPTURE),
    ),
    "registering a generator": (
        lambda s: s.graph.register_generator_state(s.generator),
        ("RuntimeError", "Cannot register the state during capturing stage." + IN_CAPTURE),
    ),
    "an unknown generator": (
        lambda s: torch.rand(3, device="cuda", generator=s.generator),
        ("RuntimeError", "Attempt to increase offset for a CUDA generator not in capture mode."),
    ),
    "a seed": (
        lambda s: torch.cuda.manual_seed(torch.cuda.initial_seed() + 1),
        (
            "RuntimeError",
            "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as "
            "the original seed.",
        ),
    ),
    "the same seed": (lambda s: torch.cuda.manual_seed(torch.cuda.initial_seed()), None),
    "any seed": (
        lambda s: torch.cuda.seed(),
        ("RuntimeError", "Cannot call CUDAGeneratorImpl::seed" + IN_CAPTURE),
    ),
    "a generator's offset": (
        lambda s: torch.cuda.default_generators[0].get_offset(),
        ("RuntimeError", "Cannot call CUDAGeneratorImpl::get_offset" + IN_CAPTURE),
    ),
    "another end": (
        lambda s: s.on_other(s.graph.capture_end),
        ("RuntimeError", "Capture must end on the same stream it began on."),
    ),
    "replaying": (
        lambda s: s.graph.replay(),
        ("RuntimeError", NOT_REPLAYED),
    ),
    "its pool": (
        lambda s: s.graph.pool(),
        ("RuntimeError", NO_POOL),
    ),
    "an error of the program's": (lambda s: [][0], ("IndexError", "list index out of range")),
    "resetting": (lambda s: s.graph.reset(), None),
    "an event never recorded": (lambda s: s.stream.wait_event(torch.cuda.Event()), None),
    "pinned memory": (lambda s: torch.empty(1 << 22, pin_memory=True), None),
    "to pinned memory": (lambda s: s.pinned.copy_(s.x, non_blocking=True), None),
    "from pinned memory": (lambda s: s.x.copy_(s.pinned, non_blocking=True), None),
    "state": (lambda s: torch.cuda.get_rng_state(), None),
    "emptying the cache": (lambda s: torch.cuda.empty_cache(), None),
    "statistics": (
        lambda s: (torch.cuda.memory_stats(), torch.cuda.mem_get_info(), torch.cuda.memory_snapshot()),
        None,
    ),
    "a number for a mask": (lambda s: s.x.clone().__setitem__(s.x > 0, 1.0), None),
    "a stream": (lambda s: torch.cuda.Stream(), None),
    "memory": (lambda s: torch.empty(1 << 26, device="cuda"), None),
    "a fork without work": (lambda s: s.other.wait_stream(s.stream), None),
}


@pytest.mark.parametrize("call", REFUSED)
def test_a_call_after_which_the_capture_goes_on(call: str, place: ChildConfig) -> None:
    body, words = REFUSED[call]
    if call in UNNOTICED[place.name] and call != "pinned memory":
        words = NO_OFFSET if place == CPU and call == "a generator's offset" else None
    scene = Scene()
    said, ended = scene.capture(body)
    assert said == words
    assert ended is None
    scene.graph.replay()
    assert scene.x.tolist() == ([6.0] if call == "from pinned memory" else [2.0]) * 3


def _fork(scene: Scene) -> None:
    scene.other.wait_stream(scene.stream)
    scene.on_other(lambda: scene.x.mul_(2))


def _late(scene: Scene) -> None:
    _fork(scene)
    scene.stream.wait_stream(scene.other)
    scene.on_other(lambda: scene.x.mul_(2))


FORKS = {"never joined": _fork, "given more after it was joined": _late}


@pytest.mark.parametrize("side", FORKS)
def test_work_that_was_not_joined(side: str) -> None:
    scene = Scene()
    with torch.cuda.stream(scene.stream):
        scene.graph.capture_begin()
        FORKS[side](scene)
        assert told(scene.graph.capture_end) == (904, WORDS[904])
    assert scene.other.query(), "it takes no part any more"
    assert scene.x.tolist() == [1.0] * 3


#: What another thread does beside a capture, and the modes in which that fails it.
BESIDE: dict[str, tuple[Callable[[Scene], object], tuple[str, ...]]] = {
    "the device": (lambda s: torch.cuda.synchronize(), ("global", "thread_local", "relaxed")),
    "memory": (lambda s: s.on_other(lambda: torch.empty(1 << 24, device="cuda")), ("global",)),
    "an element": (lambda s: float(s.x[0]), ("global",)),
    "a stream": (lambda s: s.other.synchronize(), ("global",)),
    "pinned memory": (lambda s: torch.empty(1 << 23, pin_memory=True), ("global",)),
    "an operator": (lambda s: s.on_other(lambda: s.x.mul_(1)), ()),
}


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("call", BESIDE)
def test_another_thread(call: str, mode: str, place: ChildConfig) -> None:
    body, modes = BESIDE[call]
    modes = () if call in UNNOTICED[place.name] else modes
    heard: list[Any] = []

    def beside(scene: Scene) -> None:
        thread = threading.Thread(target=lambda: heard.append(told(lambda: body(scene))))
        thread.start()
        thread.join()

    torch.cuda.empty_cache()
    _, ended = Scene().capture(beside, mode)
    expected = (NOT_PERMITTED, WORDS[NOT_PERMITTED]) if mode in modes else None
    assert heard == [expected]
    assert ended == ((INVALIDATED, WORDS[INVALIDATED]) if mode in modes else None)


def test_an_event_of_a_capture_that_has_ended() -> None:
    stream, graph, event = torch.cuda.Stream(), torch.cuda.CUDAGraph(), torch.cuda.Event()
    x = torch.ones(2, device="cuda")
    with torch.cuda.stream(stream):
        graph.capture_begin()
        x.add_(1)
        event.record()
        graph.capture_end()
    for ask in (event.query, event.synchronize, lambda: torch.cuda.current_stream().wait_event(event)):
        with pytest.raises(torch.AcceleratorError, match="invalid argument"):
            ask()
    event.record()
    event.synchronize()
    assert event.query()


def test_a_graph_in_the_capture_of_another() -> None:
    x, inner, outer = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(inner):
        x.add_(1)
    with torch.cuda.graph(outer):
        x.mul_(3)
        with pytest.raises(RuntimeError, match="^Cannot prepare for replay during capturing stage"):
            inner.replay()
    outer.replay()
    assert x.tolist() == [3.0, 3.0]


def in_thread(body: Callable[[], object]) -> object:
    heard: list[object] = []
    thread = threading.Thread(target=lambda: heard.append(body()))
    thread.start()
    thread.join()
    return heard[0]


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_the_end_on_another_thread(mode: str) -> None:
    """End the capture even if an error is raised; the thread that began it computes normally."""
    scene = Scene()

    def end() -> object:
        with torch.cuda.stream(scene.stream):
            return told(scene.graph.capture_end)

    with torch.cuda.stream(scene.stream):
        scene.graph.capture_begin(capture_error_mode=mode)
        scene.x.add_(1)
        assert in_thread(end) == (None if mode == "relaxed" else (908, WORDS[908]))
        assert not torch.cuda.is_current_stream_capturing()
        assert told(scene.graph.capture_end) == (401, WORDS[401])
        scene.x.mul_(2)
    assert torch._C._len_torch_dispatch_stack() == 0
    assert told(scene.graph.replay) == (None if mode == "relaxed" else ("RuntimeError", NOT_REPLAYED))
    assert scene.x.tolist() == [3.0 if mode == "relaxed" else 2.0] * 3


def test_captures_on_two_threads() -> None:
    """Each records what its own thread computes; waiting for each other they are underway at once."""
    gate = threading.Barrier(2, timeout=60)

    def capture(factor: int) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
        x = torch.full((3,), float(factor), device="cuda")
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            gate.wait()
            graph.capture_begin(capture_error_mode="thread_local")
            gate.wait()
            y = x * factor
            gate.wait()
            graph.capture_end()
        return graph, x, y

    made: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda n=n: made.update({n: capture(n)})) for n in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for factor, (graph, x, y) in made.items():
        assert (x.tolist(), y.tolist()) == ([float(factor)] * 3, [0.0] * 3)
        graph.replay()
        assert y.tolist() == [float(factor * factor)] * 3
    assert sorted(made) == [2, 3]
