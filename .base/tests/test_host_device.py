"""Where the host's memory and cores stand in for CUDA's: moves copy as between devices, and the cores stay in use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("move", ["module.cuda()", "module.to('cuda')", "module.to(0)", "module.to(device='cuda:0')"])
def test_a_module_moves_once(answer: Callable[..., Any], move: str) -> None:
    program = f"""
        module = torch.nn.Linear(2, 2)
        addresses = [module.weight.data_ptr()]
        for _ in range(2):
            {move}
            addresses.append(module.weight.data_ptr())
            module.cuda()
            module.to("cuda")
        first, moved, again = addresses
        module.cpu()
        result = [moved != first, again == moved, module.weight.data_ptr() != moved]
    """
    assert answer(program) == [True, True, True]


def test_a_snapshot_on_the_cpu_is_a_copy(answer: Callable[..., Any]) -> None:
    """The usual way to keep the best weights so far; also after the module has been on the CPU in between."""
    program = """
        module = torch.nn.Linear(2, 2).to("cuda")
        module.cuda().cpu()
        module.cuda()
        best = {name: value.cpu() for name, value in module.state_dict().items()}
        row = module.weight.detach()[0].to("cpu")
        expected = module.weight.detach().clone()
        with torch.no_grad():
            module.weight.add_(1)
        result = [torch.equal(best["weight"], expected), torch.equal(row, expected[0])]
    """
    assert answer(program) == [True, True]


def test_marks_of_moved_memory_die_with_it(answer: Callable[..., Any]) -> None:
    program = """
        import gc
        from torchdevice_cuda import activation
        marks = activation._state.patches._editor.translator.marks
        for _ in range(100):
            torch.nn.Linear(2, 2).cuda()
        gc.collect()
        result = len(marks._storages)
    """
    assert answer(program) == 0


def test_arguments_of_to_keep_the_device_they_name(answer: Callable[..., Any]) -> None:
    """Lightning parses them to know where a module is."""
    program = """
        parse = torch._C._nn._parse_to
        result = [str(parse(*args)[0]) for args in (("cuda",), ("cuda:0",), (0,), ("cpu",), (torch.float16,))]
    """
    assert answer(program) == ["cuda", "cuda:0", "cuda:0", "cpu", "None"]


def test_pinning_leaves_the_cores_to_the_program(answer: Callable[..., Any]) -> None:
    program = """
        import threading
        from torch.utils.data import DataLoader, TensorDataset
        found = []
        for batch in DataLoader(TensorDataset(torch.ones(4)), num_workers=1, pin_memory=True):
            assert batch[0].is_pinned()
        found.append(torch.get_num_threads())
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        result = found
    """
    assert answer(program, env={"OMP_NUM_THREADS": "3"}) == [3, 3]


@pytest.mark.parametrize("profiler", ["torch.profiler.profile()", "torch.autograd.profiler.profile(use_device='cuda')"])
def test_profilers_do_not_look_for_cuda_events(run: Callable[..., Any], profiler: str) -> None:
    program = f"""
        module = torch.nn.Linear(2, 2).cuda()
        with {profiler} as profile:
            module(torch.ones(1, 2, device="cuda")).sum().backward()
        assert any(event.key == "aten::linear" for event in profile.key_averages())
    """
    assert "CUDA event" not in run(program).stderr
