"""Parts of networks: convolutions, pools, norms, losses, attention."""

from __future__ import annotations

from calls import Call, row
from drawing import FLOATS, Draw, Skip, name_of


def _image(d: Draw, spatial: int, channels: int | None = None) -> str:
    """Choose a batch of signals, images or volumes."""
    found = d.tensor(FLOATS, spatial + 2, spatial + 2, full=True) if channels is None and d.chance(0.3) else ""
    if found:
        return found
    sizes = tuple(d.one(3, 4, 5, 6) for _ in range(spatial))
    return d.leaf(d.dtype(FLOATS), (d.one(1, 2), channels or d.one(1, 2, 4), *sizes))


@row("networks", 4)
def convolution(d: Draw) -> Call:
    spatial = d.one(1, 2, 2, 3)
    x = _image(d, spatial)
    inside = d.known[x].shape[1]
    groups = d.one(1, 1, inside, 2 if inside % 2 == 0 else 1)
    if 0 in d.known[x].shape:
        raise Skip
    outside, kernel = groups * d.one(1, 2), tuple(d.one(1, 2, 3) for _ in range(spatial))
    bias = d.one("None", d.fresh(x, (outside,)))
    options = f"stride={d.one(1, 2)}, padding={d.one(0, 1)}, dilation={d.one(1, 1, 2)}, groups={groups}"
    if d.chance(0.3):
        weight = d.fresh(x, (inside, outside // groups, *kernel))
        options = options.replace("padding=1", "padding=0")
        return Call(f"F.conv_transpose{spatial}d({x}, {weight}, {bias}, {options})", f"conv_transpose{spatial}d")
    weight = d.fresh(x, (outside, inside // groups, *kernel))
    return Call(f"F.conv{spatial}d({x}, {weight}, {bias}, {options})", f"conv{spatial}d")


@row("networks", 3)
def pool(d: Draw) -> Call:
    spatial = d.one(1, 2, 2, 3)
    x = _image(d, spatial)
    op = d.one("max", "avg", "adaptive_avg", "adaptive_max", "lp", "max indices")
    if op.startswith("adaptive"):
        return Call(f"F.{op}_pool{spatial}d({x}, {d.one(1, 2, 3)})", f"{op}_pool{spatial}d")
    kernel, stride = d.one(1, 2, 3), d.one("None", 1, 2)
    padding = d.one(0, 0, 1) if kernel > 1 else 0
    if op == "lp":
        return Call(f"F.lp_pool2d({_image(d, 2)}, 2, {kernel})", "lp_pool2d")
    if op == "avg":
        more = d.one("", ", ceil_mode=True", ", count_include_pad=False")
        return Call(f"F.avg_pool{spatial}d({x}, {kernel}, {stride}, {padding}{more})", f"avg_pool{spatial}d")
    if op == "max indices":
        x = d.leaf(d.dtype(("float32", "float64")), (1, 2, *(4,) * spatial), "distinct")
        return Call(
            f"F.max_pool{spatial}d({x}, {kernel}, {stride}, {padding}, return_indices=True)", f"max_pool{spatial}d", 2
        )
    more = d.one("", ", ceil_mode=True", ", dilation=2")
    return Call(f"F.max_pool{spatial}d({x}, {kernel}, {stride}, {padding}{more})", f"max_pool{spatial}d")


@row("networks", 4)
def norm(d: Draw) -> Call:
    op = d.one("layer", "batch", "group", "instance", "rms", "local_response", "batch eval", "normalize")
    if op in ("layer", "rms"):
        x = d.floating(least=1, full=True)
        shape = tuple(d.known[x].shape)[-d.one(1, 1, 2) :]
        weight = d.one("None", d.fresh(x, shape))
        bias = "" if op == "rms" else f", {d.one('None', d.fresh(x, shape))}"
        return Call(f"F.{op}_norm({x}, {shape}, {weight}{bias})", f"{op}_norm")
    if op == "normalize":
        x = d.floating()
        return Call(f"F.normalize({x}, p={d.one(1, 2)}, dim={d.dim(x)})", op)
    x = d.floating(least=2, most=5, full=True)
    channels = d.known[x].shape[1]
    weight = d.one("None", d.fresh(x, (channels,)))
    bias = "None" if weight == "None" else d.fresh(x, (channels,))
    dtype = name_of(d.known[x].dtype)
    if op == "group":
        groups = d.one(1, channels, 2 if channels % 2 == 0 else 1)
        return Call(f"F.group_norm({x}, {groups}, {weight}, {bias})", "group_norm")
    if op == "instance":
        return Call(f"F.instance_norm({x}, weight={weight}, bias={bias})", "instance_norm")
    if op == "local_response":
        return Call(f"F.local_response_norm({x}, {d.one(1, 2, 3)})", "local_response_norm")
    if op == "batch":
        return Call(f"F.batch_norm({x}, None, None, {weight}, {bias}, True)", "batch_norm")
    mean = d.leaf(dtype, (channels,), plain=True)
    spread = f"make({d.key()}, ({channels},), torch.{dtype}, 4, 24)"
    return Call(f"F.batch_norm({x}, {mean}.detach(), {spread}, {weight}, {bias}, False)", "batch_norm")


@row("networks", 4)
def loss(d: Draw) -> Call:
    op = d.one(
        *("mse", "l1", "smooth_l1", "huber", "bce_logits", "bce", "cross_entropy", "nll", "kl_div", "cosine", "hinge"),
        *("poisson", "gaussian", "margin", "multi_margin", "triplet", "soft_margin", "cross_entropy soft", "embedding"),
    )
    how = f"reduction={d.one('mean', 'sum', 'none')!r}"
    if op in ("cross_entropy", "nll", "multi_margin", "cross_entropy soft"):
        x = d.floating(least=2, most=2, full=True)
        batch, classes = d.known[x].shape
        target = f"index({d.key()}, ({batch},), {classes})"
        if op == "cross_entropy soft":
            return Call(f"F.cross_entropy({x}, torch.softmax({d.fresh(x)}, 1), {how})", op)
        if op == "cross_entropy":
            more = d.one("", ", label_smoothing=0.1", ", ignore_index=0")
            return Call(f"F.cross_entropy({x}, {target}, {how}{more})", op)
        if op == "nll":
            return Call(f"F.nll_loss(F.log_softmax({x}, 1), {target}, {how})", op)
        return Call(f"F.multi_margin_loss({x}, {target}, {how})", op)
    x = d.floating()
    y = d.fresh(x)
    if op in ("mse", "l1", "smooth_l1", "huber"):
        return Call(f"F.{op}_loss({x}, {y}, {how})", f"{op}_loss")
    if op == "bce_logits":
        return Call(f"F.binary_cross_entropy_with_logits({x}, torch.sigmoid({y}), {how})", op)
    if op == "bce":
        return Call(f"F.binary_cross_entropy(torch.sigmoid({x}), torch.sigmoid({y}), {how})", op)
    if op == "kl_div":
        where = d.dim(x)
        return Call(f"F.kl_div(F.log_softmax({x}, {where}), F.softmax({y}, {where}), {how})", op)
    if op == "cosine":
        return Call(f"F.cosine_similarity({x}, {y}, {d.dim(x)})", op)
    if op == "hinge":
        return Call(f"F.hinge_embedding_loss({x}, torch.where({y} > 0, 1, -1), {how})", op)
    if op == "poisson":
        return Call(f"F.poisson_nll_loss({x}, {y}.abs(), {how})", op)
    if op == "gaussian":
        return Call(f"F.gaussian_nll_loss({x}, {y}, {d.fresh(x)}.detach().square() + 0.5, {how})", op)
    if op == "margin":
        return Call(f"F.margin_ranking_loss({x}, {y}, torch.where({y} > 0, 1, -1), {how})", op)
    if op == "soft_margin":
        return Call(f"F.soft_margin_loss({x}, torch.where({y} > 0, 1, -1), {how})", op)
    if op == "triplet":
        return Call(f"F.triplet_margin_loss({x}, {y}, {d.fresh(x)}, {how})", op)
    x = d.floating(least=2, most=2, full=True)
    signs = f"make({d.key()}, ({d.known[x].shape[0]},), torch.int64).sign()"
    return Call(f"F.cosine_embedding_loss({x}, {d.fresh(x)}, {signs}, {how})", "cosine_embedding")


@row("networks", 4)
def layers(d: Draw) -> Call:
    op = d.one(
        *("interpolate", "embedding", "embedding_bag", "unfold", "fold", "pixel_shuffle", "grid_sample", "cdist"),
        *("bilinear", "attention", "glu", "prelu", "channel_shuffle", "affine_grid", "pairwise", "softmin", "pdist"),
    )
    if op == "interpolate":
        x = _image(d, 2)
        mode = d.one("nearest", "bilinear", "bicubic", "area", "nearest-exact")
        corners = f", align_corners={d.one(True, False)}" if mode in ("bilinear", "bicubic") else ""
        scale = d.one("size=(3, 7)", "scale_factor=2", "size=2")
        return Call(f"F.interpolate({x}, {scale}, mode={mode!r}{corners})", f"interpolate {mode}")
    if op in ("embedding", "embedding_bag"):
        x = d.leaf(d.dtype(FLOATS), (5, 3), plain=True)
        if op == "embedding":
            more = d.one("", ", padding_idx=1", ", scale_grad_by_freq=True")
            return Call(f"F.embedding(index({d.key()}, {d.shape(most=2)}, 5), {x}{more})", op)
        mode = d.one("sum", "mean", "max")
        return Call(f"F.embedding_bag(index({d.key()}, (2, 3), 5), {x}, mode={mode!r})", f"{op} {mode}")
    if op == "unfold":
        return Call(f"F.unfold({_image(d, 2)}, {d.one(1, 2, 3)}, padding={d.one(0, 1)}, stride={d.one(1, 2)})", op)
    if op == "fold":
        x = d.leaf(d.dtype(FLOATS), (2, 8, 9))
        return Call(f"F.fold({x}, (4, 4), 2)", op)
    if op == "pixel_shuffle":
        return Call(f"F.pixel_{d.one('shuffle', 'unshuffle')}({_image(d, 2, 4)}, 2)", op)
    if op == "grid_sample":
        x = d.leaf(d.dtype(("float32", "float64")), (1, 2, 4, 4))
        grid = d.fresh(x, (1, 3, 3, 2))
        mode, corners = d.one("bilinear", "bicubic"), d.one(True, False)
        padding = d.one("zeros", "border", "reflection")
        return Call(
            f"F.grid_sample({x}, {grid} / 3.7, mode={mode!r}, padding_mode={padding!r}, align_corners={corners})",
            f"{op} {mode}",
        )
    if op in ("cdist", "pdist", "pairwise"):
        x = d.leaf(d.dtype(("float32", "float64")), (4, 3))
        if op == "pdist":
            return Call(f"F.pdist({x}, {d.one(1.0, 2.0)})", op)
        word = "torch.cdist" if op == "cdist" else "F.pairwise_distance"
        return Call(f"{word}({x}, {d.fresh(x)}, {d.one(1.0, 2.0, 3.0)})", op)
    if op == "bilinear":
        x = d.leaf(d.dtype(FLOATS), (2, 3))
        return Call(f"F.bilinear({x}, {d.fresh(x, (2, 4))}, {d.fresh(x, (2, 3, 4))})", op)
    if op == "attention":
        x = d.leaf(d.dtype(FLOATS), d.one((2, 3, 4), (1, 2, 3, 4)))
        more = d.one("", ", is_causal=True", ", scale=0.3")
        return Call(f"F.scaled_dot_product_attention({x}, {d.fresh(x)}, {d.fresh(x)}{more})", op)
    if op == "channel_shuffle":
        return Call(f"F.channel_shuffle({_image(d, 2, 4)}, 2)", op)
    if op == "affine_grid":
        x = d.leaf(d.dtype(("float32", "float64")), (1, 2, 3))
        return Call(f"F.affine_grid({x}, (1, 1, 2, 3), align_corners=False)", op)
    x = d.floating(least=2, full=True)
    if op == "prelu":
        return Call(f"F.prelu({x}, {d.fresh(x, (d.one(1, d.known[x].shape[1]),))})", op)
    if op == "softmin":
        return Call(f"F.softmin({x}, {d.dim(x)})", op)
    evens = [n for n, size in enumerate(d.known[x].shape) if size % 2 == 0]
    if not evens:
        raise Skip
    return Call(f"F.glu({x}, {evens[0]})", op)
