"""Tensors of different devices: what may meet, and CUDA's words for what may not."""

from __future__ import annotations

from .harness import run


def test_mixed_devices() -> None:
    run(
        """
        def raises(f, words):
            try:
                f()
            except RuntimeError as error:
                assert words == str(error).splitlines()[0], error
            else:
                raise AssertionError(words)
        g, c = torch.ones(2, 2, device="cuda"), torch.ones(2, 2)
        two = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and "
        raises(lambda: g + c, two + "cpu!")
        raises(lambda: c + g, two + "cpu!")
        raises(lambda: c.add_(g), two + "cpu!")
        raises(lambda: g + torch.ones(1), two + "cpu!")
        raises(lambda: g + g.to("cuda:1"), two + "cuda:1!")
        raises(lambda: torch.zeros(2) + torch.tensor(1.0, device="cuda"), two + "cpu!")
        raises(lambda: torch.zeros(()).add_(torch.tensor(1.0, device="cuda")), two + "cpu!")
        but = "Expected all tensors to be on the same device, but got "
        at = " (when checking argument in method wrapper_CUDA_"
        raises(lambda: g @ c, but + "mat2 is on cpu, different from other tensors on cuda:0" + at + "mm)")
        raises(lambda: torch.cat([g, c]), but + "tensors is on cpu, different from other tensors on cuda:0" + at + "cat)")
        raises(lambda: torch.nn.functional.linear(c, g),
               but + "mat2 is on cuda:0, different from other tensors on cpu" + at + "mm)")
        raises(lambda: torch.nn.functional.embedding(torch.tensor([0]), g),
               but + "index is on cpu, different from other tensors on cuda:0" + at + "_index_select)")
        raises(lambda: torch.arange(4.0)[torch.tensor([1], device="cuda")],
               "indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        # numbers mix, and so do index tensors
        s = torch.tensor(3.0)
        v = torch.ones(2, device="cuda")
        assert (v + s).tolist() == (s + v).tolist() == [4, 4] and (v + s).is_cuda
        assert torch.where(v > 0, s, v).tolist() == v.clone().masked_fill(v > 0, s).tolist() == [3, 3]
        assert (v > s).tolist() == [False, False] and v.clone().add_(s).tolist() == [4, 4]
        x = torch.arange(4.0, device="cuda")
        assert x[torch.tensor([1, 2])].tolist() == [1, 2] and x[torch.tensor([True, False, True, False])].tolist() == [0, 2]
        x[torch.tensor([1, 2])] = 9.0
        x[torch.tensor([1, 2], device="cuda")] = torch.tensor(5.0)
        assert x.tolist() == [0, 5, 5, 3]
        raises(lambda: x.__setitem__(torch.tensor([1, 2], device="cuda"), torch.ones(2)), two + "cpu!")
        # copies go anywhere
        assert torch.zeros(3).copy_(torch.arange(3.0, device="cuda")).tolist() == [0, 1, 2]
        assert torch.zeros(3, device="cuda:1").copy_(torch.arange(3, device="cuda")).tolist() == [0, 1, 2]
        assert torch.zeros(2, 3, device="cuda").t().copy_(torch.ones(2)).sum() == 6
        try:
            g.numpy()
        except TypeError as error:
            assert str(error) == ("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                                  "host memory first.")
    """,
        setup="native = use_cuda(2)",
    )
