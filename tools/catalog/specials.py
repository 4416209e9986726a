"""Calls of the few callables whose arguments depend on each other, so that none can be made from its type alone."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import devices
import graphs
import learning
import processes
import programs
import quantizing
import recipes
import scripting
import shapes
import torch
import values
from listing import resolve
from values import Given, numbers

N = numbers
#: Tables of calls by subject.
SUBJECTS: tuple[Any, ...] = (devices, graphs, learning, processes, programs, quantizing, shapes)


def gated(d: str, gates: int) -> list[Any]:
    """Weights and biases of a recurrent layer of size three."""
    return [N(d, 3 * gates, 3), N(d, 3 * gates, 3), N(d, 3 * gates), N(d, 3 * gates)]


def recurrent(name: str, gates: int) -> Callable[[str], Any]:
    def call(d: str) -> Any:
        hidden = N(d, 1, 3, 3)
        states = (hidden, hidden) if name == "lstm" else hidden
        return getattr(torch, name)(N(d, 3, 3, 3), states, gated(d, gates), True, 1, 0.0, False, False, False)

    return call


def cell(name: str, gates: int) -> Callable[[str], Any]:
    def call(d: str) -> Any:
        states = (N(d, 3, 3), N(d, 3, 3)) if name == "lstm_cell" else N(d, 3, 3)
        return getattr(torch, name)(N(d, 3, 3), states, *gated(d, gates))

    return call


def convolved(name: str, *more: Any, transposed: bool = False, bias: bool = False) -> Callable[[str], Any]:
    def call(d: str) -> Any:
        x = N(d, 3, 3, 3, 3)
        extra = ([0, 0],) if transposed else ()
        before = (N(d, 3),) if bias else ()
        return getattr(torch, name)(x, x, *before, [1, 1], *extra, [1, 1], [1, 1], 1, *more)

    return call


def activated(name: str) -> Callable[[str], Any]:
    def call(d: str) -> Any:
        x = N(d, 3, 3, 3, 3)
        added = (x[:, :, :1, :1].expand(3, 3, 3, 3).contiguous(), 1.0) if "add" in name else ()
        return getattr(torch, name)(x, x, *added, N(d, 3), [1, 1], [1, 1], [1, 1], 1)

    return call


def scaler(d: str) -> Any:
    made = torch.amp.GradScaler(torch.device(d).type, init_scale=2.0)
    held = values.sgd(d)
    made.scale(values.grown(d)).backward()
    return made, held


def updated(d: str) -> Any:
    made, held = scaler(d)
    made.step(held)
    made.update()
    return made.get_scale()


def loaded(d: str) -> Any:
    made, _ = scaler(d)
    made.load_state_dict(made.state_dict())
    return made.get_scale()


def dual(d: str) -> Any:
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.unpack_dual(torch.autograd.forward_ad.make_dual(N(d, 3), N(d, 3))).tangent


def normed(name: str, remove: str) -> Callable[[str], Any]:
    def call(d: str) -> Any:
        made = getattr(torch.nn.utils, name)(values.net(d))
        return getattr(torch.nn.utils, remove)(made)

    return call


def packed(d: str) -> Any:
    return torch.nn.utils.rnn.pack_sequence([N(d, 3, 2), N(d, 2, 2)])


def unpruned(d: str) -> Any:
    return torch.nn.utils.prune.remove(recipes.pruned(d), "weight")


def unparametrized(d: str) -> Any:
    made = torch.nn.utils.parametrizations.orthogonal(values.net(d))
    return torch.nn.utils.parametrize.remove_parametrizations(made, "weight")


def recorded(d: str) -> Any:
    held, stream = N(d, 3), torch.Stream(device=d)
    return held.record_stream(stream)


def timed(d: str) -> Any:
    first, last = torch.Event(device=d, enable_timing=True), torch.Event(device=d, enable_timing=True)
    first.record()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) >= 0


def pooled(d: str) -> Any:
    x = N(d, 1, 3, 4, 4)
    return torch.nn.MaxUnpool2d(2)(*torch.nn.functional.max_pool2d(x, 2, return_indices=True))


def pooled_in_three(d: str) -> Any:
    x = N(d, 1, 3, 4, 4, 4)
    return torch.nn.MaxUnpool3d(2)(*torch.nn.functional.max_pool3d(x, 2, return_indices=True))


def fractional(kind: int) -> Callable[[str], Any]:
    def call(d: str) -> Any:
        x = N(d, 1, 3, *[5] * kind)
        drawn = torch.full((1, 3, kind), 0.5, device=d)
        function = getattr(torch.nn.functional, f"fractional_max_pool{kind}d_with_indices")
        return function(x, 2, output_size=[2] * kind, _random_samples=drawn)

    return call


def fused(d: str) -> Any:
    counts = [N(d, 1) for _ in range(2)]
    on = torch.ones(1, dtype=torch.long, device=d)
    points = torch.zeros(1, dtype=torch.int, device=d)
    return torch.fused_moving_avg_obs_fake_quant(N(d, 3, 3), on, on, *counts, N(d, 1), points, 0.5, 0, 255, 0)


def saved(d: str) -> Any:
    return values.saved({"weight": N(d, 3)})


def scripted_buffer(d: str) -> Any:
    buffer = io.BytesIO()
    torch.jit.save(scripting.scripted(d), buffer)
    buffer.seek(0)
    return buffer


def norms(d: str) -> tuple[Any, ...]:
    return N(d, 3, 3, 3, 3), N(d, 3), N(d, 3)


def shared_statistics(name: str) -> Callable[[str], Any]:
    """Return the parts of a batch norm over several GPUs."""

    def call(d: str) -> Any:
        x, a, b = norms(d)
        count = torch.full((1,), 27, dtype=torch.int32, device=d)
        given = {
            "batch_norm_stats": (x, 1e-5), "batch_norm_elemt": (x, a, b, a, b, 1e-5),
            "batch_norm_gather_stats": (x, a[None], b[None], None, None, 0.1, 1e-5, 27),
            "batch_norm_gather_stats_with_counts": (x, a[None], b[None], None, None, 0.1, 1e-5, count.float()),
            "batch_norm_backward_reduce": (x, x, a, b, a, True, True, True),
            "batch_norm_backward_elemt": (x, x, a, b, a, a, b, count), "batch_norm_update_stats": (x, a, b, 0.1),
        }  # fmt: skip
        return getattr(torch, name)(*given[name])

    return call


def given(name: str, make: Given) -> Callable[[str], Any]:
    """A method of an object by recipe, with the arguments of a table; where it returns nothing, the object after it."""

    def call(d: str) -> Any:
        where, _, method = name.rpartition(".")
        one = (recipes.RECIPES.get(where) or recipes.by_class()[resolve(where)])(d)
        with_what = make(one, d)
        told = getattr(one, method)(**with_what) if isinstance(with_what, dict) else getattr(one, method)(*with_what)
        return one if told is None else told

    return call


SPECIAL: dict[str, list[Callable[[str], Any]]] = {
    **{name: [given(name, make)] for subject in SUBJECTS for name, make in subject.GIVEN.items()},
    **{name: [call] for subject in SUBJECTS for name, call in subject.CALLS.items()},
    **{f"torch.{name}": [recurrent(name, gates)] for name,
        gates in {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}.items()},
    **{f"torch.{name}": [cell(name, gates)] for name,
        gates in {"lstm_cell": 4, "gru_cell": 3, "rnn_tanh_cell": 1, "rnn_relu_cell": 1}.items()},
    "torch.cudnn_convolution": [convolved("cudnn_convolution", False, False, True)],
    "torch.miopen_convolution": [convolved("miopen_convolution", False, False, bias=True)],
    "torch.cudnn_convolution_transpose": [convolved("cudnn_convolution_transpose", False, False, True,
        transposed=True)],
    "torch.convolution": [lambda d: torch.convolution(N(d, 3, 3, 3, 3), N(d, 3, 3, 3, 3), None, [1, 1], [1, 1],
        [1, 1], False, [0, 0], 1)],
    "torch.mkldnn_convolution": [lambda d: torch.mkldnn_convolution(N(d, 3, 3, 3, 3), N(d, 3, 3, 3, 3), None, [1, 1],
        [1, 1], [1, 1], 1)],
    **{f"torch.{name}": [activated(name)] for name in ("cudnn_convolution_relu", "cudnn_convolution_add_relu",
        "miopen_convolution_relu", "miopen_convolution_add_relu")},
    **{f"torch.{name}": [shared_statistics(name)] for name in (
        "batch_norm_stats batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts "
        "batch_norm_backward_reduce "
        "batch_norm_backward_elemt batch_norm_update_stats").split()},
    "torch.cudnn_batch_norm": [lambda d: torch.cudnn_batch_norm(*norms(d), None, None, True, 0.1, 1e-5)],
    "torch.cudnn_affine_grid_generator": [lambda d: torch.cudnn_affine_grid_generator(N(d, 3, 2, 3), 3, 3, 3, 3)],
    "torch.affine_grid_generator": [lambda d: torch.affine_grid_generator(N(d, 3, 2, 3), [3, 3, 3, 3], False)],
    "torch.cudnn_grid_sampler": [lambda d: torch.cudnn_grid_sampler(N(d, 3, 3, 3, 3), N(d, 3, 3, 3, 2) / 8)],
    "torch.native_group_norm": [lambda d: torch.native_group_norm(N(d, 3, 3, 3), N(d, 3), N(d, 3), 3, 3, 3, 1, 1e-5)],
    "torch.fused_moving_avg_obs_fake_quant": [fused],
    "torch.frombuffer": [lambda d: torch.frombuffer(bytearray(16), dtype=torch.float32)],
    "torch.fake_quantize_per_channel_affine": [lambda d: torch.fake_quantize_per_channel_affine(N(d, 3, 3), N(d, 3),
        torch.zeros(3, dtype=torch.int, device=d), 0, 0, 255)],
    "torch.quantized_batch_norm": [lambda d: torch.quantized_batch_norm(values.quantized(3, 3, 3, 3)(d), N(d, 3),
        N(d, 3), N(d, 3), N(d, 3), 1e-5, 0.5, 0)],
    "torch.from_numpy": [lambda d: torch.from_numpy(N("cpu", 3).numpy())],
    "torch.load": [lambda d: torch.load(saved(d), map_location=d)],
    "torch.save": [lambda d: torch.save({"x": N(d, 3)}, io.BytesIO())],
    "torch.sym_ite": [lambda d: torch.sym_ite(True, 1, 2)],
    "torch.cond": [lambda d: torch.cond(torch.tensor(True, device=d), torch.sin, torch.cos, (N(d, 3),))],
    "torch.sspaddmm": [lambda d: torch.sspaddmm(N(d, 3, 3).to_sparse(), N(d, 3, 3).to_sparse(), N(d, 3, 3))],
    "torch.Tensor.sspaddmm": [lambda d: N(d, 3, 3).to_sparse().sspaddmm(N(d, 3, 3).to_sparse(), N(d, 3, 3))],
    "torch.hsmm": [lambda d: torch.hsmm(N(d, 3, 3).to_sparse(), N(d, 3, 3))],
    "torch.Tensor.sparse_resize_": [lambda d: N(d, 3, 3).to_sparse().sparse_resize_((4, 4), 2, 0)],
    "torch.indices_copy": [lambda d: torch.indices_copy(N(d, 3, 3).to_sparse().coalesce())],
    "torch.Tensor.record_stream": [recorded], "torch.Event.elapsed_time": [timed],
    "torch.parse_ir": [lambda d: torch._C.parse_ir("graph(%x : Tensor):\n  return (%x)\n")],
    "torch.parse_type_comment": [lambda d: torch._C.parse_type_comment("# type: (Tensor) -> Tensor")],
    "torch.unify_type_list": [lambda d: str(torch._C.unify_type_list([torch._C.TensorType.get()]))],
    "torch.import_ir_module_from_buffer": [lambda d: torch.jit.load(scripted_buffer(d), map_location=d)(N(d, 3, 3))],
    "torch.fork": [lambda d: torch.jit.wait(torch.jit.fork(values.typed, N(d, 3)))],
    "torch.wait": [lambda d: torch.jit.wait(torch.jit.fork(values.typed, N(d, 3)))],
    "torch.GradScaler.step": [updated], "torch.GradScaler.update": [updated],
    "torch.GradScaler.load_state_dict": [loaded],
    "torch.GradScaler.unscale_": [lambda d: (lambda s, o: s.unscale_(o))(*scaler(d))],
    "torch.autograd.forward_ad.make_dual": [dual], "torch.autograd.forward_ad.unpack_dual": [dual],
    "torch.autograd.gradcheck": [lambda d: torch.autograd.gradcheck(torch.sin, (N(d, 3).double().requires_grad_(),))],
    "torch.autograd.gradgradcheck": [lambda d: torch.autograd.gradgradcheck(torch.sin,
        (N(d, 3).double().requires_grad_(),))],
    "torch.autograd.grad": [lambda d: (lambda x: torch.autograd.grad((x * x).sum(), x))(N(d, 3).requires_grad_())],
    **{f"torch.autograd.functional.{name}": [lambda d,
        name=name: getattr(torch.autograd.functional, name)(values.summed, N(d, 3),
        N(d, 3) if name != "jvp" else N(d, 3))] for name in ("hvp", "vhp", "jvp")},
    "torch.autograd.functional.vjp": [lambda d: torch.autograd.functional.vjp(values.doubled, N(d, 3), N(d, 3))],
    "torch.autograd.functional.hessian": [lambda d: torch.autograd.functional.hessian(lambda x: (x * x).sum(),
        N(d, 3))],
    "torch.nn.utils.remove_spectral_norm": [normed("spectral_norm", "remove_spectral_norm")],
    "torch.nn.utils.remove_weight_norm": [normed("weight_norm", "remove_weight_norm")],
    "torch.nn.utils.fuse_conv_bn_eval": [lambda d: (lambda m: torch.nn.utils.fuse_conv_bn_eval(m[0],
        m[1]))(values.folded(d))],
    "torch.nn.utils.fuse_linear_bn_eval": [lambda d: torch.nn.utils.fuse_linear_bn_eval(values.net(d).eval(),
        torch.nn.BatchNorm1d(3).to(d).eval())],
    "torch.nn.utils.skip_init": [lambda d: tuple(torch.nn.utils.skip_init(torch.nn.Linear, 3, 3,
        device=d).weight.shape)],
    "torch.nn.utils.rnn.pad_packed_sequence": [lambda d: torch.nn.utils.rnn.pad_packed_sequence(packed(d))],
    "torch.nn.utils.rnn.unpack_sequence": [lambda d: torch.nn.utils.rnn.unpack_sequence(packed(d))],
    "torch.nn.utils.rnn.PackedSequence.cuda": [lambda d: packed(d).cuda()],
    "torch.nn.utils.rnn.PackedSequence.pin_memory": [lambda d: packed("cpu").pin_memory()],
    "torch.nn.utils.parametrize.remove_parametrizations": [unparametrized], "torch.nn.utils.prune.remove": [unpruned],
    "torch.nn.utils.prune.global_unstructured": [lambda d: torch.nn.utils.prune.global_unstructured([(values.net(d),
        "weight")], torch.nn.utils.prune.L1Unstructured, amount=2)],
    "torch.nn.MaxUnpool2d.forward": [pooled], "torch.nn.MaxUnpool3d.forward": [pooled_in_three],
    "torch.nn.Fold.forward": [lambda d: torch.nn.Fold((4, 4), 2)(N(d, 1, 12, 9))],
    "torch.nn.FractionalMaxPool3d.forward": [lambda d: torch.nn.FractionalMaxPool3d(2, output_size=2,
        _random_samples=torch.full((1, 3, 3), 0.5, device=d))(N(d, 1, 3, 5, 5, 5))],
    "torch.nn.FractionalMaxPool2d.forward": [lambda d: torch.nn.FractionalMaxPool2d(2, output_size=2,
        _random_samples=torch.full((1, 3, 2), 0.5, device=d))(N(d, 1, 3, 5, 5))],
    "torch.nn.functional.fractional_max_pool2d_with_indices": [fractional(2)],
    "torch.nn.functional.fractional_max_pool3d_with_indices": [fractional(3)],
    "torch.nn.functional.adaptive_max_pool3d_with_indices": [
        lambda d: torch.nn.functional.adaptive_max_pool3d_with_indices(N(d, 1, 3, 4, 4, 4), 2)],
    "torch.nn.SyncBatchNorm.forward": [lambda d: torch.nn.SyncBatchNorm(3).to(d)(N(d, 3, 3, 3))],
    "torch.nn.DataParallel.forward": [lambda d: torch.nn.DataParallel(values.net(d))(N(d, 3, 3))],
    "torch.nn.LSTM.check_forward_args": [lambda d: torch.nn.LSTM(3, 3).to(d).check_forward_args(N(d, 3, 3, 3),
        (N(d, 1, 3, 3), N(d, 1, 3, 3)), None)],
    "torch.nn.LSTM.permute_hidden": [lambda d: torch.nn.LSTM(3,
        3).to(d).permute_hidden((N(d, 1, 3, 3), N(d, 1, 3, 3)), torch.tensor([2, 0, 1], device=d))],
    "torch.nn.RNNBase.check_forward_args": [lambda d: torch.nn.RNN(3, 3).to(d).check_forward_args(N(d, 3, 3, 3),
        N(d, 1, 3, 3), None)],
    "torch.TypedStorage.from_file": [lambda d: torch.TypedStorage(4, dtype=torch.float32, device="cpu").size()],
    "torch.serialization.get_unsafe_globals_in_checkpoint": [
        lambda d: torch.serialization.get_unsafe_globals_in_checkpoint(saved(d))],
    "torch.serialization.check_module_version_greater_or_equal": [
        lambda d: torch.serialization.check_module_version_greater_or_equal(torch, (1, 0))],
    "torch.sparse.to_sparse_semi_structured": [lambda d: torch.sparse.to_sparse_semi_structured(torch.tensor([0, 0, 1,
        1], dtype=torch.half, device=d).tile((64, 16)))],
}  # fmt: skip
