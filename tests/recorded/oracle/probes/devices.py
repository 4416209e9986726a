"""Devices, their properties as far as every GPU has them, and the state of the runtime."""

from __future__ import annotations

from typing import Any

import torch

from recorded.oracle.probing import every, kind, probe, raises, ramp, warned

C = torch.cuda


@probe()
def properties() -> Any:
    p = C.get_device_properties(0)
    return [
        p.warp_size,
        p.regs_per_multiprocessor,
        p.max_threads_per_multi_processor,
        p.is_integrated,
        p.is_multi_gpu_board,
        p.gcnArchName == p.name if hasattr(p, "gcnArchName") else None,
        p.shared_memory_per_block,
        p.L2_cache_size > 0,
        p.pci_bus_id >= 0,
        type(p.uuid).__name__,
        len(str(p.uuid)),
        repr(p).startswith("_CudaDeviceProperties(name="),
        sorted(n for n in dir(p) if not n.startswith("_")),
    ]


@probe()
def clocks_and_monitors() -> Any:
    return [
        [
            kind(f)
            for f in (C.utilization, C.memory_usage, C.temperature, C.power_draw, C.clock_rate, C.device_memory_used)
        ],
        raises(lambda: type(C.list_gpu_processes()).__name__),
        C.get_arch_list()[-1] != "",
        type(C.get_gencode_flags()).__name__,
        C.get_sync_debug_mode(),
        C.is_tf32_supported(),
    ]


@probe()
def versions() -> Any:
    v = C.nccl.version()
    return [
        isinstance(torch.version.cuda, str),
        torch.version.hip,
        type(v).__name__,
        len(v),
        v >= (2, 0),
        isinstance(torch.backends.cudnn.version(), int),
        torch.backends.cudnn.is_available(),
        torch.backends.cudnn.is_acceptable(ramp(1)),
        torch.backends.cuda.is_built(),
        C._is_compiled(),
        torch._C._cuda_getCompiledVersion() >= 12000,
        raises(lambda: type(torch._C._cuda_getDriverVersion()).__name__),
        C.has_magma,
        C.has_half,
        torch.has_cuda if hasattr(torch, "has_cuda") else None,
        hasattr(torch._C, "_CudaDeviceProperties"),
    ]


@probe()
def contexts() -> Any:
    out = []
    with C.device(0) as d:
        out += [d, C.current_device()]
    with C.device("cuda"):
        out.append(C.current_device())
    with C.device(-1):
        out.append(C.current_device())
    with C.device(None):
        out.append(C.current_device())
    with C._DeviceGuard(0):
        out.append(C.current_device())
    with C.device_of(ramp(1)):
        out.append(C.current_device())
    return [
        *out,
        raises(lambda: C.device_of(3)),
        raises(lambda: C.device("bogus")),
        raises(lambda: C.device(99).__enter__()),
        raises(lambda: C.set_device(99)),
        raises(lambda: C.set_device(-2)),
        C.set_device(-1),
        raises(lambda: C._exchange_device(99)),
        C._maybe_exchange_device(-1),
        C._exchange_device(0),
    ]


@probe()
def capabilities() -> Any:
    a, b = C.get_device_capability()
    return [
        isinstance(a, int),
        isinstance(b, int),
        C.get_device_capability(0) == C.get_device_capability("cuda"),
        raises(lambda: C.get_device_capability(99)),
        raises(lambda: C.get_device_name(99)),
        raises(lambda: C.get_device_name("cpu")),
        raises(lambda: C.get_device_properties("x")),
        C.can_device_access_peer(0, 0),
        C.is_bf16_supported(),
        C.is_bf16_supported(including_emulation=False),
        raises(lambda: C.check_gpu_memory(1) if hasattr(C, "check_gpu_memory") else None),
    ]


@probe()
def accelerators() -> Any:
    a = torch.accelerator
    return [
        a.is_available(),
        str(a.current_accelerator()),
        str(a.current_accelerator(check_available=True)),
        a.device_count() == C.device_count(),
        a.current_device_index(),
        raises(lambda: a.set_device_index(99)),
        raises(lambda: a.set_device_index("cuda:0")),
        raises(lambda: a.set_device_index("cpu")),
        raises(lambda: a.synchronize("cpu")),
        raises(lambda: a.set_stream(3)),
        type(a.current_stream()).__name__,
        raises(lambda: a.device_index(0).__enter__()),
        raises(lambda: a.memory_stats() == C.memory_stats()),
        raises(lambda: a.memory_allocated() == C.memory_allocated()),
        raises(lambda: a.empty_cache()),
        raises(lambda: a.get_memory_info() == C.mem_get_info()),
        sorted(n for n in a.__all__ if "memory" not in n),
        raises(lambda: a.current_stream("cpu")),
    ]


@probe()
def modules_by_device() -> Any:
    g = torch.get_device_module
    return [
        g("cuda").__name__,
        g(torch.device("cuda:0")).__name__,
        g().__name__,
        raises(lambda: g("bogus")),
        raises(lambda: g(3)),
        g("cpu").__name__,
        torch._C._get_accelerator().type,
        torch.utils._device._device_constructors().__len__() > 30,
        C.__name__,
        torch._utils._get_available_device_type(),
        torch._utils._get_device_index("cuda", True),
        raises(lambda: torch._utils._get_device_index("cuda")),
        raises(lambda: torch._utils._get_device_index("cpu")),
        torch._utils._get_all_device_indices(),
    ]


@probe()
def backends() -> Any:
    b = torch.backends
    names = ("enabled", "benchmark", "deterministic", "allow_tf32", "benchmark_limit")
    return [
        [str(getattr(b.cudnn, n)) for n in names],
        b.cuda.matmul.allow_tf32,
        b.cuda.matmul.allow_fp16_reduced_precision_reduction,
        b.cuda.matmul.allow_bf16_reduced_precision_reduction,
        b.cuda.matmul.allow_fp16_accumulation,
        b.fp32_precision,
        b.cudnn.conv.fp32_precision,
        b.cuda.matmul.fp32_precision,
        b.cudnn.rnn.fp32_precision,
        raises(lambda: setattr(b.cuda.matmul, "fp32_precision", "bogus")),
        raises(lambda: setattr(b.cudnn, "benchmark", "x")),
        raises(lambda: setattr(b.cudnn, "bogus", True)),
        raises(lambda: setattr(b.cuda.matmul, "allow_tf32", "x")),
        torch.get_float32_matmul_precision(),
        raises(lambda: torch.set_float32_matmul_precision("bogus")),
        raises(lambda: b.cuda.matmul.bogus),
        b.cudnn.m.__class__.__name__ if hasattr(b.cudnn, "m") else None,
        raises(lambda: b.cudnn.flags(bogus=1)),
        b.cuda.sdp_kernel().__class__.__name__,
        sorted(n for n in b.cuda.__all__),
    ]


@probe()
def precision_links() -> Any:
    b = torch.backends
    out = []
    for value in ("high", "highest", "medium"):
        torch.set_float32_matmul_precision(value)
        out.append([b.cuda.matmul.allow_tf32, b.cuda.matmul.fp32_precision, torch.get_float32_matmul_precision()])
    torch.set_float32_matmul_precision("highest")
    b.cuda.matmul.fp32_precision = "tf32"
    out.append(
        [
            raises(lambda: b.cuda.matmul.allow_tf32),
            raises(torch.get_float32_matmul_precision),
            b.cuda.matmul.fp32_precision,
        ]
    )
    b.cuda.matmul.fp32_precision = "ieee"
    out.append([raises(lambda: b.cuda.matmul.allow_tf32), raises(torch.get_float32_matmul_precision)])
    b.cuda.matmul.fp32_precision = "none"
    with b.cudnn.flags(enabled=False, benchmark=True, deterministic=True):
        out.append([b.cudnn.enabled, b.cudnn.benchmark, b.cudnn.deterministic, b.cudnn.allow_tf32])
    return [out, b.cudnn.enabled]


@probe()
def tunable() -> Any:
    t = C.tunable
    out = [
        t.is_enabled(),
        t.tuning_is_enabled(),
        t.record_untuned_is_enabled(),
        t.get_max_tuning_duration(),
        t.get_max_tuning_iterations(),
        t.get_rotating_buffer_size(),
        t.get_results(),
        raises(t.get_validators)[0],
        raises(lambda: t.set_max_tuning_duration("x")),
        raises(lambda: t.get_filename())[0],
    ]
    t.set_max_tuning_duration(5)
    t.enable(True)
    out += [t.is_enabled(), t.get_max_tuning_duration()]
    t.enable(False)
    t.set_max_tuning_duration(30)
    return out


@probe(alone=True)
def laziness() -> Any:
    out = [
        C.is_initialized(),
        C.is_available(),
        C.is_initialized(),
        C.device_count() > 0,
        C.is_initialized(),
        C._is_in_bad_fork(),
        kind(lambda: C.manual_seed(3)),
        C.is_initialized(),
    ]
    calls: list[int] = []
    C._lazy_call(lambda: calls.append(1))
    queued = list(calls)
    C.init()
    C._lazy_call(lambda: calls.append(2))
    return [*out, queued, calls, C.is_initialized(), C.initial_seed()]


@probe(alone=True)
def laziness_of_streams() -> Any:
    a = C.is_initialized()
    torch.Generator("cuda")
    b = C.is_initialized()
    C.current_stream()
    return [a, b, C.is_initialized()]


@probe(alone=True)
def laziness_of_properties() -> Any:
    out = [C.is_initialized()]
    C.get_device_capability()
    out.append(C.is_initialized())
    return [*out, C.memory_reserved() >= 0, torch._C._cuda_hasPrimaryContext(0)]


@probe()
def runtime_library() -> Any:
    r = C.cudart()
    return [
        type(r).__name__,
        str(r.cudaError.success),
        int(r.cudaError(2)),
        raises(lambda: C.check_error(2)),
        raises(lambda: C.check_error(r.cudaError(1))),
        r.cudaGetErrorString(r.cudaError(700)),
        [type(v).__name__ for v in r.cudaMemGetInfo(0)],
        raises(lambda: r.bogus),
        raises(lambda: r.cudaStreamCreate(0)),
        warned(lambda: int(r.cudaProfilerStart())),
        list(every((0, 1, 2, 35, 46, 100, 201, 700, 710, 719, 999), lambda n: r.cudaGetErrorString(r.cudaError(n)))),
    ]


@probe()
def errors_of_classes() -> Any:
    return [
        [c.__name__ for c in e.__mro__]
        for e in (
            C.OutOfMemoryError,
            torch.OutOfMemoryError,
            C.CudaError,
            C.DeferredCudaCallError,
            torch.AcceleratorError,
        )
    ] + [
        C.OutOfMemoryError is torch.OutOfMemoryError,
        C.OutOfMemoryError.__module__,
        str(C.CudaError(2)),
        raises(lambda: (_ for _ in ()).throw(C.CudaError(700))),
    ]


@probe()
def deprecated_functions() -> Any:
    return [
        warned(lambda f=f: raises(f))
        for f in (
            C.memory_cached,
            C.max_memory_cached,
            C.reset_max_memory_allocated,
            C.reset_max_memory_cached,
            lambda: type(torch.cuda.amp.autocast(True)).__name__,
            lambda: torch.cuda.amp.custom_fwd(lambda x: x)(3),
            lambda: torch.backends.cuda.sdp_kernel(enable_flash=False).__enter__(),
            lambda: torch.cuda.set_device(0),
            lambda: C.memory.list_gpu_processes()[:0],
            lambda: torch._C._cuda_lock_mutex() if False else None,
        )
    ]
