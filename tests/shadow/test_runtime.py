"""torch.cuda.nvtx, torch.cuda.cudart, torch.cuda.amp's old names and what torch.cuda looks at first."""

from __future__ import annotations

import ctypes
import pickle
import threading
import warnings
from collections.abc import Callable
from unittest import mock

import pytest
import torch
import torch.cuda.comm
import torch.cuda.nccl
from harness import CPU, child, in_every_order
from torch.cuda import nvtx

from .answers import error, public

ANY_ORDER = in_every_order(CPU)


# ------------------------------------------------------------- code for which there is no device
@child(*ANY_ORDER)
def test_a_device_is_held_against_the_code_that_there_is() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.cuda._check_capability()
        torch.cuda._check_cubins()
    with mock.patch("torch.cuda.get_arch_list", return_value=["sm_100"]), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda._check_capability()
        torch.cuda._check_cubins()
    name = torch.cuda.get_device_name()
    assert len(seen) == 2
    assert all(name in str(one.message) for one in seen)
    assert "Found GPU0" in str(seen[0].message)


# -------------------------------------------------- one value of each module, whenever activation comes
FUNCTIONS = {
    "nvtx": lambda: torch.cuda.nvtx.range_push,
    "nccl": lambda: torch.cuda.nccl.all_reduce,
    "comm": lambda: torch.cuda.comm.reduce_add,
    "tunable": lambda: torch.cuda.tunable.read_file,
    "gds": lambda: torch.cuda.gds.GdsFile,
    "graphs": lambda: torch.cuda.CUDAGraph,
    "amp.grad_scaler": lambda: torch.cuda.amp.GradScaler,
}


@child(*ANY_ORDER)
@pytest.mark.parametrize("module", FUNCTIONS)
def test_functions_keep_their_module_and_pickle_by_reference(module: str) -> None:
    function = FUNCTIONS[module]()
    assert function.__module__ == f"torch.cuda.{module}"
    assert pickle.loads(pickle.dumps(function)) is function


@child(*ANY_ORDER)
def test_every_module_answers() -> None:
    assert nvtx.range_push("a") == -2
    assert nvtx.range_pop() == -2
    assert torch.cuda.tunable.tuning_is_enabled() is True
    assert str(torch.cuda.cudart().cudaError.success) == "cudaError.success"
    assert torch.cuda.amp.common.amp_definitely_not_available() is False
    with pytest.raises(RuntimeError, match="Invalid number of SMs|Green contexts divide"):
        torch.cuda.GreenContext.create(num_sms=0)
    assert [made.tolist() for made in torch.cuda.comm.broadcast(torch.ones(2), [0])] == [[1.0, 1.0]]
    assert torch.cuda.sparse.FloatTensor.__module__ == "torch.cuda.sparse"
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        torch.cuda.CUDAGraph().pool()


# ----------------------------------------------------------------------------- nvtx
@child(CPU)
def test_ranges_without_a_profiler() -> None:
    assert [nvtx.range_push("a"), nvtx.range_push("b")] == [-2, -2]
    assert [nvtx.range_pop() for _ in range(3)] == [-2, -2, -2]
    assert nvtx.range_start("r") == 0
    assert nvtx.range_end(0) is None
    assert nvtx.mark("m") is None


@child(CPU)
def test_ranges_of_the_device() -> None:
    assert nvtx._device_range_end(nvtx._device_range_start("d")) is None


@child(CPU)
def test_a_range_with_a_format() -> None:
    with nvtx.range("x {} {y}", 3, y=4) as entered:
        pass
    assert entered is None


@child(CPU)
def test_a_range_as_decorator() -> None:
    assert nvtx.range("f")(lambda a: a + 1)(1) == 2


@child(CPU)
def test_a_range_has_a_text() -> None:
    with pytest.raises(TypeError):
        nvtx.range_push(3)


@child(CPU)
def test_names_of_the_nvtx_binding() -> None:
    names = ["deviceRangeEnd", "deviceRangeStart", "markA", "rangeEnd", "rangePop", "rangePushA", "rangeStartA"]
    assert public(torch._C._nvtx) == names


def ended_elsewhere(end: Callable[[], object]) -> None:
    ender = threading.Thread(target=end)
    ender.start()
    ender.join()


@child(CPU)
def test_ranges_reach_the_profiler() -> None:
    """Depths count from zero, and every range is in the trace.

    Also one that ends on another thread, where torch's own do: its profiler has seen them since 2.12 or 2.13.
    """
    nvtx.range_push("before")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as trace:
        pushed = [nvtx.range_push("outer"), nvtx.range_push("inner")]
        nvtx.mark("moment")
        popped = [nvtx.range_pop(), nvtx.range_pop()]
        # "before" was pushed while no one listened: popping it says so, and popping past it says there is none.
        past = [nvtx.range_pop(), nvtx.range_pop()]
        number = nvtx.range_start("across")
        ended_elsewhere(lambda: nvtx.range_end(number))
        stocks = torch.profiler.record_function("of stock").__enter__()
        ended_elsewhere(lambda: stocks.__exit__(None, None, None))
        with nvtx.range("with {}", 1):
            torch.ones(1).add(1)
    names = {event.key for event in trace.key_averages()}
    assert pushed == [1, 2]
    assert popped == [2, 1]
    assert past == [-2, -1]
    assert number > 0
    assert {"outer", "inner", "moment", "with 1"} <= names
    assert ("across" in names) == ("of stock" in names)
    assert "before" not in names


# --------------------------------------------------------------------------- cudart
#: What the CUDA runtime says of its codes.
TEXTS = {
    0: "no error",
    1: "invalid argument",
    2: "out of memory",
    3: "initialization error",
    34: "CUDA driver is a stub library",
    35: "CUDA driver version is insufficient for CUDA runtime version",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    400: "invalid resource handle",
    600: "device not ready",
    700: "an illegal memory access was encountered",
}


@child(CPU)
def test_names_of_cudart() -> None:
    assert public(torch.cuda.cudart()) == [
        "cudaError",
        "cudaGetErrorString",
        "cudaHostRegister",
        "cudaHostUnregister",
        "cudaMemGetInfo",
        "cudaProfilerStart",
        "cudaProfilerStop",
        "cudaStreamCreate",
        "cudaStreamDestroy",
    ]


@child(CPU)
def test_the_error_enum_reads_as_the_bindings() -> None:
    kind = torch.cuda.cudart().cudaError
    assert repr(kind) == "<class 'torch._C._cudart.cudaError'>"
    assert repr(kind.__members__) == "{'success': <cudaError.success: 0>}"
    assert repr(kind(2)) == "<cudaError.???: 2>"
    assert kind(2).name == "???"


@child(CPU)
def test_errors_compare_as_numbers() -> None:
    kind = torch.cuda.cudart().cudaError
    assert kind.success == 0
    assert kind(2) == 2
    assert kind(2) == kind(2)
    assert kind(2) != kind(3)
    assert kind.success is not None
    assert int(kind(7)) == 7
    assert hash(kind(2)) == hash(2)


@child(CPU)
@pytest.mark.parametrize("code", TEXTS)
def test_error_texts(code: int) -> None:
    runtime = torch.cuda.cudart()
    assert runtime.cudaGetErrorString(runtime.cudaError(code)) == TEXTS[code]


@child(CPU)
def test_an_error_is_made_of_a_number() -> None:
    runtime = torch.cuda.cudart()
    with pytest.raises(TypeError) as raised:
        runtime.cudaError("x")
    assert str(raised.value) == (
        "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
        "    1. torch._C._cudart.cudaError(value: typing.SupportsInt)\n\nInvoked with: 'x'"
    )
    with pytest.raises(TypeError):
        runtime.cudaGetErrorString(0)


@child(CPU)
def test_check_error() -> None:
    assert torch.cuda.check_error(0) is None
    assert error(lambda: torch.cuda.check_error(34)) == ("CudaError", "CUDA driver is a stub library (34)")


@child(CPU)
def test_the_profiler_starts_and_stops() -> None:
    runtime = torch.cuda.cudart()
    assert repr(runtime.cudaProfilerStart()) == "<cudaError.success: 0>"
    assert repr(runtime.cudaProfilerStop()) == "<cudaError.success: 0>"
    with torch.cuda.profiler.profile() as inside:
        assert inside is None


@child(CPU)
def test_memory_of_the_device() -> None:
    runtime = torch.cuda.cudart()
    assert runtime.cudaMemGetInfo(0)[1] == torch.cuda.mem_get_info()[1]
    assert error(lambda: runtime.cudaMemGetInfo(7))[0] == "AcceleratorError"


@child(CPU)
def test_memory_of_the_host_is_registered_once() -> None:
    runtime, x = torch.cuda.cudart(), torch.ones(1024)
    start, size = x.data_ptr(), x.nbytes
    assert int(runtime.cudaHostUnregister(start)) == 713, "not registered yet"
    assert int(runtime.cudaHostRegister(start, size, 0)) == 0
    assert int(runtime.cudaHostRegister(start + 8, 8, 0)) == 712, "already registered"
    assert int(runtime.cudaHostUnregister(start + 8)) == 713, "not the address that was registered"
    assert int(runtime.cudaHostUnregister(start)) == 0
    assert int(runtime.cudaHostUnregister(start)) == 713
    assert int(runtime.cudaHostRegister(0, 8, 0)) == 1


@child(CPU)
def test_streams_of_the_runtime() -> None:
    runtime, slot = torch.cuda.cudart(), ctypes.c_void_p()
    assert int(runtime.cudaStreamCreate(ctypes.addressof(slot))) == 0
    stream = torch.cuda.ExternalStream(slot.value)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream().cuda_stream == slot.value
    assert stream.query()
    assert int(runtime.cudaStreamDestroy(slot.value)) == 0
    assert int(runtime.cudaStreamDestroy(slot.value)) == 400, "no such stream any more"
    assert int(runtime.cudaStreamCreate(0)) == 1


# ----------------------------------------------------------------------------- amp
#: Old names and the new ones that they tell of.
DEPRECATED = {
    "autocast": (lambda: torch.cuda.amp.autocast(), "autocast(args...)", "autocast('cuda', args...)"),
    "autocast of another dtype": (
        lambda: torch.cuda.amp.autocast(False, torch.bfloat16),
        "autocast(args...)",
        "autocast('cuda', args...)",
    ),
    "a subclass of autocast": (
        lambda: type("Own", (torch.cuda.amp.autocast,), {}),
        "autocast(args...)",
        "autocast('cuda', args...)",
    ),
    "GradScaler": (
        lambda: torch.cuda.amp.GradScaler(init_scale=4.0),
        "GradScaler(args...)",
        "GradScaler('cuda', args...)",
    ),
    "custom_fwd": (
        lambda: torch.cuda.amp.custom_fwd(lambda ctx, x: x),
        "custom_fwd(args...)",
        "custom_fwd(args..., device_type='cuda')",
    ),
    "custom_fwd with options": (
        lambda: torch.cuda.amp.custom_fwd(cast_inputs=torch.float16),
        "custom_fwd(args...)",
        "custom_fwd(args..., device_type='cuda')",
    ),
    "custom_bwd": (
        lambda: torch.cuda.amp.custom_bwd(lambda ctx, x: x),
        "custom_bwd(args...)",
        "custom_bwd(args..., device_type='cuda')",
    ),
}


@child(CPU)
@pytest.mark.parametrize("name", DEPRECATED)
def test_old_names_of_amp_warn(name: str) -> None:
    make, before, now = DEPRECATED[name]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        make()
    assert [one.category for one in seen] == [FutureWarning]
    words = f"`torch.cuda.amp.{before}` is deprecated. Please use `torch.amp.{now}` instead."
    assert [str(one.message) for one in seen] == [words]


@child(CPU)
def test_the_old_autocast_is_autocast() -> None:
    context = torch.cuda.amp.autocast()

    @context
    def decorated() -> bool:
        return torch.is_autocast_enabled("cuda")

    assert isinstance(context, torch.autocast)
    with context:
        assert torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_dtype("cuda") is torch.float16
    assert not torch.is_autocast_enabled("cuda")
    assert decorated()


@child(CPU)
def test_the_old_scaler_is_the_scaler() -> None:
    scaler = torch.cuda.amp.GradScaler(init_scale=4.0)
    assert isinstance(scaler, torch.amp.GradScaler)
    assert scaler.is_enabled()
    assert scaler.get_scale() == 4.0
