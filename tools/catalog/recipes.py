"""Objects of torch's classes that no constructor with guessed arguments gives, each made by a few calls."""

from __future__ import annotations

import datetime
import functools
from typing import Any

import graphs
import learning
import processes
import programs
import quantizing
import scripting
import torch
import values
from listing import resolve
from values import Maker, numbers


def traced(d: str) -> Any:
    return torch.fx.symbolic_trace(values.sequence(d))


def fx_node(d: str) -> Any:
    made = traced(d)
    scripting.KEPT.append(made)
    return list(made.graph.nodes)[1]


def exported(d: str) -> Any:
    return torch.export.export(values.net(d), (numbers(d, 3, 3),))


def package_writer(d: str) -> Any:
    made = torch.package.PackageExporter("package.pt")
    made.save_text("a", "b", "c")
    made.save_pickle("a", "p", 1)
    return made


def profiled(d: str) -> Any:
    with torch.autograd.profiler.profile(with_stack=True) as made:
        numbers(d, 3, 3).sin()
    return made


def group(d: str) -> Any:
    return torch.distributed.group.WORLD


def mesh(d: str) -> Any:
    return torch.distributed.device_mesh.init_device_mesh(torch.device(d).type, (1,))


def work(d: str) -> Any:
    return torch.distributed.all_reduce(torch.ones(3, device=d), async_op=True)


def sharded(d: str) -> Any:
    return torch.distributed.fsdp.FullyShardedDataParallel(values.net(d), device_id=None if d == "cpu" else 0)


def fully(d: str) -> Any:
    return torch.distributed.fsdp.fully_shard(values.net(d), mesh=mesh(d))


def exported_signature(d: str) -> Any:
    return exported(d).graph_signature


def timer(d: str) -> Any:
    return torch.utils.benchmark.Timer("x + 1", globals={"x": numbers(d, 3)})


def measurement(d: str) -> Any:
    spec = torch.utils.benchmark.utils.common.TaskSpec("x", "pass")
    return torch.utils.benchmark.Measurement(1, [0.5, 0.25], spec)


def counts(d: str) -> Any:
    pieces = (torch.utils.benchmark.FunctionCount(2, "a"), torch.utils.benchmark.FunctionCount(1, "b"))
    return torch.utils.benchmark.FunctionCounts(pieces, True)


def callgrind(d: str) -> Any:
    spec = torch.utils.benchmark.utils.common.TaskSpec("x", "pass")
    return torch.utils.benchmark.CallgrindStats(spec, 1, False, counts(d), counts(d), counts(d), counts(d), None)


def quantized_module(name: str) -> Maker:
    def make(d: str) -> Any:
        return getattr(torch.ao.nn.quantized, name)(3, 3, 1).to(d)

    return make


def blocks(d: str) -> Any:
    make = torch.nn.attention.flex_attention.create_block_mask
    return make(lambda b, h, q, kv: q >= kv, None, None, 128, 128, device=d)


def block_mask_input(d: str) -> Any:
    return numbers(d, 1, 1, 16, 16)


def optimizer(name: str) -> Maker:
    return lambda d: getattr(torch.optim, name)(values.trained(d).parameters())


def shape_environment(d: str) -> Any:
    return torch.fx.experimental.symbolic_shapes.ShapeEnv()


def context(d: str) -> Any:
    """Return the context that an autograd function keeps from forward to backward."""
    kept = numbers(d, 3, 3).requires_grad_().exp()
    return kept.grad_fn


def attention(d: str) -> Any:
    x = numbers(d, 1, 2, 4, 8)
    return torch._C._SDPAParams(x, x, x, None, 0.0, False, False)


def event(d: str) -> Any:
    return torch.monitor.Event("x", datetime.datetime.now(), {"a": 1})


def stat(d: str) -> Any:
    return torch.monitor.Stat("x", [torch.monitor.Aggregation.SUM], datetime.timedelta(seconds=1))


def library(d: str) -> Any:
    scripting.KEPT.append(torch.library.Library(f"catalog{len(scripting.KEPT)}", "DEF"))
    return scripting.KEPT[-1]


def pruned(d: str) -> Any:
    made = values.net(d)
    torch.nn.utils.prune.l1_unstructured(made, "weight", 1)
    return made


class Joined(torch.distributed.algorithms.join.Joinable):
    """The least that a join takes."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self.place = torch.device(device)

    def join_hook(self, **kwargs: Any) -> Any:
        return torch.distributed.algorithms.join.JoinHook()

    @property
    def join_device(self) -> Any:
        return self.place

    @property
    def join_process_group(self) -> Any:
        return torch.distributed.group.WORLD


#: By the full name of a class.
RECIPES: dict[str, Maker] = {
    **graphs.OBJECTS, **learning.OBJECTS, **processes.OBJECTS, **programs.OBJECTS, **quantizing.OBJECTS,
    **{f"torch.{name}": make for name, make in {**scripting.kinds(), **scripting.of_torchscript()}.items()},
    "torch.jit.ScriptModule": scripting.scripted, "torch.jit.ScriptFunction": lambda d: torch.jit.script(values.typed),
    "torch.jit.Future": scripting.future,
    "torch.futures.Future": scripting.future, "torch.fx.Graph": lambda d: traced(d).graph,
    "torch.fx.GraphModule": traced,
    "torch.fx.Node": fx_node,
    "torch.fx.Interpreter": lambda d: torch.fx.Interpreter(traced(d)),
    "torch.fx.Transformer": lambda d: torch.fx.Transformer(traced(d)),
    "torch.fx.passes.shape_prop.ShapeProp": lambda d: torch.fx.passes.shape_prop.ShapeProp(traced(d)),
    "torch.fx.Tracer": lambda d: tracer(d), "torch.fx.Proxy": lambda d: torch.fx.Proxy(fx_node(d)),
    "torch.export.ExportedProgram": exported, "torch.export.ExportGraphSignature": exported_signature,
    "torch.export.UnflattenedModule": lambda d: torch.export.unflatten(exported(d)),
    "torch.package.PackageExporter": package_writer,
    "torch.package.Importer": lambda d: torch.package.sys_importer,
    "torch.autograd.profiler.profile": profiled,
    "torch.autograd.profiler.EventList": lambda d: profiled(d).function_events,
    "torch.autograd.graph.Node": context, "torch.distributed.ProcessGroup": group, "torch.distributed.Work": work,
    "torch.distributed.Store": lambda d: torch.distributed.HashStore(),
    "torch.distributed.HashStore": lambda d: torch.distributed.HashStore(),
    "torch.distributed.PrefixStore": lambda d: torch.distributed.PrefixStore("a", torch.distributed.HashStore()),
    "torch.distributed.FileStore": lambda d: torch.distributed.FileStore("store", 1),
    "torch.distributed.DeviceMesh": mesh, "torch.distributed.device_mesh.DeviceMesh": mesh,
    "torch.distributed.fsdp.FullyShardedDataParallel": sharded,
    "torch.distributed.fsdp.FSDPModule": fully,
    "torch.distributed.tensor.DTensor": lambda d: torch.distributed.tensor.zeros(3, device_mesh=mesh(d)),
    "torch.distributed.ReduceOp": lambda d: torch.distributed.ReduceOp(torch.distributed.ReduceOp.SUM),
    "torch.distributed.algorithms.join.Joinable": Joined,
    "torch.distributed.algorithms.join.Join": lambda d: torch.distributed.algorithms.join.Join([Joined(d)]),
    "torch.distributed.optim.PostLocalSGDOptimizer": lambda d: local_sgd(d),
    "torch.distributed.optim.ZeroRedundancyOptimizer": lambda d: torch.distributed.optim.ZeroRedundancyOptimizer(
        values.trained(d).parameters(), torch.optim.SGD, lr=0.1),
    "torch.utils.benchmark.Timer": timer, "torch.utils.benchmark.Measurement": measurement,
    "torch.utils.benchmark.FunctionCounts": counts,
    "torch.utils.benchmark.CallgrindStats": callgrind,
    "torch.utils.benchmark.Compare": lambda d: torch.utils.benchmark.Compare([measurement(d)]),
    "torch.nn.attention.flex_attention.BlockMask": blocks, "torch.optim.Optimizer": values.sgd,
    **{f"torch.optim.{name}": optimizer(name) for name in (
        "Adam AdamW SGD RMSprop Adagrad Adadelta Adamax ASGD NAdam RAdam Rprop LBFGS Adafactor").split()},
    "torch.optim.lr_scheduler.LRScheduler": lambda d: torch.optim.lr_scheduler.StepLR(values.sgd(d), 1),
    "torch.optim.lr_scheduler.ChainedScheduler": lambda d: torch.optim.lr_scheduler.ChainedScheduler(
        [torch.optim.lr_scheduler.StepLR(values.sgd(d), 1)]),
    "torch.optim.lr_scheduler.SequentialLR": lambda d: sequential(d),
    "torch.optim.lr_scheduler.OneCycleLR": lambda d: torch.optim.lr_scheduler.OneCycleLR(values.sgd(d), 0.1,
        total_steps=9),
    "torch.distributions.Distribution": values.normal,
    "torch.distributions.Transform": lambda d: torch.distributions.ExpTransform(),
    "torch.distributions.ExponentialFamily": values.normal,
    "torch.distributions.constraints.Constraint": lambda d: torch.distributions.constraints.real,
    "torch.nn.Module": values.net, "torch.nn.RNNBase": lambda d: torch.nn.RNN(3, 3).to(d),
    "torch.nn.RNNCellBase": lambda d: torch.nn.RNNCell(3, 3).to(d),
    "torch.nn.Unflatten": lambda d: torch.nn.Unflatten(1, (3, 1)),
    "torch.nn.DataParallel": lambda d: torch.nn.DataParallel(values.net(d)),
    "torch.nn.Sequential": values.sequence, "torch.nn.ModuleDict": lambda d: torch.nn.ModuleDict({"a": values.net(d)}),
    "torch.nn.ParameterDict": lambda d: torch.nn.ParameterDict({"a": torch.nn.Parameter(numbers(d, 3))}),
    "torch.nn.AdaptiveLogSoftmaxWithLoss": lambda d: torch.nn.AdaptiveLogSoftmaxWithLoss(3, 4, [2]).to(d),
    "torch.nn.utils.parametrize.ParametrizationList": lambda d: torch.nn.utils.parametrizations.weight_norm(
        values.net(d)).parametrizations.weight,
    "torch.nn.utils.prune.BasePruningMethod": lambda d: torch.nn.utils.prune.L1Unstructured(1),
    "torch.nn.parallel.DistributedDataParallel": lambda d: torch.nn.parallel.DistributedDataParallel(values.net(d)),
    "torch.monitor.Event": event, "torch.monitor.Stat": stat, "torch.library.Library": library,
    "torch.backends.cuda.SDPAParams": attention,
    "torch.fx.experimental.symbolic_shapes.ShapeEnv": shape_environment, "torch.SymInt": lambda d: scripting.symbolic(),
    "torch.ao.quantization.QConfig": lambda d: torch.ao.quantization.get_default_qconfig("fbgemm"),
    "torch.ao.quantization.ObserverBase": lambda d: torch.ao.quantization.MinMaxObserver().to(d),
    "torch.ao.quantization.UniformQuantizationObserverBase": lambda d: torch.ao.quantization.MinMaxObserver().to(d),
    "torch.ao.quantization.FakeQuantizeBase": lambda d: torch.ao.quantization.FakeQuantize().to(d),
    "torch.ao.quantization.FixedQParamsFakeQuantize": lambda d: torch.ao.quantization.FixedQParamsFakeQuantize(
        torch.ao.quantization.default_fixed_qparams_range_0to1_observer).to(d),
    "torch.profiler.profile": lambda d: started(d), "torch.types.Storage": lambda d: numbers(d, 3).untyped_storage(),
    "torch.utils.data.IterableDataset": lambda d: torch.utils.data.datapipes.iter.IterableWrapper([1, 2]),
    "torch.distributed.checkpoint.StorageReader": lambda d: torch.distributed.checkpoint.FileSystemReader("checkpoint"),
    "torch.distributed.checkpoint.StorageWriter": lambda d: torch.distributed.checkpoint.FileSystemWriter("checkpoint"),
    "torch.distributed.checkpoint.SavePlanner": lambda d: planner(torch.distributed.checkpoint.DefaultSavePlanner(), d),
    "torch.distributed.checkpoint.DefaultSavePlanner": lambda d: planner(
        torch.distributed.checkpoint.DefaultSavePlanner(), d),
}  # fmt: skip


def planner(made: Any, d: str) -> Any:
    made.set_up_planner({"weight": numbers(d, 3)}, is_coordinator=True)
    return made


def started(d: str) -> Any:
    made = torch.profiler.profile()
    made.start()
    return made


def tracer(d: str) -> Any:
    made = torch.fx.Tracer()
    made.trace(values.sequence(d))
    return made


def sequential(d: str) -> Any:
    held = values.sgd(d)
    schedulers = [torch.optim.lr_scheduler.ConstantLR(held), torch.optim.lr_scheduler.StepLR(held, 1)]
    return torch.optim.lr_scheduler.SequentialLR(held, schedulers, [1])


def local_sgd(d: str) -> Any:
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    return torch.distributed.optim.PostLocalSGDOptimizer(values.sgd(d), PeriodicModelAverager(1))


@functools.cache
def by_class() -> dict[Any, Maker]:
    """Return the recipes by the classes themselves, for parameters that say theirs."""
    found: dict[Any, Maker] = {}
    for name, make in RECIPES.items():
        try:
            found.setdefault(resolve(name), make)
        except (LookupError, AttributeError, ImportError):
            continue
    return found
