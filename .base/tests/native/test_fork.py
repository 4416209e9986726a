"""A child forked after the device was used is told so, in CUDA's words, and can still do everything else."""

from __future__ import annotations

from .harness import run

WORDS = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
    "start method"
)


def test_fork_after_use() -> None:
    run(f"""
        import os
        def child(f):
            pid = os.fork()
            if pid == 0:
                try:
                    f()
                    os._exit(0)
                except BaseException:
                    import traceback; traceback.print_exc()
                    os._exit(1)
            assert os.waitpid(pid, 0)[1] == 0
        def unused():
            assert not native.in_bad_fork() and (torch.ones(2, device="cuda") + 1).sum() == 4
        child(unused)
        x = torch.ones(2, device="cuda")
        def used():
            global x
            assert native.in_bad_fork() and float(torch.ones(2).sum()) == 2
            for f in (lambda: torch.zeros(1, device="cuda"), lambda: x + 1, lambda: x.cpu(), lambda: native.synchronize(0),
                      lambda: torch.ones(1).cuda(), lambda: native.stream_new(0, 0)):
                try:
                    f()
                except RuntimeError as error:
                    assert str(error) == {WORDS!r}, error
                else:
                    raise AssertionError
            del x
        child(used)
        assert not native.in_bad_fork() and (x + 1).sum() == 4
        # workers of a data loader never touch the device
        data = torch.utils.data.TensorDataset(torch.arange(8.0))
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, pin_memory=False)
        assert sum(b[0].cuda().sum().item() for b in loader) == 28
    """)


def test_fork_while_other_threads_allocate() -> None:
    run("""
        import os, threading
        stop = False
        def churn():
            while not stop:
                torch.empty(1000, device="cuda")
        threads = [threading.Thread(target=churn) for _ in range(3)]
        for t in threads: t.start()
        kept = torch.ones(10, device="cuda")
        for _ in range(30):
            pid = os.fork()
            if pid == 0:
                del kept
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop = True
        for t in threads: t.join()
    """)
