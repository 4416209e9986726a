"""Tests that end in every way a test in a child can end; pytest finds them only when told to."""

from __future__ import annotations

import atexit
import os
import time

import pytest

from . import STOCK, ChildConfig, child

GONE = ChildConfig("gone", setup=os.abort)
#: A new process, and a fork of one that has imported torch.
EITHER = (STOCK, STOCK.when("after"))


@child(*EITHER)
def test_passes() -> None:
    print("not shown")


@child(STOCK)
@pytest.mark.parametrize("value", [(1, 2), "text"])
def test_gets_its_arguments(place: ChildConfig, value: object) -> None:
    assert place.name == "stock"
    assert value in ((1, 2), "text")


@child(*EITHER)
def test_fails() -> None:
    seen = "what was seen"
    print("said before")
    assert seen == "something else"


@child(*EITHER)
def test_skips() -> None:
    pytest.skip("it has a reason")


@child(*EITHER)
def test_dies() -> None:
    print("last words", flush=True)
    os._exit(3)


@child(*EITHER, seconds=1)
def test_hangs() -> None:
    time.sleep(600)


@child(*EITHER)
def test_forgets_a_fork() -> None:
    forked = os.fork()
    assert forked, "the fork goes on as if it were the test"
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 1


@child(*EITHER)
def test_goes_on_after_the_others() -> None:
    pass


@child(*EITHER, alone=True)
def test_ends_badly() -> None:
    atexit.register(os._exit, 4)


@child(GONE)
def test_does_not_start() -> None:
    pass


@child(ChildConfig("set", environment={"SAMPLE": "1"}), as_in=STOCK)
def test_is_the_same() -> str:
    return "here as there"


@child(ChildConfig("set", environment={"SAMPLE": "1"}), as_in=STOCK)
def test_is_not_the_same() -> str | None:
    return os.environ.get("SAMPLE")


@child(*EITHER)
def test_shares_a_process_with_those_before() -> None:
    os.environ["SHARED"] = "1"


@child(*EITHER)
def test_shares_a_process_with_those_after() -> None:
    assert os.environ["SHARED"] == "1"


@child(*EITHER, alone=True)
def test_has_a_process_of_its_own() -> None:
    assert "SHARED" not in os.environ
