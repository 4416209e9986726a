"""Common launchers of training on several GPUs, unmodified, on two virtual GPUs; see launched/."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import VIRTUAL, clean_environment, run
from harness.places import must_be_ready

pytestmark = [pytest.mark.slow, pytest.mark.native]

LAUNCHED = Path(__file__).parent / "launched"
PROCESSES = 2
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(PROCESSES))
ACCELERATE = (
    *("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(PROCESSES)),
    *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
)
#: By name: the library, and what follows `python -m torchdevice_cuda` but for the folder of the program.
LAUNCHES: dict[str, tuple[str, tuple[str, ...]]] = {
    "torchrun": ("torch", (*TORCHRUN, "torchrun_ddp.py")),
    "accelerate": ("accelerate", (*ACCELERATE, "accelerate_ddp.py")),
    "lightning ddp": ("lightning", ("lightning_gpus.py", "ddp")),
    "lightning fsdp": ("lightning", ("lightning_gpus.py", "fsdp")),
    "transformers": ("transformers", (*TORCHRUN, "transformers_trainer.py")),
    "ray": ("ray", ("ray_ddp.py",)),
}
TIMEOUT = 600
#: Ray asks NVML how many GPUs there are, which is NVIDIA's: it has to be told.
NOT_FOUND = {"RAY_OVERRIDE_RESOURCES": json.dumps({"GPU": PROCESSES})}


def test_every_program_is_launched() -> None:
    programs = {part for _, command in LAUNCHES.values() for part in command if part.endswith(".py")}
    assert {path.name for path in LAUNCHED.glob("[!_]*.py")} == programs


@pytest.mark.parametrize("name", LAUNCHES)
def test_weights_are_those_of_one_process(name: str, tmp_path: Path) -> None:
    library, command = LAUNCHES[name]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"not installed: {library} (the extra 'clients' has it)")
    must_be_ready(VIRTUAL)
    result = tmp_path / "result.json"
    environment = clean_environment(LAUNCHED_RESULT=str(result), HF_HUB_OFFLINE="1", **NOT_FOUND)
    ours = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--devices", str(PROCESSES)]
    # The programs find what they share beside them.
    given = [str(LAUNCHED / part) if part.endswith(".py") else part for part in command]
    done = run([*ours, *given], environment=environment, folder=tmp_path, timeout=TIMEOUT)
    assert done.status == 0, done
    came = json.loads(result.read_text(encoding="utf-8"))
    assert len(came["devices"]) == PROCESSES
    assert came["weights"] == pytest.approx(_expected(), abs=1e-5)


def _expected() -> list[float]:
    """Return the result of one process with stock torch on the CPU."""
    code = "import json, _training; print(json.dumps(_training.expected()))"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=LAUNCHED, env=clean_environment(), capture_output=True, text=True, check=True
    )
    weights: list[float] = json.loads(found.stdout)
    return weights
