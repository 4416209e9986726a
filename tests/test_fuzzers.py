"""The fuzzers (tools/fuzz): short runs on each driver, and that they find what is planted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import STOCK, VIRTUAL, Finished, child, run_forked
from harness.places import must_be_ready
from harness.processes import ROOT

FUZZ = ROOT / "tools" / "fuzz"
DTYPES = ("float32", "float64", "int64", "bool", "complex64", "bfloat16")


def fuzz(*options: object) -> Finished:
    return run_forked(FUZZ, *map(str, options), check=False, timeout=400)


def read_counts(done: Finished) -> tuple[int, int, int]:
    """Read programs, calls and programs with gradients from the last line."""
    words = done.out.splitlines()[-1].split(": ", 1)[1].replace(",", "").split()
    numbers = [int(word) for word in words if word.isdigit()]
    return numbers[0], numbers[1], numbers[3]


#: The cpu driver computes what the CPU does, with the least of ours.
DRIVERS = pytest.mark.parametrize(
    "driver",
    ["virtual", pytest.param("cpu", marks=pytest.mark.slow), pytest.param("mps", marks=pytest.mark.mps)],
)


@pytest.mark.native
@DRIVERS
def test_random_operators_give_what_the_cpu_gives(driver: str) -> None:
    must_be_ready(VIRTUAL)
    done = fuzz("operators", "--driver", driver, "--programs", 100, "--seed", 34)
    assert done.status == 0, done
    programs, calls, _ = read_counts(done)
    assert programs == 100
    assert calls > 700


@pytest.mark.native
@DRIVERS
def test_random_programs_have_the_gradients_of_the_cpu(driver: str) -> None:
    must_be_ready(VIRTUAL)
    done = fuzz("programs", "--driver", driver, "--programs", 60, "--seed", 34)
    assert done.status == 0, done
    programs, _, differentiated = read_counts(done)
    assert programs == 60
    assert differentiated > 30


@pytest.mark.native
@pytest.mark.slow
def test_compiled_programs_give_what_eager_ones_give() -> None:
    must_be_ready(VIRTUAL)
    done = fuzz("compiled", "--programs", 10, "--seed", 34)
    assert done.status == 0, done
    assert " graphs compiled" in done.out
    assert " 0 graphs compiled" not in done.out


@pytest.mark.native
@pytest.mark.slow
def test_a_fault_of_the_compiled_device_is_told_from_one_of_stocks_compiler() -> None:
    """Plant one that the device alone has, and one that stock has on the CPU, too."""
    must_be_ready(VIRTUAL)
    options = ("compiled", "--only", 23, "--seed", 34, "--plant")
    ours = fuzz(*options, "compiled")
    assert ours.status == 1, ours
    assert "FOUND 34/23 where: values of v5: 77.0" in ours.out, ours
    stocks = fuzz(*options, "compiler")
    assert stocks.status == 0, stocks
    assert "explained 1: stock's compiler does the same on the CPU" in stocks.out, stocks


@pytest.mark.slow
@pytest.mark.native
def test_a_record_is_compared_elsewhere(tmp_path: Path) -> None:
    """Record the virtual GPU, then compare the cpu driver with it: what a program gave is what it gives."""
    must_be_ready(VIRTUAL)
    file = tmp_path / "record.xz"
    options = ("--programs", 30, "--seed", 34, "--dtypes", "float32,int64,bool")
    done = fuzz("programs", "--device", "cpu", "--against", "cuda", "--record", file, *options)
    assert done.status == 0, done
    again = fuzz("programs", "--compare", file)
    assert again.status == 0, again
    assert read_counts(again) == read_counts(done)


@pytest.mark.slow
@pytest.mark.native
def test_a_crash_is_reported_with_its_seed() -> None:
    must_be_ready(VIRTUAL)
    done = fuzz("operators", "--programs", 5, "--seed", 34, "--plant", "crash")
    assert done.status == 1, done
    seeds = [line.split()[1] for line in done.out.splitlines() if "the process died with status -6" in line]
    assert seeds, done
    alone = fuzz("operators", "--only", seeds[0].split("/")[1], "--seed", 34, "--plant", "crash")
    assert f"FOUND {seeds[0]} : the process died with status -6" in alone.out, alone


# ------------------------------------------------------------------------------ in one process
def find_planted(name: str) -> dict[str, Any]:
    """Plant a fault and look for it; what is reported."""
    sys.path.insert(0, str(FUZZ))
    import differentiating  # noqa: F401
    import planting
    import pointwise  # noqa: F401
    import shaping  # noqa: F401
    import worker
    from session import Session, Settings
    from sides import Side

    session = Session(Side("cpu"), Side("cuda"), Settings("cpu:virtual", DTYPES, differentiates=name == "gradient"))
    take_out = planting.plant(name)
    try:
        for number in range(60):
            findings = session.generate(f"planted/{number}")
            if findings:
                return worker.report(session, findings[0], str(number))
    finally:
        take_out()
    raise AssertionError(f"{name} was not found")


def check_planted(name: str, field: str, most: int) -> None:
    found = find_planted(name)
    assert found["difference"].startswith(f"{field} of"), found
    assert found["is steady"], found
    assert len(found["steps"]) <= most, found
    assert json.loads(json.dumps(found)) == found


@child(VIRTUAL)
def test_no_finding_without_a_planted_fault() -> None:
    with pytest.raises(AssertionError, match="was not found"):
        import torch

        sys.path.insert(0, str(FUZZ))
        import planting

        planting.PLANTS["nothing"] = ((), torch.clone)
        find_planted("nothing")


@child(VIRTUAL)
def test_a_wrong_value_is_found() -> None:
    check_planted("value", "values", 5)


@child(VIRTUAL)
def test_a_wrong_dtype_is_found() -> None:
    check_planted("dtype", "dtype", 5)


@child(VIRTUAL)
def test_a_wrong_stride_is_found() -> None:
    check_planted("stride", "stride", 5)


@child(VIRTUAL)
def test_a_wrong_gradient_is_found() -> None:
    check_planted("gradient", "values", 5)


@child(VIRTUAL)
def test_a_copy_in_place_of_a_view_is_found() -> None:
    check_planted("alias", "aliases", 4)


@child(VIRTUAL)
def test_a_printed_program_runs_by_itself() -> None:
    sys.path.insert(0, str(FUZZ))
    import pointwise  # noqa: F401
    import shaping  # noqa: F401
    from program import print_source
    from session import Session, Settings
    from sides import Side

    session = Session(Side("cpu"), Side("cuda"), Settings("cpu:virtual", DTYPES))
    seed = "printed/3"
    assert not session.generate(seed)
    steps = list(session.steps)
    exec(compile(print_source(steps, "cuda"), "printed", "exec"), {"__name__": "printed"})
    assert not session.generate(seed)
    assert session.steps == steps


@child(STOCK.when("after"))
def test_a_kernel_that_forgets_strides_on_both_sides_is_found() -> None:
    import torch

    sys.path.insert(0, str(FUZZ))
    from program import Step
    from session import Session, Settings
    from sides import Side

    original = torch.flip
    torch.flip = lambda x, dims: original(x.as_strided(x.shape, torch.empty(x.shape).stride()), dims)
    try:
        session = Session(Side("cpu"), Side("cpu"), Settings("cpu:host", DTYPES))
        steps = [
            Step("v0 = make(1, (2, 3), torch.float32).permute((1, 0))", "leaf", ("v0",)),
            Step("v1 = torch.flip(v0, [0])", "flip", ("v1",)),
        ]
        (finding,) = session.replay(steps)
    finally:
        torch.flip = original
    assert str(finding.difference).startswith("layout of v1"), finding
    assert not session.replay(steps)


@child(STOCK.when("after"))
def test_an_explained_difference_is_counted_and_others_are_not_explained() -> None:
    sys.path.insert(0, str(FUZZ))
    from comparing import Difference
    from explained import explain
    from program import Step

    steps = [Step("v1 = torch.nansum(v0)", "nansum", ("v1",))]
    words = "reference raises RuntimeError: nansum on CPU does not support complex inputs; device computes complex64[]"
    assert explain(steps, Difference("error", "", words), "cpu:virtual") is not None
    assert explain(steps, Difference("error", "", words), "cpu:cpu") is None
    assert explain(steps, Difference("values", "v1", "1, reference 2 at 0"), "cpu:virtual") is None
    # An H200 refuses to shift floats, and has a kernel that adds them.
    refuses = "reference computes float32[2]; device raises NotImplementedError: \"{}\" not implemented for 'Float'"
    assert explain(steps, Difference("error", "", refuses.format("rshift_cuda")), "cpu:virtual") is not None
    assert explain(steps, Difference("error", "", refuses.format("add_cuda")), "cpu:virtual") is None


@child(STOCK.when("after"))
def test_only_programs_that_are_being_written_may_fail_assertions() -> None:
    sys.path.insert(0, str(FUZZ))
    from watching import _fails_an_assertion

    died = "the process died with status 1\n  File compiling.py, line 1, in {}\nCUDA error: {}"
    assert _fails_an_assertion(died.format("write_group", "device-side assert triggered"))
    assert not _fails_an_assertion(died.format("check", "device-side assert triggered"))
    assert not _fails_an_assertion(died.format("write_group", "an illegal memory access was encountered"))


@child(STOCK.when("after"))
def test_only_the_very_same_fault_is_stocks() -> None:
    sys.path.insert(0, str(FUZZ))
    from stock import are_alike, has_the_same

    def differ(field: str, name: str, detail: str) -> dict[str, str]:
        return {"field": field, "name": name, "detail": detail}

    value = differ("values", "v1", "0.5, reference 1.0 at 3, 2 differ (float32[2, 3])")
    assert are_alike(value, differ("values", "v1", "0.5000001, reference 1.0 at 3, 1 differ (float32[2, 3])"))
    assert not are_alike(value, differ("values", "v2", value["detail"]))
    assert not are_alike(value, differ("dtype", "v1", value["detail"]))
    assert not are_alike(value, differ("values", "v1", "0.6, reference 1.0 at 3, 2 differ (float32[2, 3])"))
    assert not are_alike(value, differ("values", "v1", "0.5, reference 2.0 at 3, 2 differ (float32[2, 3])"))
    assert not are_alike(value, differ("values", "v1", "0.5, reference 1.0 at 3, 2 differ (float64[2, 3])"))
    assert are_alike(differ("dtype", "v1", "int8, reference int16"), differ("dtype", "v1", "int8, reference int16"))
    raises = "compiled raises RuntimeError: [{} [5]] on {} is {}"
    error = differ("error", "", raises.format("torch.cuda.DoubleTensor", "cuda:0", "{a, b}"))
    stocks = raises.format("torch.DoubleTensor", "cpu", "{b, a}")
    assert are_alike(error, differ("error", "", stocks))
    assert not are_alike(error, differ("error", "", stocks.replace("[5]", "[6]")))
    assert not are_alike(error, differ("error", "", stocks.replace("RuntimeError", "TypeError")))
    versions = "compiled raises: [{}BFloat16Type [5]] is at version 1"
    typed = [differ("error", "", versions.format(place)) for place in ("CUDA", "CPU")]
    assert are_alike(*typed)
    shaped = [differ("error", "", f"compiled raises TypeError: 2*{symbol} > 25") for symbol in ("s21", "s39")]
    assert are_alike(*shaped)
    gcc = "compiled raises CppCompileError: g++ /tmp/{}.cpp\n/tmp/{}.cpp:3: error: {}"
    assert are_alike(differ("error", "", gcc.format(1, 1, "no type")), differ("error", "", gcc.format(2, 2, "no type")))
    assert not are_alike(differ("error", "", gcc.format(1, 1, "no")), differ("error", "", gcc.format(2, 2, "yes")))
    assert has_the_same([value], [value, error])
    assert not has_the_same([value, error], [value])
    assert not has_the_same([value], [])
