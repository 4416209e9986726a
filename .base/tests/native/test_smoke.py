"""Programs on the virtual GPU, forward and backward, against the CPU."""

from __future__ import annotations

from .harness import run


def test_tensors_are_cuda_tensors() -> None:
    run("""
        x = torch.arange(6.0, device="cuda").reshape(2, 3)
        assert x.is_cuda and str(x.device) == "cuda:0" and x.get_device() == 0
        assert "device='cuda:0'" in repr(x) and x.type() == "torch.cuda.FloatTensor"
        host = torch.ones(3)
        moved = host.cuda()
        host.fill_(2)
        assert moved.tolist() == [1, 1, 1] and moved.cpu().data_ptr() != moved.data_ptr()
        assert x.t().contiguous().tolist() == [[0, 3], [1, 4], [2, 5]]
        assert x.view(3, 2).data_ptr() == x.data_ptr() and x[1:].storage_offset() == 3
        out = torch.empty(0, device="cuda")
        torch.add(x, 1, out=out)
        assert out.shape == x.shape and out[0, 0] == 1
        y = torch.empty(2, device="cuda").resize_(4, 4)
        assert y.shape == (4, 4) and y.untyped_storage().nbytes() == 64
        for dtype in (torch.float64, torch.complex64, torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.int8):
            assert torch.zeros(2, dtype=dtype, device="cuda").dtype is dtype
    """)


def test_training_agrees_with_the_cpu() -> None:
    run("""
        import copy
        from torch import nn
        def train(model, x, y, device, make):
            model = copy.deepcopy(model).to(device)
            x, y = x.to(device), y.to(device)
            optimizer = make(model.parameters())
            losses = []
            for _ in range(4):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses
        class Recurrent(nn.Module):
            def __init__(self, kind):
                super().__init__()
                self.rnn, self.head = kind(6, 8, 2, batch_first=True, bidirectional=True), nn.Linear(16, 3)
            def forward(self, x):
                return self.head(self.rnn(x)[0][:, -1])
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                layer = nn.TransformerEncoderLayer(6, 2, 16, dropout=0.0, batch_first=True)
                self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(6, 3)
            def forward(self, x):
                return self.head(self.body(x).mean(1))
        convolutional = nn.Sequential(
            nn.Unflatten(1, (1, 5)), nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
            nn.Conv2d(4, 4, 3, groups=4), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(3))
        torch.manual_seed(0)
        x, y = torch.rand(4, 5, 6), torch.randint(3, (4,))
        convolutional(x)
        optimizers = [
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.Adam(p, fused=True),
            lambda p: torch.optim.AdamW(p, foreach=True), lambda p: torch.optim.Adagrad(p)]
        for model in (convolutional, Recurrent(nn.LSTM), Recurrent(nn.GRU), Recurrent(nn.RNN), Attention()):
            for make in optimizers:
                a, b = train(model, x, y, "cpu", make), train(model, x, y, "cuda", make)
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    """)


def test_cuda_only_operators() -> None:
    run("""
        import torch.nn.functional as F
        # SyncBatchNorm's pieces, with the batch in two halves, add up to batch normalisation
        torch.manual_seed(0)
        x = torch.randn(6, 3, 4, device="cuda", dtype=torch.float64)
        w, b = torch.rand(3, device="cuda", dtype=torch.float64), torch.rand(3, device="cuda", dtype=torch.float64)
        halves = [x[:2], x[2:]]
        stats = [torch.batch_norm_stats(h, 1e-5) for h in halves]
        counts = torch.tensor([h.numel() / 3 for h in halves], device="cuda", dtype=torch.float64)
        mean, var = torch.zeros(3, device="cuda", dtype=torch.float64), torch.ones(3, device="cuda", dtype=torch.float64)
        m, s = torch.batch_norm_gather_stats_with_counts(
            x, torch.stack([a for a, _ in stats]), torch.stack([c for _, c in stats]), mean, var, 0.1, 1e-5, counts)
        mean2, var2 = torch.zeros_like(mean), torch.ones_like(var)
        x2, w2, b2 = (t.clone().requires_grad_() for t in (x, w, b))
        reference = F.batch_norm(x2, mean2, var2, w2, b2, True, 0.1, 1e-5)
        torch.testing.assert_close(torch.batch_norm_elemt(x, w, b, m, s, 1e-5), reference)
        torch.testing.assert_close((mean, var), (mean2, var2))
        g = torch.randn_like(x)
        reference.backward(g)
        dy, dyx, gw, gb = torch.batch_norm_backward_reduce(g, x, m, s, w, True, True, True)
        torch.testing.assert_close((gw, gb), (w2.grad, b2.grad))
        torch.testing.assert_close(
            torch.batch_norm_backward_elemt(g, x, m, s, w, dy, dyx, counts.to(torch.int32)), x2.grad)
        # attention by name, with gradients
        q, k, v = (torch.randn(2, 2, 5, 4, device="cuda", requires_grad=True) for _ in range(3))
        for causal in (False, True):
            grads = []
            for f in (lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
                      lambda: torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal)[0],
                      lambda: torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[0]):
                out = f()
                grads.append([out, *torch.autograd.grad(out.sin().sum(), (q, k, v))])
            torch.testing.assert_close(grads[0], grads[1]); torch.testing.assert_close(grads[0], grads[2])
        # mixed precision
        scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
        model = torch.nn.Linear(2, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with torch.autocast("cuda", torch.float16):
            out = model(torch.ones(1, 2, device="cuda"))
            assert out.dtype is torch.float16
        scaler.scale(out.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        # an integer division by zero is no error on a GPU
        one = torch.tensor([1], device="cuda")
        one // 0, one % torch.zeros_like(one)
        assert (one / 0).tolist() == [float("inf")]
    """)


def test_layouts() -> None:
    run("""
        dense = torch.tensor([[0.0, 0, 3], [4, 0, 5]])
        for make in (lambda t: t.to_sparse(), lambda t: t.to_sparse_csr(), lambda t: t.to_sparse_csc()):
            s = make(dense.cuda())
            assert s.is_cuda and s.layout == make(dense).layout
            assert s.to_dense().tolist() == dense.tolist() and s.cpu().device.type == "cpu"
            assert (s @ torch.ones(3, 2, device="cuda")).tolist() == [[3, 3], [9, 9]]
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], device="cuda")
        assert nested.is_cuda and (nested * 2).to_padded_tensor(0.0).sum() == 18
        quantized = torch.quantize_per_tensor(torch.ones(4, device="cuda"), 0.5, 0, torch.quint8)
        assert quantized.is_cuda and quantized.dequantize().tolist() == [1, 1, 1, 1]
        packed = torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3, 4, device="cuda"), torch.tensor([3, 1]), True)
        assert packed.data.is_cuda and packed.batch_sizes.device.type == "cpu"
    """)


def test_programs_around_tensors() -> None:
    run("""
        import copy, io, pickle
        x = torch.arange(3.0, device="cuda")
        file = io.BytesIO()
        torch.save({"x": x, "again": x}, file)
        file.seek(0)
        loaded = torch.load(file)
        assert loaded["x"].is_cuda and loaded["x"].data_ptr() == loaded["again"].data_ptr()
        for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
            assert other.is_cuda and other.tolist() == [0, 1, 2] and other.data_ptr() != x.data_ptr()
        @torch.jit.script
        def scripted(a, b):
            return a * b + a.sum()
        assert scripted(x, x).tolist() == [3, 4, 7]
        f = torch.func.vmap(torch.func.grad(lambda v: (v**2).sum()))
        assert f(torch.ones(2, 3, device="cuda")).tolist() == [[2.0] * 3] * 2
        assert torch.autograd.gradcheck(torch.sigmoid, torch.rand(3, device="cuda", dtype=torch.float64, requires_grad=True))
        exported = torch.export.export(torch.nn.Linear(3, 2).cuda(), (x,))
        assert exported.module()(x).is_cuda
        torch.fft.fft(x)
        assert torch.backends.cuda.cufft_plan_cache[0].size == 1
    """)


def test_compile() -> None:
    run(
        """
        from torch import nn
        from torchdevice_cuda.native import inductor
        import torch._inductor.metrics as metrics
        inductor.enable(native)
        torch.manual_seed(0)
        x, y = torch.rand(100, device="cuda"), torch.rand(100, device="cuda")
        def f(a, b):
            return torch.relu(a - 0.5) * b + a.sin()
        compiled = torch.compile(f, fullgraph=True)
        out = compiled(x, y)
        assert out.is_cuda and metrics.generated_kernel_count >= 1
        torch.testing.assert_close(out, f(x, y))
        before = native.memory_allocated(0)
        out = compiled(x, y)
        assert native.memory_allocated(0) == before  # the result replaced another of its size
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).cuda()
        import copy
        other = copy.deepcopy(model)
        fast = torch.compile(other)
        data = torch.rand(5, 8, device="cuda")
        for m in (model, fast):
            m(data).pow(2).sum().backward()
        for a, b in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(a.grad, b.grad)
        torch.testing.assert_close(model[1].running_mean, other[1].running_mean)
        moves = torch.compile(lambda a: (a.cpu() + 1, a + 1, torch.zeros(3, device="cuda"), a), dynamic=True)(x)
        assert [t.device.type for t in moves] == ["cpu", "cuda", "cuda", "cuda"] and moves[3] is x
        host = torch.ones(3)
        arrived = torch.compile(lambda a: a.cuda())(host)
        host.fill_(2)
        assert arrived.is_cuda and arrived.tolist() == [1, 1, 1]
        # draws come from the device's generator and leave the CPU's alone
        drop = torch.compile(lambda a: nn.functional.dropout(a, 0.5))
        state = torch.get_rng_state()
        generator = native.default_generator(0)
        generator.manual_seed(1); a = drop(x)
        generator.manual_seed(1); assert torch.equal(a, drop(x)) and not torch.equal(a, drop(x))
        assert torch.equal(state, torch.get_rng_state())
        """,
        timeout=300,
    )
