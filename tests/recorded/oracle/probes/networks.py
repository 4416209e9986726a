"""Layers and losses: kernels that CUDA has others for than the processor."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from recorded.oracle.probing import about, every, numbers, probe, raises, ramp, warned
from recorded.oracle.scenes import filled


@probe()
def recurrent() -> Any:
    x = ramp(4, 2, 3) / 4
    out = []
    for make in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        for options in ({}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False}):
            y, h = filled(make(3, 4, **options))(x)
            out.append([about(y), numbers(y.sum((0, 1))), about(h[0] if isinstance(h, tuple) else h)])
    y, _ = filled(torch.nn.LSTM(3, 4, proj_size=2))(x)
    return [*out, about(y), numbers(y[-1])]


@probe()
def recurrent_refusals() -> Any:
    lstm = filled(torch.nn.LSTM(3, 4))
    x = ramp(4, 2, 3)
    return [
        raises(lambda: lstm(x.cpu())),
        raises(lambda: lstm(x[..., :2])),
        raises(lambda: lstm(x, (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4)))),
        raises(lambda: lstm(x, (torch.zeros(1, 3, 4, device="cuda"), torch.zeros(1, 2, 4, device="cuda")))),
        raises(lambda: lstm(x.double())),
        raises(lambda: lstm(x[0, 0])),
        raises(lambda: lstm.half()(x)),
        raises(lambda: torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2], device="cuda"))),
        raises(lambda: torch.nn.utils.rnn.pack_padded_sequence(x, [2, 4])),
    ]


@probe()
def packed_sequences() -> Any:
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    x = ramp(4, 3, 2) / 4
    packed = pack_padded_sequence(x, torch.tensor([4, 1, 2]), enforce_sorted=False)
    y, (h, c) = filled(torch.nn.LSTM(2, 3))(packed)
    back, lengths = pad_packed_sequence(y)
    return [
        str(packed.data.device),
        str(packed.batch_sizes.device),
        str(packed.sorted_indices.device),
        back,
        lengths,
        h,
        c.shape,
    ]


@probe()
def weights_in_one_piece() -> Any:
    lstm = torch.nn.LSTM(3, 4, device="cuda")
    before = len({p.untyped_storage().data_ptr() for p in lstm.parameters()})
    lstm = torch.nn.LSTM(3, 4)
    lstm.cuda()
    after = len({p.untyped_storage().data_ptr() for p in lstm.parameters()})
    lstm._flat_weights[0].data = lstm._flat_weights[0].data.clone()
    return [before, after, warned(lambda: lstm(ramp(2, 1, 3))[0].shape)]


@probe()
def convolutions() -> Any:
    x = ramp(2, 4, 6, 6)
    w = ramp(4, 2, 3, 3) / 8
    y = [
        F.conv2d(x, w, groups=2),
        F.conv2d(x, w, padding=1, stride=2, groups=2),
        F.conv2d(x, w, padding="same", groups=2),
        F.conv2d(x, w, dilation=2, groups=2),
        F.conv_transpose2d(x, w, stride=2, output_padding=1, groups=1),
        F.conv2d(x.contiguous(memory_format=torch.channels_last), w, groups=2),
        F.conv1d(x[:, :, 0], w[:, :, 0], groups=2),
        F.conv3d(x[:, :, None], w[:, :, None], groups=2),
    ]
    return [[about(t), float(t.double().sum()), float(t.double().abs().max())] for t in y]


@probe()
def convolutions_of_halves() -> Any:
    x = ramp(2, 4, 6, 6).half()
    w = (ramp(4, 4, 3, 3) / 16).half()
    y = F.conv2d(x, w)
    z = F.conv2d(x.bfloat16(), w.bfloat16())
    return [
        about(y),
        numbers(y[0, 0]),
        about(z),
        raises(lambda: about(F.conv2d(x[0], w))),
        about(F.conv2d(x[:0], w)),
        about(F.conv2d(x, w.contiguous(memory_format=torch.channels_last))),
    ]


@probe()
def norms() -> Any:
    x = ramp(4, 6, 3)
    bn = torch.nn.BatchNorm1d(6, device="cuda")
    y = bn(x)
    bn.eval()
    return [
        y[0, 0],
        bn.running_mean,
        bn.running_var,
        bn.num_batches_tracked,
        bn(x)[0, 0],
        F.layer_norm(x, (3,))[0],
        F.group_norm(x, 3)[0, 0],
        F.instance_norm(x)[0, 0],
        F.rms_norm(x, (3,))[0],
        F.local_response_norm(x, 2)[0, 0],
        raises(lambda: torch.nn.BatchNorm1d(6, device="cuda")(x[:1, :, :1])),
        raises(lambda: torch.nn.BatchNorm1d(5, device="cuda")(x)),
        raises(lambda: F.layer_norm(x, (4,))),
        raises(lambda: F.group_norm(x, 4)),
        raises(lambda: torch.nn.BatchNorm1d(6)(x)),
        raises(lambda: F.batch_norm(x, None, None)),
        about(F.batch_norm(x.half(), bn.running_mean, bn.running_var)),
    ]


@probe()
def native_norm_results() -> Any:
    x = ramp(4, 6, 3)
    a = torch.ops.aten
    return [
        [about(t) for t in r]
        for r in (
            a.native_layer_norm(x, [3], None, None, 1e-5),
            a.native_layer_norm(x.half(), [3], None, None, 1e-5),
            a.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
            a.native_group_norm(x, None, None, 4, 6, 3, 2, 1e-5),
            a.native_group_norm(x.half(), None, None, 4, 6, 3, 2, 1e-5),
            a.native_batch_norm(x.half(), None, None, None, None, True, 0.1, 1e-5),
            a.native_dropout(x, 0.0, True),
        )
    ]


@probe()
def losses() -> Any:
    x, y = ramp(4, 5), ramp(4, 5).flip(0)
    t = torch.tensor([1, 0, 4, 2], device="cuda")
    p = torch.sigmoid(x)
    return [
        F.cross_entropy(x, t),
        F.cross_entropy(x, t, label_smoothing=0.1, reduction="none"),
        F.cross_entropy(x, p),
        F.nll_loss(x, t, ignore_index=0),
        F.mse_loss(x, y),
        F.l1_loss(x, y),
        F.smooth_l1_loss(x, y, beta=0.5),
        F.huber_loss(x, y),
        F.kl_div(x, p),
        F.binary_cross_entropy(p, p),
        F.binary_cross_entropy_with_logits(x, p, pos_weight=p[0]),
        F.hinge_embedding_loss(x, torch.sign(y)),
        F.margin_ranking_loss(x, y, torch.sign(x)),
        F.soft_margin_loss(x, torch.sign(y)),
        F.triplet_margin_loss(x, y, x + 1),
        F.cosine_embedding_loss(x, y, torch.ones(4, device="cuda")),
        F.multi_margin_loss(x, t),
        F.multilabel_margin_loss(x, torch.zeros(4, 5, dtype=torch.long, device="cuda")),
        F.multilabel_soft_margin_loss(x, p),
        F.poisson_nll_loss(x, p),
        F.gaussian_nll_loss(x, y, p),
        F.cross_entropy(x, torch.full((4,), -100, device="cuda")),
    ]


@probe()
def losses_refused() -> Any:
    x = ramp(4, 5)
    return [
        raises(f)
        for f in (
            lambda: F.cross_entropy(x, torch.zeros(3, dtype=torch.long, device="cuda")),
            lambda: F.cross_entropy(x, torch.zeros(4, device="cuda")),
            lambda: F.cross_entropy(x, torch.zeros(4, dtype=torch.int32, device="cuda")),
            lambda: F.nll_loss(x, torch.zeros(4, dtype=torch.uint8, device="cuda")),
            lambda: F.cross_entropy(x, torch.zeros(4, dtype=torch.long, device="cuda"), weight=torch.ones(5)),
            lambda: F.cross_entropy(
                x, torch.zeros(4, dtype=torch.long, device="cuda"), weight=torch.ones(4, device="cuda")
            ),
            lambda: F.mse_loss(x, x.double()),
            lambda: F.mse_loss(x.half(), x.half()),
            lambda: F.binary_cross_entropy(x, x[:3]),
            lambda: F.nll_loss(x[0, :, None, None, None], torch.zeros(1, dtype=torch.long, device="cuda")),
            lambda: F.kl_div(x, x.cpu()),
            lambda: F.multi_margin_loss(x, torch.zeros(4, device="cuda")),
            lambda: F.ctc_loss(x[:, None], torch.ones(1, 2, dtype=torch.long, device="cuda"), (5,), (2,)),
            lambda: F.binary_cross_entropy_with_logits(x, x.cpu()),
        )
    ]


@probe()
def ctc() -> Any:
    torch.manual_seed(0)
    x = (ramp(10, 2, 5) / 4).log_softmax(2).requires_grad_()
    t = torch.tensor([[1, 2, 3], [2, 2, 4]], device="cuda")
    out = []
    for r in ("none", "mean", "sum"):
        out.append(F.ctc_loss(x, t, (10, 8), (3, 2), reduction=r))
    out.append(F.ctc_loss(x, t.cpu().int(), (10, 10), (3, 3)))
    out.append(F.ctc_loss(x, t, (2, 2), (3, 3), reduction="none", zero_infinity=True))
    out[1].backward()
    return [
        *out,
        x.grad[0],
        raises(lambda: F.ctc_loss(x, t, torch.tensor([10, 10], device="cuda"), torch.tensor([3, 3]), reduction="none")),
    ]


@probe()
def pooling() -> Any:
    x = ramp(1, 2, 6, 6)
    y, i = F.max_pool2d(x, 2, return_indices=True)
    return [
        y,
        i,
        F.avg_pool2d(x, 3, 2, padding=1),
        F.adaptive_avg_pool2d(x, 3)[0, 0],
        F.adaptive_max_pool2d(x, (2, 3)),
        F.lp_pool2d(x, 2, 3),
        F.max_unpool2d(y, i, 2)[0, 0, 0],
        about(F.max_pool2d(x.contiguous(memory_format=torch.channels_last), 2)),
        F.max_pool1d(x[0], 2)[0],
        F.avg_pool3d(x[None], 2),
        raises(lambda: F.max_pool2d(x, 9)),
        raises(lambda: F.avg_pool2d(x, 2, padding=2)),
        raises(lambda: F.adaptive_avg_pool2d(x[0, 0, 0], 2)),
        raises(lambda: F.max_pool2d(x.long(), 2)),
        raises(lambda: F.avg_pool2d(x, 2, stride=0)),
        raises(lambda: F.fractional_max_pool2d(x, 2, output_size=3).shape),
    ]


@probe()
def embeddings() -> Any:
    w = ramp(5, 3)
    i = torch.tensor([[0, 2], [4, 2]], device="cuda")
    e = filled(torch.nn.Embedding(5, 3, padding_idx=2))
    e(i).sum().backward()
    b = torch.tensor([0, 2], device="cuda")
    return [
        F.embedding(i, w),
        e.weight.grad,
        *[F.embedding_bag(i.reshape(-1), w, b, mode=m) for m in ("sum", "mean", "max")],
        F.embedding_bag(i, w),
        F.embedding(i, w.clone(), max_norm=1.0),
        raises(lambda: F.embedding(i.float(), w)),
        raises(lambda: F.embedding_bag(i.reshape(-1), w)),
        raises(lambda: F.embedding_bag(i, w, b)),
        raises(lambda: F.embedding(i.int(), w).shape),
        raises(lambda: F.embedding(i.short(), w)),
        F.embedding_bag(i.reshape(-1), w, b, per_sample_weights=ramp(4), mode="sum"),
        raises(lambda: F.embedding_bag(i.reshape(-1), w, torch.tensor([1, 2], device="cuda")).shape),
        F.one_hot(i, 5),
    ]


@probe()
def padding_and_folding() -> Any:
    x = ramp(1, 1, 4, 4)
    return [
        raises(lambda: F.pad(x, (1, 1), "reflect")),
        F.pad(x, (1, 1, 1, 0), "reflect")[0, 0, 0],
        F.pad(x, (1, 0, 2, 1), "replicate")[0, 0, 0],
        F.pad(x, (1, 1, 0, 1), "circular")[0, 0, 0],
        F.pad(x, (-1, 0), value=3),
        F.unfold(x, 2)[0, :, 0],
        F.fold(F.unfold(x, 2), (4, 4), 2)[0, 0, 1],
        F.pixel_shuffle(ramp(1, 4, 2, 2), 2),
        F.pixel_unshuffle(x, 2)[0, :, 0, 0],
        F.channel_shuffle(ramp(1, 4, 1, 1), 2),
        raises(lambda: F.pad(x, (5, 5), "reflect")),
        raises(lambda: F.pad(x, (1, 1, 1), "reflect")),
        raises(lambda: F.pad(x, (1,))),
        raises(lambda: F.pad(x, (1, 1), "bogus")),
        raises(lambda: F.fold(x[0], (4, 4), 3)),
        F.unfold(x, 3, padding=1, stride=2).shape,
    ]


@probe()
def activations_with_parameters() -> Any:
    x = ramp(2, 4)
    return [
        F.prelu(x, torch.tensor([0.25, 0.5, 0.75, 1.0], device="cuda")),
        F.leaky_relu(x, 0.3),
        F.threshold(x, 0.5, 9),
        F.hardshrink(x),
        F.softshrink(x, 0.7),
        F.glu(x),
        F.rrelu(x),
        F.elu(x, 0.5),
        F.gelu(x, approximate="tanh"),
        F.softmin(x, 1),
        F.logsigmoid(x),
        raises(lambda: F.prelu(x, torch.ones(3, device="cuda"))),
        raises(lambda: F.glu(x[:, :3])),
        raises(lambda: F.gelu(x, approximate="bogus")),
        raises(lambda: F.softshrink(x, -1)),
        raises(lambda: F.threshold(x, 0.5, None)),
    ]


@probe()
def modules_on_devices() -> Any:
    m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    same = m.cuda() is m
    p = next(m.parameters())
    kept = p.data_ptr()
    m.cuda()
    return [
        same,
        p.is_cuda,
        next(m.parameters()).data_ptr() == kept,
        [str(b.device) for b in m.buffers()],
        str(m.to(torch.float16)[0].weight.dtype),
        str(m.to("cpu", torch.float32)[0].weight.device),
        raises(lambda: m.to(torch.int32)),
        raises(lambda: m.to("cuda:99")),
        raises(lambda: m.cuda("x")),
        str(m.to_empty(device="cuda")[0].weight.device),
        raises(lambda: torch.nn.Linear(2, 2, device="meta").cuda()),
        str(torch.nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.device),
        raises(lambda: m(torch.ones(2, 2))),
        raises(lambda: torch.nn.Linear(2, 2, device="cuda:99")),
        list(every(("cuda", "cuda:0", 0), lambda d: str(torch.nn.Linear(1, 1, device=d).weight.device))),
    ]


@probe()
def parametrisations() -> Any:
    m = filled(torch.nn.Linear(3, 2))
    w = torch.nn.utils.parametrizations.weight_norm(m)
    s = torch.nn.utils.parametrizations.orthogonal(filled(torch.nn.Linear(2, 2)))
    v = torch.nn.utils.parameters_to_vector(m.parameters())
    g = filled(torch.nn.Linear(3, 2))
    g(ramp(1, 3)).sum().backward()
    n = torch.nn.utils.clip_grad_norm_(g.parameters(), 1.0)
    return [
        w.weight,
        str(s.weight.device),
        about(v),
        about(n),
        numbers(n),
        numbers(torch.nn.utils.get_total_norm([p.grad for p in g.parameters()])),
        raises(lambda: torch.nn.utils.clip_grad_norm_(g.parameters(), 1.0, error_if_nonfinite=True)),
        torch.nn.utils.clip_grad_value_(g.parameters(), 0.1),
        g.weight.grad,
    ]
