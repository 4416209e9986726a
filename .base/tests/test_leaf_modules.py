"""The leaf modules of torch.cuda: what they answered on a real CUDA device, and what they refuse here."""

from __future__ import annotations

import pytest

# error(f): ["TypeName", "first line"] of what f raises, or the value it returned.
ERROR = """
def error(function):
    try:
        return function()
    except Exception as raised:
        return [type(raised).__name__, str(raised).splitlines()[0]]
"""


@pytest.fixture
def ask(answer):
    """``answer`` with the helper ``error`` in reach."""
    return lambda body, **options: answer(ERROR + body, **options)


# ---------------------------------------------------------------------- all together
def test_everything_answers_in_every_order(ask, order):
    """One value of each module, whenever activation comes; modules keep their names and pickle by reference."""
    result = ask(
        """
import pickle, torch.cuda.comm, torch.cuda.nccl
functions = [torch.cuda.nvtx.range_push, torch.cuda.nccl.all_reduce, torch.cuda.comm.reduce_add,
             torch.cuda.tunable.read_file, torch.cuda.gds.GdsFile, torch.cuda.CUDAGraph, torch.cuda.amp.GradScaler]
result = [
    all(pickle.loads(pickle.dumps(f)) is f for f in functions),
    [f.__module__ for f in functions],
    torch.cuda.nvtx.range_push("a"),
    error(torch.cuda.CUDAGraph().replay),
    torch.cuda.tunable.tuning_is_enabled(),
    str(torch.cuda.cudart().cudaError.success),
    torch.cuda.amp.common.amp_definitely_not_available(),
    torch.cuda.green_contexts.SUPPORTED,
    [t.tolist() for t in torch.cuda.comm.broadcast(torch.ones(2), [0])],
    torch.cuda.sparse.FloatTensor.__module__,
]
""",
        order=order,
    )
    assert result == [
        True,
        [f"torch.cuda.{name}" for name in ("nvtx", "nccl", "comm", "tunable", "gds", "graphs", "amp.grad_scaler")],
        -2,
        ["RuntimeError", "Called CUDAGraph::replay without a preceding successful capture."],
        True,
        "cudaError.success",
        False,
        False,
        [[1.0, 1.0]],
        "torch.cuda.sparse",
    ]


# ----------------------------------------------------------------------------- nvtx
def test_nvtx_without_a_profiler(ask):
    result = ask(
        """
n = torch.cuda.nvtx
push_pop = [n.range_push("a"), n.range_push("b"), n.range_pop(), n.range_pop(), n.range_pop()]
started = n.range_start("r")
handle = n._device_range_start("d")
with n.range("x {} {y}", 3, y=4) as entered:
    pass
result = [push_pop, started, n.range_end(started), n.mark("m"), n._device_range_end(handle), entered,
          n.range("f")(lambda a: a + 1)(1), error(lambda: n.range_push(3))[0],
          sorted(name for name in dir(torch._C._nvtx) if not name.startswith("_"))]
"""
    )
    names = ["deviceRangeEnd", "deviceRangeStart", "markA", "rangeEnd", "rangePop", "rangePushA", "rangeStartA"]
    assert result == [[-2] * 5, 0, None, None, None, None, 2, "TypeError", names]


def test_nvtx_ranges_reach_the_profiler(ask):
    """Depths count from zero, and every range is in the trace, also one that ends on another thread."""
    result = ask(
        """
import threading
n = torch.cuda.nvtx
n.range_push("before")
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as trace:
    depths = [n.range_push("outer"), n.range_push("inner")]
    n.mark("moment")
    depths += [n.range_pop(), n.range_pop()]
    depths += [n.range_pop(), n.range_pop()]
    number = n.range_start("across")
    ender = threading.Thread(target=n.range_end, args=(number,))
    ender.start(); ender.join()
    with n.range("with {}", 1):
        torch.ones(1).add(1)
names = {event.key for event in trace.key_averages()}
result = [depths, number > 0, [name in names for name in ("outer", "inner", "moment", "across", "with 1", "before")]]
"""
    )
    # "before" was pushed while no one listened: popping it says so, and popping past it says there is none.
    assert result == [[1, 2, 2, 1, -2, -1], True, [True, True, True, True, True, False]]


# --------------------------------------------------------------------------- cudart
def test_cudart_enum_and_texts(ask):
    result = ask(
        """
rt = torch.cuda.cudart()
E = rt.cudaError
codes = (0, 1, 2, 3, 34, 35, 100, 101, 400, 600, 700)
result = [
    sorted(name for name in dir(rt) if not name.startswith("_")), repr(E), repr(E.__members__), repr(E(2)), E(2).name,
    [E.success == 0, E(2) == 2, E(2) == E(2), E(2) != E(3), E.success is None, int(E(7)), hash(E(2)) == hash(2)],
    [rt.cudaGetErrorString(E(code)) for code in codes],
    error(lambda: E("x"))[0], error(lambda: rt.cudaGetErrorString(0))[0],
    [repr(rt.cudaProfilerStart()), repr(rt.cudaProfilerStop())],
    error(lambda: torch.cuda.check_error(34)), torch.cuda.check_error(0),
    rt.cudaMemGetInfo(0)[1] == torch.cuda.mem_get_info()[1], error(lambda: rt.cudaMemGetInfo(7))[0],
]
with torch.cuda.profiler.profile() as inside:
    result.append(inside)
try:
    E("x")
except TypeError as raised:
    result.append(str(raised))
"""
    )
    assert result == [
        [
            "cudaError",
            "cudaGetErrorString",
            "cudaHostRegister",
            "cudaHostUnregister",
            "cudaMemGetInfo",
            "cudaProfilerStart",
            "cudaProfilerStop",
            "cudaStreamCreate",
            "cudaStreamDestroy",
        ],
        "<class 'torch._C._cudart.cudaError'>",
        "{'success': <cudaError.success: 0>}",
        "<cudaError.???: 2>",
        "???",
        [True, True, True, True, False, 7, True],
        [
            "no error",
            "invalid argument",
            "out of memory",
            "initialization error",
            "CUDA driver is a stub library",
            "CUDA driver version is insufficient for CUDA runtime version",
            "no CUDA-capable device is detected",
            "invalid device ordinal",
            "invalid resource handle",
            "device not ready",
            "an illegal memory access was encountered",
        ],
        "TypeError",
        "TypeError",
        ["<cudaError.success: 0>"] * 2,
        ["CudaError", "CUDA driver is a stub library (34)"],
        None,
        True,
        "AcceleratorError",
        None,
        "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
        "    1. torch._C._cudart.cudaError(value: typing.SupportsInt)\n\nInvoked with: 'x'",
    ]


def test_cudart_memory_and_streams(ask):
    result = ask(
        """
import ctypes
rt = torch.cuda.cudart()
x = torch.ones(1024)
p, n = x.data_ptr(), x.nbytes
memory = [rt.cudaHostUnregister(p), rt.cudaHostRegister(p, n, 0), rt.cudaHostRegister(p + 8, 8, 0),
          rt.cudaHostUnregister(p + 8), rt.cudaHostUnregister(p), rt.cudaHostUnregister(p),
          rt.cudaHostRegister(0, 8, 0)]
slot = ctypes.c_void_p()
made = rt.cudaStreamCreate(ctypes.addressof(slot))
stream = torch.cuda.ExternalStream(slot.value)
with torch.cuda.stream(stream):
    inside = torch.cuda.current_stream().cuda_stream == slot.value
result = [[int(code) for code in memory], int(made), inside, stream.query(),
          [int(rt.cudaStreamDestroy(slot.value)) for _ in range(2)], int(rt.cudaStreamCreate(0))]
"""
    )
    assert result == [[713, 0, 712, 713, 0, 713, 1], 0, True, True, [0, 400], 1]


# --------------------------------------------------------------------------- graphs
def test_graph_states(ask):
    """The errors a CUDA device gave for graphs without a capture."""
    result = ask(
        """
import warnings
g = torch.cuda.CUDAGraph()
kept = torch.cuda.CUDAGraph(keep_graph=True)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    dumped = [g.debug_dump("nowhere.dot"), g.enable_debug_mode(), g.debug_dump("nowhere.dot")]
try:
    g.capture_end()
except torch.AcceleratorError as raised:
    code = raised.error_code
result = [[error(getattr(g, name)) for name in ("replay", "pool", "instantiate", "raw_cuda_graph",
                                                "raw_cuda_graph_exec", "reset", "capture_begin")],
          error(kept.raw_cuda_graph), error(kept.get_graph_data), code, error(g.get_currently_capturing_graph), dumped,
          [str(w.message) for w in seen], torch.cuda.is_current_stream_capturing(),
          error(lambda: g.register_generator_state(torch.default_generator)),
          error(lambda: g.register_generator_state(3))[0]]
"""
    )
    no_graph = "You cannot access the raw cudaGraph_t instance until capture_end() has been called"
    assert result == [
        [
            ["RuntimeError", "Called CUDAGraph::replay without a preceding successful capture."],
            ["RuntimeError", "Called CUDAGraph::pool() without a preceding successful capture."],
            ["RuntimeError", "capture_end() must have been called before calling instantiate"],
            [
                "RuntimeError",
                "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true",
            ],
            [
                "RuntimeError",
                "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called",
            ],
            None,
            [
                "RuntimeError",
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)",
            ],
        ],
        ["RuntimeError", no_graph],
        ["RuntimeError", no_graph],
        401,
        ["RuntimeError", "The current stream is not currently capturing."],
        [None, None, None],
        ["CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", "DEBUG: calling debug_dump()"],
        False,
        None,
        "TypeError",
    ]


def test_capture_refuses_and_restores(ask):
    """A refused capture leaves the current stream and device, and says what to do."""
    result = ask(
        """
g = torch.cuda.CUDAGraph()
side = torch.cuda.Stream(device=1)
def capture(**options):
    with torch.cuda.graph(g, **options):
        raise AssertionError("not reached")
def graphed():
    torch.cuda.make_graphed_callables(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
def hooked():
    m = torch.nn.Linear(2, 2)
    m.register_forward_hook(lambda *a: None)
    torch.cuda.make_graphed_callables(m, (torch.ones(1, 2),))
refused = [error(capture), error(lambda: capture(stream=side)), error(graphed)]
where = [torch.cuda.current_stream() == torch.cuda.default_stream(), torch.cuda.current_device(),
         torch.cuda.current_stream(1) == torch.cuda.default_stream(1)]
result = [refused, where, error(lambda: capture(capture_error_mode="loud")), error(hooked)[0],
          error(lambda: torch.cuda.make_graphed_callables(abs, (1,)))[0]]
""",
        devices=2,
    )
    refused, where, mode, hooked, not_tensors = result
    for kind, message in refused:
        assert kind == "RuntimeError"
        assert message.startswith("CUDA graph capture comes with a later version of torchdevice_cuda's 'cpu' driver")
    assert where == [True, 0, True]
    assert mode == [
        "RuntimeError",
        "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got loud",
    ]
    assert (hooked, not_tensors) == ("AssertionError", "AssertionError")


def test_pool_ids_share_one_sequence(ask):
    result = ask(
        """
handles = [torch.cuda.graph_pool_handle(), torch.cuda.MemPool().id, torch.cuda.graph_pool_handle()]
result = [[list(h) for h in handles], type(handles[0]).__name__]
"""
    )
    assert result == [[[0, 1], [0, 2], [0, 3]], "tuple"]


def test_green_contexts_and_jiterator_refuse_in_words(ask):
    result = ask(
        """
G = torch.cuda.GreenContext
make = torch.cuda.jiterator._create_jit_fn
code = "template <typename T> T my_kernel(T x, T y, T alpha) { return x + alpha * y; }"
f = make(code, alpha=1.0)
x = torch.ones(2)
result = [error(lambda: G.create(num_sms=8)), error(G.max_workqueue_concurrency), error(G),
          torch.cuda.green_contexts.SUPPORTED, f.kernel_name, error(lambda: f(x, x)),
          error(lambda: f(x, x, beta=2))[0], error(lambda: f(*[x] * 9)),
          error(lambda: torch.cuda.jiterator._create_multi_output_jit_fn(code, 2)(x, x))[0],
          error(lambda: torch.cuda.jiterator._JittedFunction(code, return_by_ref=False, num_outputs=2)),
          torch.cuda.jiterator._CodeParser(code).template_params]
try:
    make("nope")
except Exception as raised:
    result += [type(raised).__name__, str(raised)]
"""
    )
    green, workqueues, constructor, supported, name, call, keyword, many, several, by_value, params, *bad = result
    assert green[0] == workqueues[0] == "RuntimeError"
    assert "'cpu' driver" in green[1] and "streams" in green[1]
    assert constructor == ["TypeError", "GreenContext: No constructor defined!"]
    assert supported is False
    assert name == "my_kernel"
    assert call[0] == "RuntimeError" and "'my_kernel'" in call[1] and "torch operators" in call[1]
    assert keyword == "KeyError"
    assert many == ["AssertionError", "jiterator only supports up to 8 tensor inputs, got 9"]
    assert several == "RuntimeError"
    assert by_value == ["AssertionError", "Return by value only works for single output."]
    assert params == "<typename T>"
    assert bad == ["Exception", "Couldn't parse code, please check correctness:\n nope"]


# ----------------------------------------------------------------------------- comm
def test_broadcast_scatter_gather(ask):
    """The first result is the tensor itself, every further device has memory of its own."""
    result = ask(
        """
import torch.cuda.comm as comm
x = torch.arange(6.0).reshape(3, 2)
r = comm.broadcast(x, [0, 1])
c = comm.broadcast_coalesced([x, torch.ones(2)], [0, 1])
s = comm.scatter(x, [0, 1], dim=0)
sized = comm.scatter(x, [0, 1], chunk_sizes=[1, 2])
out = [torch.empty(1, 2), torch.empty(2, 2)]
filled = comm.scatter(x, out=out)
g = comm.gather(s)
target = torch.empty(3, 2)
result = [
    [type(r).__name__, r[0] is x, r[1].data_ptr() == x.data_ptr(), torch.equal(r[1], x)],
    [type(c).__name__, [len(t) for t in c], c[0][0].data_ptr() == x.data_ptr(), c[1][0].data_ptr() == x.data_ptr(),
     c[1][1].tolist()],
    [type(s).__name__, [t.tolist() for t in s], s[0].data_ptr() == x.data_ptr(), s[1].data_ptr() == x[2:].data_ptr()],
    [t.tolist() for t in sized], filled[1] is out[1], out[1].tolist(),
    [torch.equal(g, x), comm.gather(s, out=target) is target, torch.equal(target, x)],
    comm.gather([x, x], dim=1, destination="cpu").tolist()[0],
    comm.gather([torch.ones(1, 2, 3, 3).to(memory_format=torch.channels_last)] * 2).is_contiguous(
        memory_format=torch.channels_last),
    comm.broadcast(x, out=[torch.empty(3, 2)])[0].tolist() == x.tolist(),
]
""",
        devices=2,
    )
    assert result == [
        ["list", True, False, True],
        ["list", [2, 2], True, False, [1.0, 1.0]],
        ["tuple", [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]], True, False],
        [[[0.0, 1.0]], [[2.0, 3.0], [4.0, 5.0]]],
        True,
        [[2.0, 3.0], [4.0, 5.0]],
        [True, True, True],
        [0.0, 1.0, 0.0, 1.0],
        True,
        True,
    ]


def test_comm_errors(ask):
    result = ask(
        """
import torch.cuda.comm as comm
x = torch.ones(4, 2)
meta = torch.ones(4, 2, device="meta")
result = [error(f) for f in (
    lambda: comm.scatter(x, [0], chunk_sizes=[3]),
    lambda: comm.scatter(x, [0], chunk_sizes=[1, 3]),
    lambda: comm.scatter(x, [0], out=[x]),
    lambda: comm.scatter(x, []),
    lambda: comm.scatter(x, out=[torch.ones(3, 2)]),
    lambda: comm.scatter(x, out=[torch.ones(4, 3)]),
    lambda: comm.scatter(x, [0], dim=5),
    lambda: comm.gather([x, torch.ones(4, 3)]),
    lambda: comm.gather([x, torch.ones(4)]),
    lambda: comm.gather([x], destination=0, out=x),
    lambda: comm.gather([meta]),
    lambda: comm.gather([]),
    lambda: comm.gather([x], out=torch.ones(3, 2)),
    lambda: comm.broadcast(x),
    lambda: comm.broadcast(x, out=[torch.ones(2)]),
    lambda: comm.broadcast(x, out=[meta]),
    lambda: comm.broadcast(x, [7]),
    lambda: comm.broadcast_coalesced([meta], [0]),
)]
"""
    )
    assert [kind for kind, _ in result] == [
        *["RuntimeError"] * 6,
        "IndexError",
        *["RuntimeError"] * 9,
        "AcceleratorError",
        "RuntimeError",
    ]
    words = [message for _, message in result]
    assert words[1] == (
        "Expected devices and chunk_sizes to be of same length, but got len(devices) = 1 and len(chunk_sizes) = 2"
    )
    assert words[4].endswith("Expected 4, but got total size 3")
    assert words[5] == (
        "Output tensor at index 0 has incorrect shape: [4, 3]. Expected same shape except for scatter dim 0 as the "
        "source tensor: [4, 2]"
    )
    assert words[7] == "Input tensor at index 1 has invalid shape [4, 3], but expected [4, 2]"
    assert words[9] == "'destination' must not be specified when 'out' is specified, but got destination=0"
    assert words[10] == "Expected all input tensors to be CUDA tensors, but tensor at index 0 has device 'meta'"
    assert words[12] == "Expected out tensor to have shape [4, 2], but got [3, 2]"
    assert words[16] == "CUDA error: invalid device ordinal"
    assert words[17] == "All tensors must be on devices[0]: 0"


def test_reduce_add(ask):
    result = ask(
        """
import torch.cuda.comm as comm
x = torch.ones(2)
sparse = torch.eye(2).to_sparse()
sums = comm.reduce_add_coalesced([[x, sparse, x * 2], [x, sparse, x * 3]])
result = [comm.reduce_add([x]) is x, comm.reduce_add([x, x * 2, x * 3], destination=1).tolist(), x.tolist(),
          error(lambda: comm.reduce_add([x, torch.ones(3)])),
          error(lambda: comm.reduce_add([torch.ones(2, device="meta")])),
          [s.to_dense().tolist() for s in sums], comm.reduce_add_coalesced([[x, x * 2]])[1].tolist()]
""",
        devices=2,
    )
    assert result == [
        True,
        [6.0, 6.0],
        [1.0, 1.0],
        ["ValueError", "input 1 has invalid size: got 3, but expected 2"],
        ["AssertionError", "reduce_add expects all inputs to be on GPUs, but input 0 is on CPU"],
        [[2.0, 2.0], [[2.0, 0.0], [0.0, 2.0]], [5.0, 5.0]],
        [2.0, 2.0],
    ]


# ----------------------------------------------------------------------------- nccl
def test_nccl_collectives(ask):
    result = ask(
        """
import warnings
import torch.cuda.nccl as nccl
def pair(*values):
    return [torch.tensor(v) for v in values]
out = {}
a = pair([1.0, 2.0], [3.0, 4.0]); nccl.all_reduce(a); out["all_reduce"] = [t.tolist() for t in a]
a, b = pair([1, 7], [3, 4]), pair([0, 0], [0, 0]); nccl.all_reduce(a, b, op=2)
out["max"] = [t.tolist() for t in (*a, *b)]
a, o = pair([1.0, 2.0], [3.0, 4.0]), torch.zeros(2); nccl.reduce(a, o, root=1, op=1); out["prod"] = o.tolist()
a = pair([1.0], [3.0]); nccl.broadcast(a, root=1); out["broadcast"] = [t.tolist() for t in a]
a, b = pair([1.0], [3.0]), [torch.zeros(2), torch.zeros(2)]; nccl.all_gather(a, b)
out["gather"] = [t.tolist() for t in b]
a, b = pair([1.0, 2.0], [3.0, 4.0]), [torch.zeros(1), torch.zeros(1)]; nccl.reduce_scatter(a, b)
out["reduce_scatter"] = [t.tolist() for t in b]
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    a, o = pair([1.0], [3.0]), [torch.zeros(1), torch.zeros(1)]; nccl.reduce(a, outputs=o)
out["deprecated"] = [o[0].tolist(), seen[0].category.__name__]
result = out
""",
        devices=2,
    )
    assert result == {
        "all_reduce": [[4.0, 6.0], [4.0, 6.0]],
        "max": [[1, 7], [3, 4], [3, 7], [3, 7]],
        "prod": [3.0, 8.0],
        "broadcast": [[3.0], [3.0]],
        "gather": [[1.0, 3.0], [1.0, 3.0]],
        "reduce_scatter": [[4.0], [6.0]],
        "deprecated": [[4.0], "FutureWarning"],
    }


def test_nccl_facts_and_errors(ask):
    result = ask(
        """
import torch.cuda.nccl as nccl
x, two = torch.ones(2), [torch.ones(2), torch.ones(2)]
uid = nccl.unique_id()
result = [
    list(nccl.version()), [type(uid).__name__, len(uid), nccl.unique_id() == uid],
    [nccl.is_available([x]), nccl.is_available(two), nccl.is_available([torch.ones(1, device="meta")]),
     nccl.is_available([torch.ones(2, 2).t()]), nccl.is_available([torch.eye(2).to_sparse()])],
    [error(f) for f in (
        lambda: nccl.all_reduce(x),
        lambda: nccl.all_reduce([torch.ones(1, device="meta")]),
        lambda: nccl.all_reduce([]),
        lambda: nccl.all_reduce([3]),
        lambda: nccl.all_reduce([x], two),
        lambda: nccl.all_reduce([x], [x.int()]),
        lambda: nccl.all_reduce(two),
        lambda: nccl.all_gather([x], [torch.ones(3)]),
        lambda: nccl.broadcast([x], root=2),
        lambda: nccl.all_reduce([x], streams=[None, None]),
        lambda: nccl.init_rank(2, b"short", 0),
    )],
    error(lambda: nccl.init_rank(2, uid, 0)), error(lambda: nccl.all_reduce([x])),
]
"""
    )
    version, uid, available, errors, init_rank, one = result
    assert len(version) == 3 and version[0] == 2
    assert uid == ["bytes", 128, False]
    assert available == [True, False, False, False, False]
    assert errors == [
        ["TypeError", "Inputs should be a collection of tensors"],
        ["RuntimeError", "input and output elements have to be cuda dense Tensors"],
        ["RuntimeError", "input sequence can't be empty"],
        ["TypeError", "expected Tensor at 0 (got int)"],
        [
            "RuntimeError",
            "inputs and outputs sequences have to be of the same length, but got input of length 1 and output of "
            "length 2",
        ],
        ["RuntimeError", "all inputs and outputs must be of the same Tensor dtype"],
        ["RuntimeError", "inputs must be on unique devices"],
        ["RuntimeError", "output must be of size input_size * size_multiplier"],
        ["RuntimeError", "invalid root"],
        ["RuntimeError", "number of streams is not equal to number of inputs"],
        ["RuntimeError", "invalid unqiue_id (expected 128 bytes, got 5)"],
    ]
    assert init_rank[0] == "RuntimeError" and "torch.distributed" in init_rank[1]
    assert one is None


# ------------------------------------------------------------------------------ gds
def test_gds_reads_and_writes(ask, tmp_path):
    result = ask(
        f"""
import os
from torch.cuda.gds import GdsFile, gds_register_buffer, gds_deregister_buffer
path = {str(tmp_path / "data.bin")!r}
a, b = torch.arange(5.0), torch.arange(3, dtype=torch.int16)
f = GdsFile(path, os.O_CREAT | os.O_RDWR)
saved = [f.save_storage(a.untyped_storage()), f.save_storage(b.untyped_storage(), offset=a.nbytes)]
size = os.path.getsize(path)
c, d, tail = torch.zeros(5), torch.zeros(3, dtype=torch.int16), torch.full((4,), -1, dtype=torch.int16)
f.load_storage(c.untyped_storage()); f.load_storage(d.untyped_storage(), offset=a.nbytes)
f.load_storage(tail.untyped_storage(), offset=a.nbytes + 2)
s = a.untyped_storage()
buffers = [gds_register_buffer(s), gds_deregister_buffer(s), error(lambda: gds_deregister_buffer(s))[0]]
twice = error(f.register_handle)
f.deregister_handle()
gone = [error(f.deregister_handle), error(lambda: f.load_storage(s)), error(lambda: f.save_storage(s))]
f.register_handle()
reader = GdsFile(path, os.O_RDONLY)
result = [saved, size, c.tolist(), d.tolist(), tail.tolist(), buffers, twice, gone,
          error(lambda: reader.save_storage(s))[0], error(lambda: GdsFile(path + ".none", os.O_RDONLY))[0],
          error(lambda: f.load_storage(torch.UntypedStorage(4, device="meta")))]
fd = f.fd
del f
result.append(error(lambda: os.fstat(fd))[0])
"""
    )
    assert result == [
        [None, None],
        26,
        [0.0, 1.0, 2.0, 3.0, 4.0],
        [0, 1, 2],
        [1, 2, -1, -1],
        [None, None, "RuntimeError"],
        ["AssertionError", "Cannot register a handle that is already registered."],
        [
            ["AssertionError", "Cannot deregister a handle that is not registered."],
            ["AssertionError", "Cannot load data from a file that is not registered."],
            ["AssertionError", "Cannot save data to a file that is not registered."],
        ],
        "RuntimeError",
        "FileNotFoundError",
        ["RuntimeError", "CUDAGuardImpl initialized with non-CUDA DeviceType: meta"],
        "OSError",
    ]


# -------------------------------------------------------------------------- tunable
def test_tunable_settings(ask):
    result = ask(
        """
t = torch.cuda.tunable
defaults = [t.get_filename(), t.get_max_tuning_duration(), t.get_max_tuning_iterations(), t.get_results(),
            t.is_enabled(), t.tuning_is_enabled(), t.record_untuned_is_enabled(),
            t.get_rotating_buffer_size() == torch.cuda.get_device_properties().L2_cache_size]
t.enable(); t.tuning_enable(False); t.record_untuned_enable(); t.set_max_tuning_duration(-5)
t.set_max_tuning_iterations(7)
t.set_rotating_buffer_size(2)
after = [t.is_enabled(), t.tuning_is_enabled(), t.record_untuned_is_enabled(), t.get_max_tuning_duration(),
         t.get_max_tuning_iterations(), t.get_rotating_buffer_size(), t.set_numerical_check_tolerances(True, 1e-3)]
names = []
torch.cuda.set_device(1)
for name in ("a.b.csv", "a%d.csv", "plain"):
    t.set_filename(name, insert_device_ordinal=True)
    names.append(t.get_filename())
result = [defaults, after, names, dict(t.get_validators()) == {"PT_VERSION": torch.__version__.split("+")[0]},
          error(lambda: t.enable(3))[0], t.read_file("no such file")]
""",
        devices=2,
    )
    assert result == [
        ["", 30, 100, [], False, True, False, True],
        [True, False, True, 0, 7, 2 * 1024 * 1024, None],
        ["a.b1.csv", "a1.csv", "plain1"],
        True,
        "TypeError",
        False,
    ]


def test_tunable_variables_win(ask):
    env = {f"PYTORCH_TUNABLEOP_{name}": value for name, value in (("ENABLED", "1"), ("TUNING", "0"))}
    result = ask(
        """
t = torch.cuda.tunable
t.enable(False); t.tuning_enable(True)
result = [t.is_enabled(), t.tuning_is_enabled()]
""",
        env=env,
    )
    assert result == [True, False]


GEMMS = """
Validator,PT_VERSION,0.0.0
GemmTunableOp_float_NN,nn_4_3_5_ld_4_5_4
GemmTunableOp_double_TN,tn_4_3_5_ld_5_5_4
GemmStridedBatchedTunableOp_float_NN,nn_4_3_5_B_2_ld_4_5_4
GemmAndBiasTunableOp_float_TN,tn_4_3_5_ld_5_5_4
GemmTunableOp_float_NN,nn_4_3_5_ld_9_8_7
ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_BFloat16_TN,tn_16_16_16_ld_16_16_16_rw_0_bias_None
GemmTunableOp_float_NT,nt_4_1_5_ld_4_1_4
NovelTunableOp_float_NN,nn_4_3_5_ld_4_5_4
"""


def test_tunable_tunes_a_file(ask, tmp_path):
    (tmp_path / "untuned0.csv").write_text(GEMMS.lstrip())
    result = ask(
        f"""
import os, warnings
os.chdir({str(tmp_path)!r})
t = torch.cuda.tunable
off = error(lambda: t.tune_gemm_in_file("untuned0.csv"))
t.enable(); t.set_max_tuning_iterations(2)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    t.tune_gemm_in_file("untuned0.csv")
lines = open(t.get_filename()).read().splitlines()
results = t.get_results()
shapes = []
for trans_a in (False, True):
    for sub in (False, True):
        a, b = t._create_matrices(3, 4, 5, 6, 7, 8, trans_a, True, torch.float32, "cpu", subMatrix=sub)
        c, d = t._create_batch_matrices(3, 4, 5, 2, 6, 7, 8, trans_a, True, torch.float32, "cpu", subMatrix=sub)
        shapes.append([list(m.shape) for m in (a, b, c, d)])
t.set_filename("joined0.csv")
from torchdevice_cuda.shadow.bindings import tunable as bindings
version = dict(t.get_validators())["PT_VERSION"]
result = [off, [str(w.message) for w in seen], t.get_filename(), lines[0] == "Validator,PT_VERSION," + version,
          [line.split(",")[:3] for line in lines[1:]], [list(r[:3]) for r in results], all(r[3] > 0 for r in results),
          shapes, t.read_file("tunableop_results0.csv"), t.read_file("untuned0.csv"),
          [bindings.write_file("all.csv"), bindings.write_file("no/such/folder"), t.read_file("all.csv")]]
"""
    )
    off, warned, filename, header, lines, results, timed, shapes, read, stale, written = result
    assert off == ["AssertionError", "TunableOp is not enabled"]
    assert warned == [
        "Offline tuning is not supported for this GEMM. Use online tuning instead. Skipped tuning for: "
        "nt_4_1_5_ld_4_1_4"
    ]
    assert filename == "joined0.csv"
    assert header
    expected = [[*line.split(","), "Default"] for line in GEMMS.split()[1:7]]
    assert lines == results == expected
    assert timed
    assert shapes == [[[3, 5], [5, 4], [2, 3, 5], [2, 5, 4]]] * 4
    assert (read, stale, written) == (True, False, [True, False, True])


def test_tunable_over_several_devices(ask, tmp_path):
    lines = GEMMS.split()
    (tmp_path / "untuned0.csv").write_text("\n".join(lines[:3]) + "\n")
    (tmp_path / "untuned1.csv").write_text("\n".join(lines[1:5]) + "\n")
    result = ask(
        f"""
import os, warnings
os.chdir({str(tmp_path)!r})
t = torch.cuda.tunable
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    t.mgpu_tune_gemm_in_file("untuned?.csv", 2)
read = lambda name: sorted(line.split(",")[0] for line in open(name))
result = [[str(w.message) for w in seen], sorted(name for name in os.listdir(".") if "results" in name),
          read("tunableop_results_full0.csv"),
          open("tunableop_results_full1.csv").read() == open("tunableop_results_full0.csv").read(),
          torch.cuda.current_device(), error(lambda: t.mgpu_tune_gemm_in_file("untuned?.csv", 3))]
""",
        devices=2,
    )
    assert result == [
        ["TunableOp was disabled. Trying to enable now."],
        [f"tunableop_results{name}.csv" for name in ("0", "1", "_full0", "_full1")],
        sorted(["Validator", *(line.split(",")[0] for line in lines[1:5])]),
        True,
        0,
        ["AssertionError", "num_gpus must be between 1 and 2, got 3"],
    ]


# ----------------------------------------------------------------------------- amp
def test_amp_old_names(ask):
    result = ask(
        """
import warnings
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    a = torch.cuda.amp.autocast()
    s = torch.cuda.amp.GradScaler(init_scale=4.0)
    torch.cuda.amp.custom_fwd(lambda ctx, x: x)
    torch.cuda.amp.custom_fwd(cast_inputs=torch.float16)
    torch.cuda.amp.custom_bwd(lambda ctx, x: x)
    class Own(torch.cuda.amp.autocast):
        pass
    b = torch.cuda.amp.autocast(False, torch.bfloat16)
with a:
    on = [torch.is_autocast_enabled("cuda"), str(torch.get_autocast_dtype("cuda"))]
@a
def decorated():
    return torch.is_autocast_enabled("cuda")
result = [on, torch.is_autocast_enabled("cuda"), isinstance(a, torch.autocast), isinstance(s, torch.amp.GradScaler),
          s.is_enabled(), s.get_scale(), decorated(), [[i.category.__name__, str(i.message)] for i in w]]
"""
    )
    old = [
        ("autocast(args...)", "autocast('cuda', args...)"),
        ("GradScaler(args...)", "GradScaler('cuda', args...)"),
        ("custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')"),
        ("custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')"),
        ("custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')"),
        ("autocast(args...)", "autocast('cuda', args...)"),  # making a subclass warns too
        ("autocast(args...)", "autocast('cuda', args...)"),
    ]
    warned = [
        ["FutureWarning", f"`torch.cuda.amp.{before}` is deprecated. Please use `torch.amp.{now}` instead."]
        for before, now in old
    ]
    assert result == [[True, "torch.float16"], False, True, True, True, 4.0, True, warned]


# ------------------------------------------------------------------------ libraries
def test_libraries(ask):
    result = ask(
        """
import os
C, cudnn = torch._C, torch._C._cudnn
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":16:8"
configured = C._cuda_getCublasWorkspaceSize()
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ""
before = C._cuda_getCublasWorkspaceSize()
C._cuda_setCublasWorkspaceSize(4096); C._cuda_setCublasLtWorkspaceSize(1 << 20)
sizes = [C._cuda_getCublasWorkspaceSize(), C._cuda_getCublasLtWorkspaceSize()]
C._cuda_resetCublasWorkspaceSize(); C._cuda_resetCublasLtWorkspaceSize()
limit = C._cuda_get_cudnn_benchmark_limit()
C._cuda_set_cudnn_benchmark_limit(3)
result = [
    sorted(n for n in dir(cudnn) if not n.startswith("_")), torch.backends.cudnn.version() == cudnn.getVersionInt(),
    list(cudnn.getRuntimeVersion()) == list(cudnn.getCompileVersion()), cudnn.is_cuda, cudnn.getVersionInt() < 91100,
    [int(torch.backends.cudnn.rnn.get_cudnn_mode(m)) for m in ("RNN_RELU", "RNN_TANH", "LSTM", "GRU")],
    torch.backends.cudnn.is_available(), limit, C._cuda_get_cudnn_benchmark_limit(),
    configured, before, sizes, C._cuda_getCublasWorkspaceSize() == C._cuda_getCublasLtWorkspaceSize() == before,
    error(lambda: C._cuda_setCublasWorkspaceSize(-1))[0], C._cuda_clearCublasWorkspaces(),
    sorted(n for n in dir(C._cusparselt) if not n.startswith("_")), torch.backends.cusparselt.is_available(),
    error(lambda: C._StaticCudaLauncher._load_kernel("k.cubin", "k", 0, 0)), C._cuda_get_conv_benchmark_empty_cache(),
]
"""
    )
    assert result[:-2] == [
        ["RNNMode", "getCompileVersion", "getRuntimeVersion", "getVersionInt", "is_cuda"],
        True,
        True,
        True,
        True,  # torch refuses newer versions on a device that claims less than 7.5, as ours does by default
        [0, 1, 2, 3],
        True,
        10,
        3,
        16 * 8 * 1024,
        8519680,
        [4096, 1 << 20],
        True,
        "RuntimeError",
        None,
        ["getVersionInt", "mm_search"],
        False,
    ]
    assert result[-2][0] == "RuntimeError" and "'k'" in result[-2][1]
    assert result[-1] is True


def test_cudnn_of_a_newer_device(ask):
    """The claimed capability chooses the version, and torch accepts the pair."""
    assert ask("result = torch.backends.cudnn.version() >= 90100", capability=(9, 0)) is True


def test_storage_functions(ask):
    result = ask(
        """
C = torch._C
x = torch.arange(6.0)
made = C._construct_CUDA_Tensor_From_Storage_And_Metadata(
    {"dtype": torch.float32, "storage_offset": 1, "size": (2, 2), "stride": (2, 1)}, x.untyped_storage())
y = torch.ones(1)
equal = C._tensors_data_ptrs_at_indices_equal
result = [made.tolist(), made.data_ptr() == x[1:].data_ptr(),
          [equal([x, y], [x.data_ptr(), 0], [0]), equal([x, y], [x.data_ptr(), 0], [0, 1]),
           equal([x, y], [None, None], [0, 1])],
          C._has_Standard_Deleter(x.untyped_storage()._cdata),
          error(lambda: C._free_And_Remove_DeleterFn(x.untyped_storage()._cdata))[0]]
"""
    )
    assert result == [[[1.0, 2.0], [3.0, 4.0]], True, [True, False, True], False, "RuntimeError"]
