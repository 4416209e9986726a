"""Calls of what models are trained with: modules, optimizers, distributions, autograd, data and measuring."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import torch
import values
from values import Given, numbers

Call = Callable[[str], Any]
DISTRIBUTIONS = torch.distributions
TRANSFORMS = torch.distributions.transforms
#: Distributions that not every number is of the support of: their parameters, and a value that they may take.
SUPPORTS: dict[str, tuple[Callable[[str], dict[str, Any]], Callable[[str], Any]]] = {
    "Bernoulli": (lambda d: {"probs": numbers(d, 3) / 8}, lambda d: torch.tensor([0.0, 1.0, 1.0], device=d)),
    "Binomial": (lambda d: {"total_count": 3, "probs": numbers(d, 3) / 8}, lambda d: torch.ones(3, device=d)),
    "Categorical": (lambda d: {"probs": numbers(d, 3)}, lambda d: torch.tensor(1, device=d)),
    "Dirichlet": (lambda d: {"concentration": numbers(d, 4)}, lambda d: torch.full((4,), 0.25, device=d)),
    "Geometric": (lambda d: {"probs": numbers(d, 3) / 8}, lambda d: torch.ones(3, device=d)),
    "LKJCholesky": (lambda d: {"dim": 3, "concentration": torch.tensor(2.0, device=d)},
        lambda d: torch.eye(3, device=d)),
    "Multinomial": (lambda d: {"total_count": 3, "probs": numbers(d, 3)},
        lambda d: torch.tensor([1.0, 2.0, 0.0], device=d)),
    "NegativeBinomial": (lambda d: {"total_count": 3, "probs": numbers(d, 3) / 8}, lambda d: torch.ones(3, device=d)),
    "OneHotCategorical": (lambda d: {"probs": numbers(d, 3)}, lambda d: torch.tensor([0.0, 1.0, 0.0], device=d)),
    "Poisson": (lambda d: {"rate": numbers(d, 3)}, lambda d: torch.ones(3, device=d)),
    "Wishart": (lambda d: {"df": torch.tensor(4.0, device=d), "covariance_matrix": values.positive(d)},
        values.positive),
}  # fmt: skip


def likely(name: str) -> Call:
    """Return the log-probability that a distribution gives a value in its support."""
    give, value = SUPPORTS[name]
    return lambda d: getattr(DISTRIBUTIONS, name)(**give(d)).log_prob(value(d))


def transformed(transform: Any, *shape: int) -> Call:
    return lambda d: (lambda x: transform.log_abs_det_jacobian(x, transform(x)))(numbers(d, *shape))


class Nested(torch.autograd.function.NestedIOFunction):
    """A function of the kind that takes and gives tensors within lists."""

    def forward_extended(self, *given: Any) -> Any:
        return tuple(x * 2 for x in given)

    def backward_extended(self, *grown: Any) -> Any:
        return tuple(x * 2 for x in grown)


def nested(d: str) -> Any:
    made = Nested()
    made._nested_input = (numbers(d, 3),)
    return made, made.forward()


def event(d: str) -> Any:
    """Return a profiler's event of an operator on the CPU."""
    with torch.autograd.profiler.profile() as made:
        numbers(d, 3, 3).sin()
    return next(each for each in made.function_events if each.device_type == torch.autograd.DeviceType.CPU)


def nvprof(d: str) -> str:
    """Return a file as nvprof writes it, of a program that did nothing."""
    tables = {
        "StringTable": "_id_, value", "CUPTI_ACTIVITY_KIND_MARKER": "_id_, id, timestamp, name",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "_id_, cbid, correlationId, start, end",
        "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": "_id_, correlationId, start, end, name",
    }  # fmt: skip
    with sqlite3.connect("trace.sqlite") as file:
        for name, columns in tables.items():
            file.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
    return "trace.sqlite"


def dual_level(d: str) -> Any:
    level = torch.autograd.forward_ad.enter_dual_level()
    return torch.autograd.forward_ad.exit_dual_level(level=level)


def pruned(d: str) -> Any:
    made = values.net(d)
    method = torch.nn.utils.prune.L1Unstructured.apply(made, "weight", 2)
    return method, made


def removed(d: str) -> Any:
    method, made = pruned(d)
    method.remove(made)
    return made


def masks(d: str) -> Any:
    made = torch.nn.utils.prune.PruningContainer()
    method = torch.nn.utils.prune.L1Unstructured(2)
    method._tensor_name = "weight"
    made._tensor_name = "weight"
    made.add_pruning_method(method)
    return made.compute_mask(numbers(d, 3, 3), torch.ones(3, 3, device=d))


def hook(state: Any, bucket: Any) -> Any:
    made: Any = torch.futures.Future()
    made.set_result(bucket.buffer())
    return made


# These are read: as classes, not as their names.
hook.__annotations__ = {"bucket": torch.distributed.GradBucket, "return": torch.futures.Future[torch.Tensor]}


def hooked(d: str) -> Any:
    made = torch.nn.parallel.DistributedDataParallel(values.net(d))
    made.register_comm_hook(None, hook)
    made(numbers(d, 3, 3)).sum().backward()
    return [p.grad for p in made.parameters()]


def muon(d: str) -> Any:
    p = torch.nn.Parameter(numbers(d, 3, 3))
    p.grad = numbers(d, 3, 3)
    return torch.optim.Muon([p])


def stepped(d: str) -> Any:
    made = muon(d)
    made.step()
    return made.param_groups[0]["params"]


def checkpointed(back: bool) -> Call:
    """Return a checkpoint as autograd runs it, forth and back."""

    def call(d: str) -> Any:
        x = values.grows(d)
        found = torch.utils.checkpoint.CheckpointFunction.apply(torch.sin, True, x)
        if back:
            found.sum().backward()
        return x.grad if back else found

    return call


def fuzzed() -> Any:
    return torch.utils.benchmark.FuzzedParameter("k", minval=2, maxval=8, distribution="uniform")


def drawn(d: str) -> Any:
    import numpy

    return fuzzed().sample(numpy.random.RandomState(3))


def fuzzer(d: str) -> Any:
    made = torch.utils.benchmark.Fuzzer([fuzzed()], [torch.utils.benchmark.FuzzedTensor("x", size=("k",))], seed=3)
    return [params for _, _, params in made.take(2)]


def __iter__(self: Any) -> Any:  # runtime_validation takes functions of this name alone
    yield from self


def validated(d: str) -> Any:
    with torch.utils.data.runtime_validation_disabled():
        return list(torch.utils.data.runtime_validation(__iter__)([1, 2]))


ITERABLE = torch.utils.data.datapipes.iter
MAPPED = torch.utils.data.datapipes.map
SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "ChainedScheduler": lambda o: torch.optim.lr_scheduler.ChainedScheduler([torch.optim.lr_scheduler.StepLR(o, 1)]),
    "SequentialLR": lambda o: torch.optim.lr_scheduler.SequentialLR(o, [torch.optim.lr_scheduler.ConstantLR(o),
        torch.optim.lr_scheduler.StepLR(o, 1)], [1]),
    "CyclicLR": lambda o: torch.optim.lr_scheduler.CyclicLR(o, 0.1, 0.5),
    "LambdaLR": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.5),
    "MultiplicativeLR": lambda o: torch.optim.lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.5),
}  # fmt: skip


def scheduled(name: str) -> Call:
    """Return a scheduler that goes on where another one was."""

    def call(d: str) -> Any:
        held = values.sgd(d)
        first, second = SCHEDULERS[name](held), SCHEDULERS[name](values.sgd(d))
        held.step()
        first.step()
        second.load_state_dict(first.state_dict())
        return second.get_last_lr()

    return call


OBJECTS: dict[str, values.Maker] = {"torch.autograd.profiler.FunctionEvent": event}
GIVEN: dict[str, Given] = {
    "torch.autograd.profiler.FunctionEvent.append_cpu_child": lambda x, d: [event(d)],
    "torch.autograd.profiler.FunctionEvent.append_kernel": lambda x, d: ["kernel", 0, 1],
    "torch.autograd.profiler.FunctionEvent.set_cpu_parent": lambda x, d: [event(d)],
    "torch.nn.DataParallel.parallel_apply": lambda x, d: [[values.net(d)], [(numbers(d, 3, 3),)], [{}]],
    "torch.nn.ModuleDict.pop": lambda x, d: ["a"],
    "torch.optim.Optimizer.add_param_group": lambda x, d: [{"params": [torch.nn.Parameter(numbers(d, 3))]}],
}  # fmt: skip
CALLS: dict[str, Call] = {
    **{f"torch.distributions.{name}.log_prob": likely(name) for name in SUPPORTS},
    "torch.distributions.CatTransform.log_abs_det_jacobian": transformed(
        TRANSFORMS.CatTransform([TRANSFORMS.ExpTransform()], 0, [3]), 3),
    "torch.distributions.StackTransform.log_abs_det_jacobian": transformed(
        TRANSFORMS.StackTransform([TRANSFORMS.ExpTransform()], 0), 1, 3),
    "torch.distributions.StickBreakingTransform.log_abs_det_jacobian": transformed(
        TRANSFORMS.StickBreakingTransform(), 3),
    "torch.autograd.NestedIOFunction.forward": lambda d: nested(d)[1],
    "torch.autograd.NestedIOFunction.backward": lambda d: nested(d)[0].backward(numbers(d, 3)),
    "torch.autograd.profiler.load_nvprof": lambda d: torch.autograd.profiler.load_nvprof(nvprof(d)),
    "torch.autograd.profiler.parse_nvprof_trace": lambda d: torch.autograd.profiler.parse_nvprof_trace(nvprof(d)),
    "torch.autograd.forward_ad.exit_dual_level": dual_level,
    "torch.nn.Module.get_buffer": lambda d: torch.nn.BatchNorm1d(3).to(d).get_buffer("running_mean"),
    "torch.nn.functional.adaptive_max_pool1d_with_indices": lambda d:
        torch.nn.functional.adaptive_max_pool1d_with_indices(numbers(d, 3, 3, 4), 2),
    "torch.nn.functional.adaptive_max_pool2d_with_indices": lambda d:
        torch.nn.functional.adaptive_max_pool2d_with_indices(numbers(d, 3, 3, 4, 4), 2),
    "torch.nn.functional.fold": lambda d: torch.nn.functional.fold(numbers(d, 1, 12, 9), (4, 4), 2),
    "torch.nn.utils.convert_conv3d_weight_memory_format": lambda d: (
        torch.nn.utils.convert_conv3d_weight_memory_format(torch.nn.utils.skip_init(torch.nn.Conv3d, 3, 3, 2).to(d),
            torch.channels_last_3d).weight.stride()),
    "torch.nn.utils.prune.BasePruningMethod.apply_mask": lambda d: (lambda p: p[0].apply_mask(p[1]))(pruned(d)),
    "torch.nn.utils.prune.BasePruningMethod.remove": removed,
    "torch.nn.utils.prune.PruningContainer.compute_mask": masks,
    "torch.nn.utils.stateless.functional_call": lambda d: torch.nn.utils.stateless.functional_call(values.net(d),
        {"weight": numbers(d, 3, 3) * 2}, (numbers(d, 3, 3),)),
    "torch.nn.parallel.DistributedDataParallel.register_comm_hook": hooked,
    "torch.nn.attention.flex_attention.create_mask": lambda d: torch.nn.attention.flex_attention.create_mask(
        lambda b, h, q, kv: q >= kv, 1, 1, 4, 4, device=d),
    "torch.optim.Muon": stepped, "torch.optim.Muon.step": stepped,
    **{f"torch.optim.lr_scheduler.{name}.load_state_dict": scheduled(name) for name in SCHEDULERS},
    "torch.utils.data.runtime_validation": validated,
    "torch.utils.checkpoint.CheckpointFunction.forward": checkpointed(False),
    "torch.utils.checkpoint.CheckpointFunction.backward": checkpointed(True),
    "torch.utils.data.datapipes.iter.Concater": lambda d: list(ITERABLE.Concater(ITERABLE.IterableWrapper([1, 2]),
        ITERABLE.IterableWrapper([3]))),
    "torch.utils.data.datapipes.iter.ShardingFilter.apply_sharding": lambda d: (lambda f: (f.apply_sharding(2, 1),
        list(f))[1])(ITERABLE.ShardingFilter(ITERABLE.IterableWrapper([1, 2, 3, 4]))),
    "torch.utils.data.datapipes.map.Concater": lambda d: list(MAPPED.Concater(MAPPED.SequenceWrapper([1, 2]),
        MAPPED.SequenceWrapper([3]))),
    "torch.utils.data.datapipes.map.Zipper": lambda d: list(MAPPED.Zipper(MAPPED.SequenceWrapper([1, 2]),
        MAPPED.SequenceWrapper([3, 4]))),
    "torch.utils.benchmark.Colorize": lambda d: torch.utils.benchmark.Colorize("columnwise").name,
    "torch.utils.benchmark.CopyIfCallgrind.unwrap_all": lambda d: torch.utils.benchmark.CopyIfCallgrind.unwrap_all(
        {"x": torch.utils.benchmark.CopyIfCallgrind(1), "y": 2}),
    "torch.utils.benchmark.FuzzedParameter": lambda d: fuzzed().name,
    "torch.utils.benchmark.FuzzedParameter.sample": drawn, "torch.utils.benchmark.Fuzzer": fuzzer,
    "torch.utils.benchmark.unit_to_english": lambda d: torch.utils.benchmark.unit_to_english("us"),
}  # fmt: skip
