"""``--build`` builds what the driver needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import run_forked
from native.compilers import Bench

from torchdevice_cuda.native import parts

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
def test_the_named_parts_are_built(
    options: tuple[str, ...], environment: dict[str, str], kind: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path)
    done = run_forked("-m", "torchdevice_cuda", *options, "--build", environment={**bench.environment(), **environment})
    paths = [Path(line) for line in done.out.splitlines()]
    assert len(paths) == bench.links == len(parts.parts_of(kind))
    assert {path.parent for path in paths} == {paths[0].parent} and all(path.is_file() for path in paths)
    assert paths[0].is_relative_to(bench.cache) and paths[0].parent.name.startswith(f"{kind}-")


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        (("core",), ["_hostdevice_cuda"]),
        (("graphs", "sparse"), ["_hostdevice_cuda", "graphs", "sparse"]),  # with what they are linked with
    ],
)
def test_parts_that_are_named_are_built(wanted: tuple[str, ...], made: list[str], tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    done = run_forked("-m", "torchdevice_cuda", "--build", *wanted, environment=bench.environment())
    assert len(done.out.splitlines()) == len(wanted)
    there = sorted(path.name.partition(".")[0].partition("-")[0] for path in bench.cache.rglob("*.so"))
    assert there == made and bench.links == len(made)


def test_a_part_that_is_not_known_is_named_with_those_that_are(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    done = run_forked("-m", "torchdevice_cuda", "--build", "cor", environment=bench.environment(), check=False)
    said = "the native device (cuda) has no part 'cor'; did you mean core? its parts: core, attention, "
    assert done.status == 2 and said in done.err and not bench.links


def test_the_error_names_the_command_that_helps(tmp_path: Path) -> None:
    environment = {**Bench(tmp_path).environment(), **EMULATED}
    code = "import torch"
    done = run_forked(
        "-m", "torchdevice_cuda", "--driver", "mps", "--no-build", "-c", code, environment=environment, check=False
    )
    found = re.search(r"python -m torchdevice_cuda( .*) builds it", done.err)
    assert done.status and found is not None and found[1].split() == ["--driver", "mps", "--build"]
