"""Values for parameters: by the name that torch gives one, by its type, or of any kind; made anew for each call."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from typing import Any

import torch

#: Makes a value, with what it has of tensors on a device.
Maker = Callable[[str], Any]
#: Makes the arguments of a method, from its object and for a device.
Given = Callable[[Any, str], "list[Any] | dict[str, Any]"]


def numbers(device: str, *shape: int, dtype: Any = torch.float32) -> Any:
    """Numbers that are the same everywhere: between 0.25 and 3."""
    count = 1
    for size in shape:
        count *= size
    return (((torch.arange(count) * 37) % 23).float() / 8 + 0.25).to(dtype).reshape(shape).to(device)


def of(*shape: int, dtype: Any = torch.float32) -> Maker:
    return lambda d: numbers(d, *shape, dtype=dtype)


def constant(value: Any) -> Maker:
    return lambda d: value


def grows(d: str) -> Any:
    return numbers(d, 3, 3).requires_grad_()


def grown(d: str) -> Any:
    return (grows(d) * 2).sum()


def quantized(*shape: int, dtype: Any = torch.quint8) -> Maker:
    return lambda d: torch.quantize_per_tensor(numbers("cpu", *shape), 0.25, 2, dtype).to(d)


def per_channel(d: str) -> Any:
    scales, points = torch.tensor([0.25, 0.5, 0.25]), torch.zeros(3, dtype=torch.long)
    return torch.quantize_per_channel(numbers("cpu", 3, 3), scales, points, 0, torch.qint8).to(d)


def indices(*shape: int) -> Maker:
    return lambda d: (torch.arange(int(torch.Size(shape).numel())) % 3).reshape(shape).to(d)


def positive(d: str) -> Any:
    square = numbers(d, 3, 3) / 8
    return square @ square.T + torch.eye(3, device=d)


def vectors(dtype: Any) -> Maker:
    return lambda d: torch.ones(3, dtype=dtype, device=d)


def nested(d: str) -> Any:
    return torch.nested.nested_tensor([numbers(d, 2, 3), numbers(d, 3, 3)])


#: Tensors of every kind. Arguments that are tensors are tried kind by kind, all of them of one.
WORLD: list[Maker] = [
    of(3, 3), of(3), of(3, 3, 3, 3), of(3, 3, 3), of(3, 3, 3, 3, 3), indices(3, 3), indices(3),
    lambda d: numbers(d, 3, 3) > 1, of(), of(3, 3, dtype=torch.complex64), grows, quantized(3, 3),
    lambda d: numbers(d, 3, 3).to_sparse(), lambda d: numbers(d, 3, 3).to_sparse_csr(),
    lambda d: numbers(d, 3, 3).to_sparse_csc(), positive, of(3, 2), per_channel, quantized(3, 3, 3, 3),
    lambda d: numbers(d, 3, 3).to_sparse_bsr((1, 1)), nested, of(3, 3, dtype=torch.float64), grown,
    of(3, 3, dtype=torch.bfloat16), vectors(torch.int32), vectors(torch.uint8), of(4, 4), of(1), of(1, 1, 3, 3),
    of(2, 4, 4), quantized(3, 3, 3), quantized(3, 3, 3, 3, 3), lambda d: numbers(d, 32, 64).to(torch.bfloat16),
    lambda d: numbers(d, 3, 3).to_mkldnn() if d == "cpu" else numbers(d, 3, 3),
    lambda d: numbers(d, 3, 3, 3, 3).to_mkldnn() if d == "cpu" else numbers(d, 3, 3, 3, 3),
]  # fmt: skip


def net(d: str) -> Any:
    made = torch.nn.utils.skip_init(torch.nn.Linear, 3, 3)  # draws nothing
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(numbers("cpu", *p.shape))
    return made.to(d)


def trained(d: str) -> Any:
    made = net(d)
    made(numbers(d, 3, 3)).sum().backward()
    return made


def sequence(d: str) -> Any:
    return torch.nn.Sequential(net(d), torch.nn.ReLU(), net(d))


def folded(d: str) -> Any:
    made = torch.nn.Sequential(
        torch.nn.utils.skip_init(torch.nn.Conv2d, 3, 3, 1), torch.nn.BatchNorm2d(3), torch.nn.ReLU()
    )
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(numbers("cpu", *p.shape))
    return made.to(d).eval()


def sgd(d: str) -> Any:
    return torch.optim.SGD(trained(d).parameters(), lr=0.1, momentum=0.5)


def normal(d: str) -> Any:
    return torch.distributions.Normal(numbers(d, 3), numbers(d, 3))


class Pairs(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """A set of data whose class can be pickled."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return torch.arange(3.0) + index


def doubled(x: Any = None, *rest: Any) -> Any:
    """Return a function that can be pickled and traced."""
    return x * 2


def typed(x: torch.Tensor) -> torch.Tensor:
    """Return a function that can be scripted."""
    return x * 2


def truth(*values: Any) -> bool:
    return True


def summed(*values: Any) -> Any:
    return sum(value.sum() for value in values)


def saved(value: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def written(name: str = "weights.pt") -> Any:
    """Return a checkpoint's path."""
    torch.save({"weight": torch.ones(3)}, name)
    return name


def each(*values: Any) -> list[Maker]:
    return [constant(value) for value in values]


#: By the names of parameters. The first is the likeliest.
NAMED: dict[str, list[Maker]] = {
    **dict.fromkeys("index indices".split(), [indices(3, 3), indices(3), of(3), *each(0)]),
    **dict.fromkeys("mask condition mask_tensor".split(),
        [lambda d: numbers(d, 3, 3) > 1, lambda d: numbers(d, 3) > 1]),
    **dict.fromkeys("dim axis dim0 axis0 source destination start_dim".split(), each(0, 1, (0,), (0, 1), -1)),
    **dict.fromkeys("dim1 axis1 end_dim dim2".split(), each(1, 0, -1)),
    **dict.fromkeys("dims dim_".split(), each((0, 1), (0,), [[0], [0]], 1)),
    **dict.fromkeys("size shape sizes sym_size".split(), each((3, 3), (3,), 3, (9,), (1, 3, 3), (1, 1, 3, 3), (6, 6))),
    **dict.fromkeys("stride strides".split(), each((1, 1), (3, 1), (1,), 1, (1, 1, 1))),
    **dict.fromkeys("padding output_padding".split(), each((0, 0), (0,), 0, (0, 0, 0), 1)),
    **dict.fromkeys("dilation".split(), each((1, 1), (1,), 1, (1, 1, 1))),
    **dict.fromkeys("kernel_size".split(), each((1, 1), 1, (1,), (1, 1, 1), 2)),
    **dict.fromkeys("output_size".split(), each((3, 3), 3, (3,), (3, 3, 3))),
    **dict.fromkeys("n N m num steps window_length M num_classes nnz".split(), each(3, 1)),
    **dict.fromkeys("k r count num_threads chunks sections groups num_groups steps_per_epoch epochs num_layers".split(),
        each(1, 2)),
    **dict.fromkeys("p keep_prob dropout dropout_p".split(), each(0.5, 2.0, 2, normal)),
    "p": [*each(2.0, 0.5), normal], "q": [normal, of(3, 3), *each(0.5, 2)], "start": each(0, 1, 0.0),
    "end": each(3, 2, 3.0), "step": each(1, 2),
    "device": [lambda d: d, lambda d: torch.device(d), *each(0)], "device_type": [lambda d: torch.device(d).type],
    "device_id": each(0), "device_ids": [lambda d: None if d == "cpu" else [0]], "devices": [lambda d: [d], *each([0])],
    "device_index": each(0), "map_location": [lambda d: d], "devices_list": [lambda d: [d]],
    "dtype": each(torch.float32, torch.quint8, torch.qint8, torch.long, torch.int8),
    **dict.fromkeys("from_ to type1 type2 dtype1 dtype2".split(), each(torch.float32, torch.float64)),
    "layout": each(torch.sparse_csr, torch.strided), "memory_format": each(torch.contiguous_format),
    "fill_value": each(1.0, 1), "num_samples": each(2), "seed": each(3), "mean": each(0.0), "std": each(1.0),
    **dict.fromkeys("tensors tensor_list sequences grads inputs tensor_lists xs".split(), [
        lambda d: [numbers(d, 3, 3), numbers(d, 3, 3)], lambda d: (numbers(d, 3, 3),), grows, of(3, 3),
        lambda d: [numbers(d, 3), numbers(d, 3)], lambda d: (grows(d),), lambda d: [grown(d)]]),
    "outputs": [lambda d: [grown(d)], grown],
    "args": [lambda d: (numbers(d, 3, 3),), constant(()), lambda d: (sequence(d),)],
    "kwargs": each({}),
    "example_inputs": [lambda d: (numbers(d, 3, 3),), of(3, 3)], "example_inputs_is_tuple": each(True),
    **dict.fromkeys("fn func function f callable prop_fn fun callback hook".split(), [
        constant(doubled), constant(summed), constant(torch.sin), constant(typed), constant(truth),
        constant(lambda *a, **k: None), net, constant(lambda d: d), constant(lambda b, h, q, kv: q >= kv)]),
    "mask_mod": [constant(lambda b, h, q, kv: q >= kv)], "score_mod": [constant(lambda s, b, h, q, kv: s)],
    **dict.fromkeys("model module mod nn_module root submodule model_".split(), [net, sequence, folded, trained]),
    "modules": [lambda d: [net(d)], lambda d: {"a": net(d)}], "functions": [lambda d: sequence(d)],
    **dict.fromkeys("parameters params parameters_".split(), [
        lambda d: list(trained(d).parameters()), lambda d: [{"params": list(trained(d).parameters())}],
        lambda d: dict(net(d).named_parameters())]),
    "parameter": [lambda d: torch.nn.Parameter(numbers(d, 3, 3)), lambda d: [(net(d), "weight")]],
    "parameters_and_buffers": [lambda d: dict(net(d).named_parameters())],
    "parameter_and_buffer_dicts": [lambda d: dict(net(d).named_parameters())],
    **dict.fromkeys("optimizer optim".split(), [sgd]), "defaults": each({"lr": 0.1}),
    "optimizer_class": each(torch.optim.SGD), "optim_cls": each(torch.optim.SGD), "optim": [sgd],
    **dict.fromkeys((
        "in_features out_features in_channels out_channels num_features num_channels normalized_shape").split(),
        each(3, (3,))),
    **dict.fromkeys("num_embeddings embedding_dim input_size hidden_size in1_features in2_features".split(), each(3)),
    **dict.fromkeys("embed_dim d_model".split(), each(4)), **dict.fromkeys("num_heads nhead".split(), each(2)),
    **dict.fromkeys("lr max_lr negative_slope clip_value base_lr eps epsilon".split(), each(0.1)),
    **dict.fromkeys("name tensor_name param_name names buffer_name".split(),
        [*each("weight", "other", "sum", "relu", None), lambda d: ["weight"]]),
    **dict.fromkeys("target".split(), [of(3, 3), indices(3), of(3), *each("weight", "", torch.sin), constant(doubled)]),
    **dict.fromkeys("lambd alpha beta gamma threshold value amount clip_coef temperature_ momentum".split(),
        [*each(0.5, 1), of(3, 3), of()]),
    **dict.fromkeys("upscale_factor downscale_factor".split(), each(1)), "scale_factor": each(2, 2.0),
    "scale": [*each(0.25, 1.0), of(3), of()], "zero_point": [*each(0), vectors(torch.int32), vectors(torch.long)],
    "scales": [of(3), *each(0.5, [0.5])], "zero_points": [vectors(torch.long)], "quant_min": each(0),
    "quant_max": each(255),
    "scale_grad_by_freq": each(False), "step_size": each(1), "milestones": each([1]),
    "lr_lambda": [constant(lambda epoch: 0.5)],
    **dict.fromkeys("T_max T_0 total_iters total_steps step_size_up".split(), each(3)), "schedulers": [
        lambda d: [torch.optim.lr_scheduler.StepLR(sgd(d), 1)],
        lambda d: (lambda o: [torch.optim.lr_scheduler.StepLR(o, 1), torch.optim.lr_scheduler.ConstantLR(o)])(sgd(d))],
    "swa_lr": each(0.05), "low": [*each(0.0, 0), of(3)], "high": [*each(1.0, 3), lambda d: numbers(d, 3) + 1],
    "mode": each(True, "sum", 0, "fan_in", "max", "default"), "enabled": each(True), "reduce": each("sum", "amax"),
    "reduction": each("sum", 1),
    "nonlinearity": each("relu"),
    "dataset": [constant(Pairs()), lambda d: torch.utils.data.TensorDataset(torch.arange(4.0))],
    "datasets": [constant([Pairs()])], "data_source": each([1, 2, 3, 4]), "sampler": each([0, 1]),
    "batch_size": each(2),
    "drop_last": each(False), "weights": [*each([0.5, 0.5]), of(3)],
    "generator": [constant(None), lambda d: torch.Generator(d)],
    "lengths": [*each([2, 2]), lambda d: torch.tensor([3, 2, 1]), *each([3, 3, 3])],
    "batch": [lambda d: [torch.ones(2)]], "hidden": each(None),
    "hx": [of(1, 3, 3), of(3, 3), lambda d: [numbers(d, 1, 3, 3), numbers(d, 1, 3, 3)],
        lambda d: [numbers(d, 3, 3), numbers(d, 3, 3)]],
    "mantissa": [of(3, 3)], "exponent": [*each(2.0), lambda d: torch.ones(3, 3, dtype=torch.int, device=d)],
    "boundaries": [of(3)], "sorted_sequence": [lambda d: torch.arange(3.0, device=d)], "n_fft": each(3, 4),
    "split_size": each(1), "split_sizes": each([1, 2]), "split_size_or_sections": each(1),
    "indices_or_sections": each(1, 3), "repeats": each(2, (2, 2)),
    "shifts": each(1), "min": each(0.0), "max": each(1.0), "bins": each(3), "diagonal": each(0),
    "offset": [*each(0), indices(2), lambda d: torch.zeros(2, dtype=torch.long, device=d)],
    "offsets": [lambda d: torch.zeros(1, dtype=torch.long, device=d), lambda d: torch.tensor([0, 2, 3], device=d)],
    "equation": each("ij->ji"), "operands": [of(3, 3)], "blocksize": each((1, 1)), "ord": each(2), "n_": each(1),
    "attr": each("weight", "x"),
    "state_dict": [lambda d: net(d).state_dict(), lambda d: sgd(d).state_dict(), constant({})],
    **dict.fromkeys("string src_ code stmt schema".split(),
        each("x", "def f(x):\n    return x\n", "f(Tensor x) -> Tensor")),
    **dict.fromkeys("path filename file_name f_ file".split(),
        [lambda d: written(), constant("made.bin"), lambda d: io.BytesIO(b"x")]),
    **dict.fromkeys("buffer stream_ data_".split(), [constant(bytearray(16)), of(3, 3)]), "nbytes": each(16),
    "base_distribution": [normal], "base_dist": [normal],
    "transforms": [constant([torch.distributions.ExpTransform()])],
    "transform": [constant(torch.distributions.ExpTransform())],
    "base_transform": [constant(torch.distributions.ExpTransform())],
    "tseq": [constant([torch.distributions.ExpTransform()])],
    "parts": [constant([torch.distributions.ExpTransform()])],
    "cseq": [constant([torch.distributions.constraints.real])],
    "total_count": each(3), "constraint": [constant(torch.distributions.constraints.real)],
    "base_constraint": [constant(torch.distributions.constraints.real)],
    "probs": [lambda d: numbers(d, 3) / 8, lambda d: numbers(d, 3, 3) / 8], "logits": [of(3), of(3, 3)],
    "covariance_matrix": [positive], "precision_matrix": [positive],
    "scale_tril": [lambda d: torch.linalg.cholesky(positive(d))],
    "df": [lambda d: torch.tensor(4.0, device=d), of(3)], "df1": [of(3)], "df2": [of(3)], "cov_factor": [of(3, 2)],
    "cov_diag": [of(3)],
    "sample_shape": each((2,)), "expand_shape": each((3, 3)), "batch_shape": each((3,), (3, 3), ()),
    "in_shape": each((3,)), "out_shape": each((3, 1)), "event_dim": each(1), "reinterpreted_batch_ndims": each(1),
    "mixture_distribution": [lambda d: torch.distributions.Categorical(numbers(d, 3))],
    "component_distribution": [normal],
    "world_size": each(1), "rank": each(0), "group": each(None), "src": [of(3, 3), *each(0), indices(3, 3), of(3)],
    "dst": each(0), "group_size": each(1), "global_rank": each(0), "group_rank": each(0), "ranks": each([0]),
    "backend": each("eager", "gloo"), "mesh_shape": each((1,)), "max_norm": each(1.0), "new_threshold": each(1.0),
    "abs": each(True), "unsafe": each(True), "cache_size": each(1),
    "primals": [lambda d: (numbers(d, 3, 3),)], "tangents": [lambda d: (numbers(d, 3, 3),)], "tangent": [of(3, 3)],
    "in_dims": each(0),
    "qconfig": [lambda d: torch.ao.quantization.get_default_qconfig("fbgemm")],
    "qconfig_dict": [lambda d: {"": torch.ao.quantization.get_default_qconfig("fbgemm")}], "float_module": [net],
    "observer": [lambda d: torch.ao.quantization.MinMaxObserver()],
    "num_batches_tracked": each(1), "new_tensor": [of(3, 3)], "closure": [constant(lambda: torch.tensor(1.0))],
    "metric": each("self_cpu_time_total"), "wait": each(0), "warmup": each(0), "active": each(1),
    "running_mean": [of(3)], "running_var": [of(3)], "bias": [of(3), *each(None)], "save_mean": [of(3)],
    "save_var": [of(3)], "invstd": [of(3)], "training": each(True, False), "train": each(True, False),
    "exponential_average_factor": each(0.5),
    "benchmark": each(False), "deterministic": each(False), "allow_tf32": each(True), "has_biases": each(False),
    "bidirectional": each(False), "batch_first": each(False),
    "crow_indices": [lambda d: torch.tensor([0, 1, 2, 3], device=d)], "col_indices": [indices(3)],
    "ccol_indices": [lambda d: torch.tensor([0, 1, 2, 3], device=d)], "row_indices": [indices(3)],
    "compressed_indices": [lambda d: torch.tensor([0, 1, 2, 3], device=d)], "plain_indices": [indices(3)],
    "sparse_dim": each(1), "dense_dim": each(1),
    "cls": each(torch.Tensor), "stream": [lambda d: torch.Stream(device=d)],
    "event": [lambda d: torch.Event(device=d)], "op": each("call_function", torch.add), "opname": each("aten::add"),
    "type_": [lambda d: torch._C.TensorType.get()], "typ": [lambda d: torch._C.TensorType.get()],
    "theta": [of(3, 2, 3)], "grid": [of(3, 3, 3, 2)], "align_corners": each(False), "interpolation_mode": each(0),
    "padding_mode": each(0), "blank": each(0), "log_probs": [lambda d: torch.log_softmax(numbers(d, 3, 1, 3), 2)],
    "targets": [lambda d: torch.ones(1, 2, dtype=torch.long, device=d)], "input_lengths": each((3,), [3]),
    "target_lengths": each((2,), [2]),
}  # fmt: skip
#: By the text of a type, with a pattern.
TYPED: list[tuple[str, list[Maker]]] = [
    (r"List\[Optional\[Tensor\]\]", [lambda d: [indices(3)(d)], lambda d: [numbers(d, 3, 3) > 1]]),
    (r"(List|Sequence|Iterable|list|tuple|Tuple)\[.*Tensor", NAMED["tensors"]),
    (r"Parameter|^torch\.nn", [lambda d: torch.nn.Parameter(numbers(d, 3, 3))]),
    (r"Tensor", WORLD),
    (r"(List|Sequence|Iterable|list|tuple|Tuple|SupportsInt|Size)\w*\[?.*\bint|Size$|_size_",
        each((3, 3), (1, 1), (3,), (1,), (0,), (0, 1), 1)),
    (r"(List|Sequence|Iterable|list|tuple|Tuple)\[.*(float|number)", each([0.5, 0.5], [1.0])),
    (r"(List|Sequence|Iterable|list|tuple|Tuple|Set|set)\[.*str", each(["weight"], ["x"], [])),
    (r"dtype", each(torch.float32, torch.qint8)), (r"[Dd]evice", NAMED["device"]),
    (r"Callable|Function", NAMED["fn"]), (r"\bbool\b", each(True, False)),
    (r"\bint\b|SymInt|SupportsInt", each(1, 0, 3, 2)),
    (r"\bfloat\b|number|Scalar|SupportsFloat", each(0.5, 1.0, 2)),
    (r"\bstr\b|LiteralString", each("weight", "x", "sum", "relu")),
    (r"\bbytes\b", each(b"x")),
    (r"(dict|Dict|Mapping)\b", [constant({}), lambda d: {"weight": numbers(d, 3)}, lambda d: net(d).state_dict()]),
    (r"(list|List|Sequence|Iterable|tuple)\b", [constant([1]), constant([]), lambda d: [numbers(d, 3)]]),
    (r"Generator", NAMED["generator"]), (r"PathLike|Path\b|FileLike|IO\b|BinaryIO", NAMED["path"]),
    (r"Storage", [lambda d: numbers(d, 3).untyped_storage(), lambda d: numbers(d, 3).storage()]),
    (r"timedelta", [constant(__import__("datetime").timedelta(seconds=5))]),
    (r"type\[|Type\[", each(torch.nn.Linear, torch.Tensor)),
]  # fmt: skip
#: Of any kind, for parameters of which nothing is known.
ANYTHING: list[Maker] = [
    of(3, 3), *each(1, "weight"), net, *each(None, 0.5, doubled, (3, 3), {}), lambda d: [numbers(d, 3, 3)],
    *each([], True, torch.float32),
    lambda d: d, constant(lambda *a, **k: None), *each(torch.Tensor, b"x"), indices(3), sgd, grows,
    *each(torch.nn.Linear, int),
]  # fmt: skip


#: What a value of a type is, by the text of the type.
SUITS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda x: isinstance(x, torch.Tensor),
    "int": lambda x: isinstance(x, (int, torch.dtype, torch.layout, torch.memory_format)) and not isinstance(x, bool),
    "bool": lambda x: isinstance(x, bool),
    "float": lambda x: isinstance(x, (int, float)) and not isinstance(x, bool),
    "str": lambda x: isinstance(x, str),
    "List[Tensor]": lambda x: (
        isinstance(x, (list, tuple)) and all(isinstance(part, torch.Tensor) for part in x) and bool(x)
    ),
    "List[int]": lambda x: isinstance(x, (list, tuple)) and all(isinstance(part, int) for part in x),
}
SUITS["number"] = SUITS["float"]


def suited(found: list[Maker], text: str, classes: tuple[type, ...]) -> list[Maker]:
    """Return values, those of the requested type first."""
    plain = text.removeprefix("Optional[").removesuffix("]") if text.startswith("Optional[") else text
    test = SUITS.get(plain)
    if test is None and classes and not any(kind is object for kind in classes):
        test = functools.partial(lambda x, kinds: isinstance(x, kinds), kinds=classes)
    if test is None:
        return found

    def fits(make: Maker) -> bool:
        try:
            return bool(test(make("cpu")))
        except Exception:
            return False

    return [make for make in found if fits(make)]


@functools.lru_cache(None)
def makers(name: str, text: str, classes: tuple[type, ...] = ()) -> list[Maker]:
    """Values for a parameter, the likeliest first."""
    by_name = NAMED.get(name) or NAMED.get(name.rstrip("_")) or []
    by_type = next((found for pattern, found in TYPED if re.search(pattern, text)), []) if text else []
    if text.startswith("Optional") or "None" in text:
        by_type = [*by_type, constant(None)]
    return [*(suited(by_name, text, classes) if text else by_name), *by_type] or by_name or ANYTHING
