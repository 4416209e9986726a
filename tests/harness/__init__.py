"""Tests that run in child processes, since activation changes torch for good and torch is imported only once.

    from harness import CPU, VIRTUAL, child, in_child, python

    @child(CPU, VIRTUAL)                    # the body runs in a child, once in each place; the tests of a
    def test_streams_order() -> None:       # module share one child a place, and report one by one
        ...

    @child(CPU.with_settings(devices=2), alone=True)  # it changes the process for good: a child of its own
    def test_deactivation() -> None: ...

    def test_report(tmp_path: Path) -> None:
        value = in_child(function, CPU, str(tmp_path))        # a function in a child of its own; what it returned
        done = python("-m", "torchdevice_cuda", "--info")     # a command line, its status, output and errors
        done = run_forked("-m", "torchdevice_cuda", program)  # the same in a fork that has torch: a quarter of the
                                                          # time; whole=True if it is about how the program ends

    outcome(function, CPU).err                                # what a function printed on standard error meanwhile
    together(CPU, [one, other])["one"].value                  # several in one child; each place is asked once
    CPU.anew()                                                # a new process: others are forks of one that has torch,
                                                              # and of one that has activated, if places say the same
    in_fork(function)                                         # in a fork of this process; its value or error
    @child(CPU, as_in=STOCK)                                  # what it returns is what it returns under stock torch
    ChildConfig("bare", order="after", setup=use_cuda, setup_with={"devices": 2}, needs=("cuda",))  # not activated

The functions are those of a file, which the child imports after it has activated: it may import torch at its top.
Arguments are literals, results what JSON keeps. A child that dies or hangs is reported with what it printed.
"""

from .forks import in_fork
from .places import (
    ACCELERATING,
    BOTH_POLICIES,
    CPU,
    CUDA,
    CUDA_FAITHFUL,
    EVERYWHERE,
    FAITHFUL,
    MPS,
    MPS_FAITHFUL,
    ORDERS,
    STOCK,
    STORED,
    VIRTUAL,
    VIRTUAL_ACCELERATE,
    ChildConfig,
    cuda_of_build,
    in_every_order,
)
from .processes import Finished, clean_environment, python, run
from .running import Outcome, child, in_child, outcome, together
from .servers import run_forked

__all__ = [
    "ACCELERATING",
    "BOTH_POLICIES",
    "CPU",
    "CUDA",
    "CUDA_FAITHFUL",
    "EVERYWHERE",
    "FAITHFUL",
    "MPS",
    "MPS_FAITHFUL",
    "ORDERS",
    "STOCK",
    "STORED",
    "VIRTUAL",
    "VIRTUAL_ACCELERATE",
    "Finished",
    "Outcome",
    "ChildConfig",
    "child",
    "clean_environment",
    "cuda_of_build",
    "in_child",
    "in_every_order",
    "in_fork",
    "outcome",
    "python",
    "run",
    "run_forked",
    "together",
]
