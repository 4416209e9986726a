"""The test double of an Apple GPU: its operators and no others, its refusals, its module."""

from __future__ import annotations

import pytest

from torchdevice_cuda.native import build

from .harness import run

SETUP = "native = use_mps()"


@pytest.fixture(scope="module", autouse=True)
def _built_as_mps() -> None:
    build.library("mps")


def test_an_apple_gpu() -> None:
    run(
        """
        assert torch.backends.mps.is_available() and torch.accelerator.current_accelerator().type == "mps"
        x = torch.ones(3, device="mps")
        assert str(x.device) == "mps:0" and x.is_mps and (x + 1).tolist() == [2, 2, 2]
        assert torch.mps.current_allocated_memory() == 512 and torch.mps.driver_allocated_memory() == 2 << 20
        torch.mps.synchronize(); torch.mps.empty_cache()
        a, b = torch.mps.Event(enable_timing=True), torch.mps.Event(enable_timing=True)
        a.record(); b.record(); b.synchronize()
        assert a.query() and a.elapsed_time(b) >= 0
        torch.mps.manual_seed(3); u = torch.rand(4, device="mps")
        torch.mps.manual_seed(3); assert torch.equal(u, torch.rand(4, device="mps"))
        state = torch.mps.get_rng_state(); v = torch.rand(4, device="mps")
        torch.mps.set_rng_state(state); assert torch.equal(v, torch.rand(4, device="mps"))
        for f in (lambda: torch.ones(2, dtype=torch.float64, device="mps"), lambda: x.double(), lambda: x.to(torch.float64)):
            try:
                f()
            except TypeError as error:
                assert str(error).startswith("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't "
                                             "support float64. Please use float32 instead."), error
            else:
                raise AssertionError
        try:
            torch.linalg.eigh(torch.eye(3, device="mps"))
        except NotImplementedError as error:
            assert str(error).startswith(
                "The operator 'aten::_linalg_eigh.eigenvalues' is not currently implemented for the MPS device."), error
        else:
            raise AssertionError
        kept = torch.empty(9 << 28, device="mps")  # of 16 GiB
        for size, words in ((9 << 28, "MPS backend out of memory (MPS allocated: "), (1 << 40, "Invalid buffer size: ")):
            try:
                torch.empty(size, device="mps")
            except RuntimeError as error:
                assert type(error) is RuntimeError and str(error).startswith(words), error
            else:
                raise AssertionError
        del kept
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.MaxPool2d(2),
                                    torch.nn.Flatten(), torch.nn.Linear(36, 2)).to("mps")
        model(torch.ones(2, 3, 8, 8, device="mps")).sum().backward()
        assert model[0].weight.grad.is_mps
    """,
        setup=SETUP,
    )


def test_fallback_to_the_cpu_when_allowed() -> None:
    run(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert torch.linalg.eigh(torch.eye(3, device="mps"))[0].is_mps
        assert "will fall back to run on the CPU" in str(caught[0].message)
    """,
        setup=SETUP,
        PYTORCH_ENABLE_MPS_FALLBACK="1",
    )
