"""Errors that ``--torchdevice-sanitize`` finds in kernels fail the test in which they are found."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest


def separate() -> None:
    """Do not collect findings in the file of the process that started this one: a worker reports its own tests."""
    from ..sanitizer import findings

    os.environ.pop(findings.FILE, None)


class Sanitizer:
    """Hooks of pytest."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Fail the test; warn of kernels that are not checked: pytest hides what their C++ says of it."""
        from ..sanitizer import findings

        findings.take()  # of fixtures that more tests use
        outcome = yield
        errors = [str(finding) for finding in findings.take() if finding.level == findings.ERROR]
        if errors and outcome.excinfo is None:
            outcome.force_exception(pytest.fail.Exception("\n".join(errors), pytrace=False))
        for library in findings.take_unchecked():
            text = f"the kernels of {library} are not checked: compile it with TORCHDEVICE_SANITIZE set"
            try:
                item.warn(pytest.PytestWarning(f"--torchdevice-sanitize: {text} (docs/sanitize.md)"))
            except pytest.PytestWarning as error:  # the user wants warnings to be errors
                outcome.force_exception(error)
