"""What a setting needs is imported only where the setting asks for it."""

from __future__ import annotations

import ast

import pytest
from harness import python

#: A feature, the modules of which are for it alone, and the options that ask for it.
FEATURES = {
    "reports": ("report.document", ["--report", "-"]),
    "rehearsals": ("rehearsal.unknown", ["--rehearse"]),
    "checks of kernels": ("sanitizer.findings", ["--sanitize", "memcheck"]),
    "checks of streams": ("races.findings", ["--check-streams", "warn"]),
}
CODE = "import sys, torch; torch.ones(2, device='cuda'); print([m for m in sys.modules if 'torchdevice' in m])"


def imported(driver: str, *options: str) -> set[str]:
    done = python("-m", "torchdevice_cuda", "--driver", driver, *options, "-c", CODE)
    (line,) = (line for line in done.out.splitlines() if line.startswith("["))
    return {name.partition(".")[2] for name in ast.literal_eval(line)}


@pytest.mark.parametrize("driver", ["cpu", pytest.param("virtual", marks=pytest.mark.native)])
def test_features_that_are_off_import_nothing(driver: str) -> None:
    assert not {module for module, _ in FEATURES.values()} & imported(driver)


@pytest.mark.native
@pytest.mark.parametrize("feature", FEATURES)
def test_features_that_are_on_import_theirs(feature: str) -> None:
    module, options = FEATURES[feature]
    assert module in imported("virtual", *options)
