"""Facts about torch.cuda: small expressions, and what they gave.

An outcome is ``["ok", value]`` or ``[type of the exception, first line of its message]``. Expressions are written so
that they do not depend on which GPU it is.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

RECORD = "facts-cuda.json"
EXPECTED = Path(__file__).resolve().with_name("expected") / "facts.toml"
#: The GPU is not asked which it is; other profiles than the default have other figures.
OPTIONS: dict[str, list[str]] = {"virtual": [], "cpu": [], "mps": []}
SETUP = """
import copy, ctypes, inspect, pickle, threading
import torch
c = torch.cuda
s = c.Stream()
timed = lambda: c.Event(enable_timing=True)
def recorded(**k):
    e = c.Event(**k); e.record(); e.synchronize(); return e
def in_thread(f):
    out = []
    t = threading.Thread(target=lambda: out.append(f())); t.start(); t.join()
    return out[0]
"""

# Arguments that name a device, right and wrong, and the functions that take one.
DEVICES = ("None", "0", "-1", "99", "'cuda'", "'cuda:0'", "'cuda:99'", "'cpu'", "torch.device('cuda')",
           "torch.device('meta')", "'x'", "'cuda:-1'", "1.5")  # fmt: skip
TAKERS = {
    "get_device_properties": "type({}).__name__",
    "get_device_name": "type({}).__name__",
    "get_device_capability": "type({}).__name__",
    "set_device": "{}",
    "synchronize": "{}",
    "current_stream": "{}.stream_id",
    "default_stream": "{}.stream_id",
    "Stream": "{}.device_index",
    "device": "{}.idx",
    "memory_allocated": "type({}).__name__",
    "mem_get_info": "len({})",
    "get_rng_state": "{}.dtype",
}
# On CUDA these tell of a fault in torch itself (an undecodable message), not of a rule.
FAULTS = {"memory_allocated(-1)"}

FACTS: dict[str, str] = {
    f"{name}({argument})": form.format(f"c.{name}({argument})")
    for name, form in TAKERS.items()
    for argument in DEVICES
    if f"{name}({argument})" not in FAULTS
}
FACTS.update(
    (text, text)
    for text in """
c.is_initialized() or (c.init(), c.is_initialized())
(c.init(), c._lazy_init(), c.is_initialized())
c.Stream.priority_range()
[c.Stream(priority=p).priority for p in (-9, -3, -2, -1, 0, 1, 5)]
[(c.Stream(priority=p).stream_id >> 1) & 15 for p in (-3, -2, -1, 0)]
c.Stream(priority="x")
c.Stream(bogus=1)
c.Stream(stream_id=s.stream_id, device_index=0, device_type=1) == s
c.Stream(stream_id=999, device_index=0, device_type=1).query()
c.ExternalStream(s.cuda_stream).stream_id == s.cuda_stream
c.ExternalStream(s.cuda_stream) == s
c.ExternalStream("x")
c.ExternalStream()
c.ExternalStream(5, bogus=1)
(s.wait_stream(c.current_stream()), s.query(), s.synchronize())
s.wait_stream(3)
s.wait_event(3)
s.record_event(3)
c.set_stream(3)
c.set_stream(None)
(c._set_stream_by_id(stream_id=s.stream_id, device_index=0, device_type=1), c.current_stream() == s)
(c.set_stream(s), in_thread(lambda: c.current_stream() == c.default_stream()))
repr(s) == "<torch.cuda.Stream device=cuda:0 cuda_stream=%#x>" % s.cuda_stream
repr(c.default_stream())
(s == 1, s != 1, s == None, s != None)
pickle.dumps(s)
copy.copy(s)
copy.deepcopy(s)
pickle.loads(pickle.dumps(c.Stream)) is c.Stream
[k.__name__ for k in c.Stream.__mro__]
[k.__name__ for k in c.Event.__mro__]
(c.Stream.__module__, c.Event.__module__, type(c.Event).__name__)
(c.Event().device, c.Event().cuda_event, c.Event().event_id, repr(c.Event()))
str(recorded().device)
recorded(interprocess=True).ipc_handle().__class__.__name__
len(c.Event(interprocess=True).ipc_handle())
c.Event().ipc_handle()
(lambda e: e.record())(c.Event(enable_timing=True, interprocess=True))
c.Event.from_ipc_handle(0, b"x")
recorded(enable_timing=True).elapsed_time(None)
recorded(enable_timing=True).elapsed_time(timed())
recorded().elapsed_time(recorded())
c.Event().record(3)
c.Event().wait(3)
c.Event().wait()
c.Event(bogus=1)
c.Event(1, 2, 3, 4).query()
c.Event(external=True).query()
pickle.dumps(c.Event())
type(c.get_device_properties()).__name__
sorted(n for n in dir(c.get_device_properties()) if not n.startswith("_"))
type(c.get_device_properties())()
setattr(c.get_device_properties(), "major", 3)
pickle.dumps(c.get_device_properties())
c.get_device_properties() is c.get_device_properties(0)
(type(c.get_device_properties().uuid).__name__, len(c.get_device_properties().uuid.bytes))
repr(c.get_device_properties()).startswith("_CudaDeviceProperties(name='")
c.device()
c.device_of(3)
(c.device("cuda").idx, c.device("cuda").prev_idx, c.device(None).idx)
c.can_device_access_peer(0, 0)
c.can_device_access_peer(0, 7)
c.can_device_access_peer(7, 0)
sorted(c.memory_stats())
sorted(c.host_memory_stats())
list(c.memory_stats_as_nested_dict())
c.set_per_process_memory_fraction(0.5)
(c.set_per_process_memory_fraction(0.5), c.get_per_process_memory_fraction())
c.set_per_process_memory_fraction(1)
c.set_per_process_memory_fraction(1.5)
c.set_per_process_memory_fraction("x")
c.caching_allocator_delete(12345)
c.caching_allocator_alloc(0)
c.caching_allocator_alloc(16, stream="x")
type(c.caching_allocator_alloc(16)).__name__
c.get_allocator_backend()
(lambda m: (len(m.id), m.use_count(), m.snapshot()))(c.MemPool())
(lambda a, b: (a[0], b[1] - a[1]))(c.graph_pool_handle(), c.graph_pool_handle())
c.CUDAPluggableAllocator("/nope.so", "a", "b")
c.change_current_allocator(c.memory._get_current_allocator())
c.memory._record_memory_history("bogus")
sorted(c.memory._snapshot())
(c.memory._set_memory_metadata("hi"), c.memory._get_memory_metadata(), c.memory._set_memory_metadata(""))
(type(c.default_generators).__name__, len(c.default_generators) == c.device_count())
c.set_rng_state(torch.zeros(16))
c.set_rng_state(torch.zeros(3, dtype=torch.uint8))
c.set_rng_state(c.get_rng_state(), 99)
c.set_rng_state_all([])
(c.manual_seed(1.5), c.initial_seed())
c.manual_seed("a")
c.manual_seed(2**64)
(c.manual_seed(-5), c.initial_seed())
(c.manual_seed_all(9), c.initial_seed(), torch.initial_seed() == 9)
(torch.manual_seed(11), c.initial_seed())[1]
sorted(n for n in dir(c.cudart()) if not n.startswith("_"))
[c.cudart().cudaGetErrorString(c.cudart().cudaError(i)) for i in (0, 1, 2, 3, 34, 35, 100, 101, 400, 600, 700, 999)]
c.check_error(34)
c.check_error(0)
(c.cudart().cudaProfilerStart().name, int(c.cudart().cudaProfilerStop()))
len(c.cudart().cudaMemGetInfo(0))
c.set_sync_debug_mode(1.0)
c.set_sync_debug_mode("loud")
c.set_sync_debug_mode(7)
(c.set_sync_debug_mode("warn"), c.get_sync_debug_mode(), c.set_sync_debug_mode(0))
c.CUDAGraph().replay()
c.CUDAGraph().pool()
c.CUDAGraph().capture_end()
c.CUDAGraph().instantiate()
c.CUDAGraph().raw_cuda_graph()
c.CUDAGraph().capture_begin()
c.CUDAGraph().reset()
c._sleep("x")
c._sleep(-1)
type(c.current_blas_handle()).__name__
c.jiterator._create_jit_fn("nope")
c.nccl.all_reduce(torch.ones(2))
(c.tunable.is_enabled(), c.tunable.get_max_tuning_duration(), c.tunable.get_results())
(c.FloatTensor.__module__, type(c.FloatTensor).__name__)
c.FloatStorage.from_buffer(b"xxxx", "little")
[type(torch.Stream(device="cuda")).__name__, str(torch.Stream(device="cuda").device)]
torch.Stream(device="cuda:99")
repr(torch.Event(device="cuda"))
str(torch.accelerator.current_accelerator())
torch.accelerator.set_device_index(99)
torch.accelerator.set_device_index(None)
torch.accelerator.set_device_index("cpu")
torch.accelerator.synchronize(99)
(torch.backends.cudnn.is_available(), torch.backends.cuda.is_built(), torch.backends.cudnn.enabled)
torch.backends.cuda.cufft_plan_cache.max_size
torch.backends.cuda.cufft_plan_cache[99]
torch._C._cuda_hasPrimaryContext(99)
[type(p).__name__ for p in (c.get_arch_list(), c.get_gencode_flags())]
""".strip().splitlines()
)


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""


def outcome(expression: str) -> list[Any]:
    """Evaluate one expression in a fresh namespace and a clean state."""
    namespace: dict[str, Any] = {}
    exec(SETUP, namespace)
    cuda = namespace["c"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = eval(expression, namespace)
        return ["ok", json.loads(json.dumps(value, default=str))]
    except Exception as error:
        return [type(error).__name__, first_line(error)]
    finally:
        cuda.set_stream(cuda.default_stream())
        cuda.set_device(0)
        cuda.set_per_process_memory_fraction(1.0)
        cuda.set_sync_debug_mode(0)


def list_cases() -> dict[str, Callable[[], Any]]:
    return {name: partial(outcome, expression) for name, expression in FACTS.items()}


def word_as_here(fact: list[Any]) -> list[Any]:
    """Return a recorded outcome as this release of torch and this Python word it."""
    import torch

    kind, value = fact
    has_accelerator_error = hasattr(torch, "AcceleratorError")
    if isinstance(value, str) and sys.version_info >= (3, 13):
        value = value.replace("property of '", "property '' of '")
    if isinstance(value, str) and not has_accelerator_error:  # before 2.8 torch.Event times unless told not to
        value = value.replace("event_flag=0", "event_flag=1")
    return ["RuntimeError" if kind == "AcceleratorError" and not has_accelerator_error else kind, value]


def find_difference(there: Any, here: Any, case: Any) -> str | None:
    return None if here in (there, word_as_here(there)) else "differs"
