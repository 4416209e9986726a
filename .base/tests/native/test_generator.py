"""The generator: CUDA's visible state, reproducible draws, separate from the CPU's."""

from __future__ import annotations

from .harness import run


def test_generator() -> None:
    run(
        """
        g = torch.Generator(device="cuda")
        assert str(g.device) == "cuda" and g.manual_seed(42) is g and g.initial_seed() == 42
        state = g.get_state()
        assert state.shape == (16,) and state.dtype == torch.uint8 and state.device.type == "cpu"
        assert state.view(torch.int64).tolist() == [42, 0] and g.get_offset() == 0
        a = torch.rand(4, device="cuda", generator=g)
        assert g.get_offset() == 4
        b = torch.rand(4, device="cuda", generator=g)
        assert g.get_offset() == 8 and not torch.equal(a, b)
        g.set_state(state)
        assert torch.equal(a, torch.rand(4, device="cuda", generator=g))
        g.set_offset(4)
        assert torch.equal(b, torch.rand(4, device="cuda", generator=g))
        big = g.get_offset()
        torch.rand(1 << 21, device="cuda", generator=g)
        assert (g.get_offset() - big) % 4 == 0 and g.get_offset() - big > 4
        default = native.default_generator(0)
        default.manual_seed(9)
        c = torch.rand(8, device="cuda")
        assert torch.equal(c, torch.rand(8, device="cuda", generator=torch.Generator("cuda").manual_seed(9)))
        default.manual_seed(4); m = torch.nn.functional.dropout(torch.ones(64, device="cuda"))
        default.manual_seed(4); assert torch.equal(m, torch.nn.functional.dropout(torch.ones(64, device="cuda")))
        assert not torch.equal(m, torch.nn.functional.dropout(torch.ones(64, device="cuda")))
        assert set(m.tolist()) == {0.0, 2.0}
        # neither disturbs the other
        torch.manual_seed(1); x = torch.rand(4)
        torch.manual_seed(1); torch.rand(100, device="cuda"); torch.nn.functional.dropout(c)
        assert torch.equal(x, torch.rand(4))
        p = torch.randperm(10, device="cuda", generator=g.manual_seed(2))
        assert torch.equal(p, torch.randperm(10, device="cuda", generator=g.manual_seed(2))) and sorted(p.tolist()) == list(range(10))
        for f, words in (
            (lambda: torch.rand(3, generator=g), "Expected a 'cpu' device type for generator but found 'cuda'"),
            (lambda: torch.rand(3, device="cuda", generator=torch.Generator()),
             "Expected a 'cuda' device type for generator but found 'cpu'"),
            (lambda: g.set_state(torch.zeros(3, dtype=torch.uint8)), "RNG state is wrong size"),
        ):
            try:
                f()
            except RuntimeError as error:
                assert str(error) == words, error
            else:
                raise AssertionError
        assert native.default_generator(1) is not native.default_generator(0)
        assert str(native.default_generator(1).device) == "cuda:1"
    """,
        setup="native = use_cuda(2)",
    )
