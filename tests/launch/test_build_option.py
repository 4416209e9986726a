"""``--build`` builds what the driver needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import python
from native.compilers import Bench

EMULATED = {"TORCHDEVICE_EMULATE_MPS": "1"}


@pytest.mark.parametrize(
    ("options", "environment", "kind"),
    [
        ((), {}, "cuda"),
        (("--driver", "virtual"), EMULATED, "cuda"),
        (("--driver", "mps"), EMULATED, "mps"),
        ((), EMULATED, "mps"),
        (("--driver", "mps"), {}, "calls"),
    ],
)
def test_what_is_built(options: tuple[str, ...], environment: dict[str, str], kind: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    done = python("-m", "torchdevice_cuda", *options, "--build", environment={**bench.environment(), **environment})
    path = Path(done.out.strip())
    assert path.is_relative_to(bench.cache) and path.parent.name.startswith(f"{kind}-") and path.is_file()
    assert bench.links == 1


def test_the_error_names_the_command_that_helps(tmp_path: Path) -> None:
    environment = {**Bench(tmp_path).environment(), **EMULATED}
    code = "import torch"
    done = python(
        "-m", "torchdevice_cuda", "--driver", "mps", "--no-build", "-c", code, environment=environment, check=False
    )
    found = re.search(r"python -m torchdevice_cuda( .*) builds it", done.err)
    assert done.status and found is not None and found[1].split() == ["--driver", "mps", "--build"]
