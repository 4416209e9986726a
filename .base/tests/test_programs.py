"""Programs that use torch as they always do keep working while it is active, in every activation order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

PROGRAMS = {
    "optimizer": """
        import torch._dynamo
        model = torch.nn.Linear(3, 1)
        for make in (torch.optim.Adam, torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop):
            optimizer = make(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(torch.ones(2, 3)).square().mean()
                loss.backward()
                optimizer.step()
        assert loss.item() < 10
    """,
    "seeds": """
        torch.manual_seed(3)
        first = torch.rand(4)
        assert torch.cuda.initial_seed() == 3
        torch.manual_seed(3)
        assert torch.equal(first, torch.rand(4))
    """,
    "fork_rng": """
        torch.manual_seed(3)
        state, cuda = torch.get_rng_state(), torch.cuda.get_rng_state()
        with torch.random.fork_rng():
            torch.rand(3), torch.cuda.manual_seed(99)
        assert torch.equal(state, torch.get_rng_state()) and torch.equal(cuda, torch.cuda.get_rng_state())
    """,
    "dataloader": """
        from torch.utils.data import DataLoader, TensorDataset
        if __name__ == "__main__":
            data = TensorDataset(torch.arange(12.0))
            seen = torch.cat([batch[0] for batch in DataLoader(data, batch_size=3, num_workers=2, shuffle=True)])
            assert sorted(seen.tolist()) == list(range(12))
    """,
    "compile": """
        @torch.compile(backend="aot_eager", fullgraph=True)
        def f(x):
            if torch.cuda.is_available():
                return torch.sin(x) + 1
            return x
        x = torch.ones(3)
        assert torch.allclose(f(x), torch.sin(x) + 1)
    """,
    "checkpoint": """
        from torch.utils.checkpoint import checkpoint
        layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
        for reentrant in (True, False):
            x = torch.ones(2, 4, requires_grad=True)
            checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
            assert x.grad is not None
    """,
    "profiler": """
        from torch.profiler import ProfilerActivity, profile
        for activities in (None, [ProfilerActivity.CPU], [ProfilerActivity.CPU, ProfilerActivity.CUDA]):
            with profile(activities=activities) as run:
                torch.ones(8, 8) @ torch.ones(8, 8)
            assert "aten::mm" in {event.key for event in run.key_averages()}
    """,
    "jit": """
        @torch.jit.script
        def f(x):
            return x * 2 + 1
        assert f(torch.ones(2)).tolist() == [3.0, 3.0]
    """,
    "save and load": """
        import io
        buffer = io.BytesIO()
        torch.save({"x": torch.arange(3), "s": torch.cuda.get_rng_state()}, buffer)
        buffer.seek(0)
        assert torch.load(buffer)["x"].tolist() == [0, 1, 2]
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, order: str, run: Callable) -> None:
    run(PROGRAMS[name], order=order)


@pytest.mark.slow
def test_compile_with_inductor(order: str, run: Callable) -> None:
    run(
        """
        f = torch.compile(lambda x, y: torch.relu(x) @ y)
        x = torch.randn(8, 8)
        assert torch.allclose(f(x, x), torch.relu(x) @ x, atol=1e-5)
        """,
        order=order,
    )


def test_threads_keep_their_own_device_and_stream(run: Callable) -> None:
    """8 threads activate, query and switch for 5 s: no exception, nothing leaks from one thread to another."""
    code = """
        import threading, time, random, sys, traceback
        import torchdevice_cuda
        failures, deadline, rounds = [], time.monotonic() + 5, [0] * 8

        def work(number):
            try:
                dice = random.Random(number)
                while time.monotonic() < deadline:
                    torchdevice_cuda.activate(driver="cpu", devices=4)
                    device = dice.randrange(4)
                    torch.cuda.set_device(device)
                    stream = torch.cuda.Stream(device=device)
                    with torch.cuda.stream(stream):
                        event = torch.cuda.Event(enable_timing=True)
                        event.record()
                        time.sleep(dice.random() / 1000)
                        assert torch.cuda.current_device() == device
                        assert torch.cuda.current_stream() == stream
                        with torch.cuda.device((device + 1) % 4):
                            assert torch.cuda.current_device() == (device + 1) % 4
                            assert torch.cuda.current_stream() == torch.cuda.default_stream()
                    assert torch.cuda.current_stream() == torch.cuda.default_stream(device)
                    assert event.query() and torch.cuda.memory_allocated() >= 0
                    rounds[number] += 1
            except BaseException:
                failures.append(traceback.format_exc())

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not failures, failures[0]
        assert min(rounds) > 20, rounds
    """
    run(code, devices=4)


def test_threads_activate_at_once() -> None:
    """Threads that activate, some before and some while torch is imported, end with one activation."""
    from conftest import run_python

    run_python(
        """
        import threading, torchdevice_cuda
        barrier, failures = threading.Barrier(8), []
        def work(number):
            try:
                barrier.wait()
                torchdevice_cuda.activate(driver="cpu")
                import torch
                assert torch.cuda.is_available() and torch.cuda.Stream().query()
            except BaseException as error:
                failures.append(repr(error))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not failures, failures
        """
    )
