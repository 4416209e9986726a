"""Errors in CUDA's words: names and texts as NVIDIA's runtime has them, and what torch says around them."""

from __future__ import annotations

import pytest
import torch
from recorded import read_record

from torchdevice_cuda.drivers import errors

#: By code what ``cudaGetErrorName`` and ``cudaGetErrorString`` of CUDA 13.0's runtime answer.
RUNTIME: dict[int, list[str]] = {
    int(code): said for code, said in read_record("runtime-errors-13.0.json")["errors"].items()
}
LATE = "CUDA kernel errors might be asynchronously reported at some other API call"
DEBUGGING = "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"


#: Of what an H200 was asked for its texts, and of what there is a test elsewhere; each is to be found by its number.
MET = {0, 1, 2, 3, 34, 35, 100, 101, 400, 600, 700, 999} | {
    code
    for code, (name, _) in RUNTIME.items()
    if name in ("cudaErrorContextIsDestroyed", "cudaErrorHostMemoryAlreadyRegistered", "cudaErrorLaunchFailure")
    or name.startswith("cudaErrorStreamCapture")
    and code < 902
}


def test_errors_that_a_program_meets_are_known() -> None:
    assert set(errors.CODES) >= MET


def test_names_and_texts_are_the_runtimes() -> None:
    assert {code: list(said) for code, said in errors.CODES.items()} == {code: RUNTIME[code] for code in errors.CODES}


@pytest.mark.parametrize("code", [2, 710, 999])
def test_an_errors_text_is_the_runtimes(code: int) -> None:
    name, text = RUNTIME[code]
    assert errors.error_text(code) == text
    assert errors.words_of(code).splitlines()[0] == text
    assert f"Search for `{name}' in https://docs.nvidia.com/cuda/" in errors.words_of(code)


def test_a_code_that_the_runtime_does_not_know() -> None:
    assert 12345 not in RUNTIME
    assert errors.error_text(12345) == "unrecognized error code"
    assert errors.words_of(12345).startswith("unrecognized error code\nSearch for `cudaErrorUnknown' in")


def test_a_device_that_is_not_there() -> None:
    error = errors.invalid_ordinal()
    assert str(error).startswith(
        "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have enough GPUs?\n"
    )
    assert "Search for" not in str(error)


@pytest.mark.parametrize(("blocking", "late"), [(None, True), ("0", True), ("", True), ("1", False)])
def test_blocking_launches_drop_the_hint_about_late_errors(
    monkeypatch: pytest.MonkeyPatch, blocking: str | None, late: bool
) -> None:
    if blocking is None:
        monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    else:
        monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", blocking)
    error = errors.cuda_error(400)
    assert type(error).__name__ in ("AcceleratorError", "RuntimeError")
    assert (LATE in str(error)) is late
    assert str(error).startswith(f"CUDA error: {errors.words_of(400)}\n")
    assert str(error).endswith(DEBUGGING)


@pytest.mark.skipif(not hasattr(torch._C, "AcceleratorError"), reason="torch has no such type before 2.8")
def test_the_error_has_its_code() -> None:
    error = errors.cuda_error(713)
    assert isinstance(error, torch.AcceleratorError)
    assert error.error_code == 713  # type: ignore[attr-defined]


def test_a_type_without_a_code_is_given_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before torch 2.8 it is a plain error."""
    monkeypatch.setattr(errors, "accelerator_error", lambda: RuntimeError)
    assert not hasattr(errors.cuda_error(713), "error_code")


def test_after_which_errors_of_a_kernel_nothing_can_be_done() -> None:
    assert {RUNTIME[code][0] for code in errors.ENDING} == {
        "cudaErrorIllegalAddress",
        "cudaErrorAssert",
        "cudaErrorLaunchFailure",
    }


def test_a_fork_is_told_what_to_do() -> None:
    error = errors.bad_fork()
    assert type(error) is RuntimeError
    assert str(error).startswith("Cannot re-initialize CUDA in forked subprocess.")
    assert "'spawn'" in str(error)
