"""Any text for any setting: an error of one line that says what is allowed, or settings that children read too."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchdevice_cuda import settings

from . import examples, holds

#: Texts that are nearly right.
ODD = (
    "1e9",
    "16GiB",
    "1e400",
    "-1",
    "0",
    "1.5.5",
    "8.",
    "9" * 400,
    "0x10",
    "\u0661",
    "1_0",
    "inf",
    "true",
    "a\0b",
    "\ud800",
)
WORDS = sorted({word.strip(" ,;") for option in settings.OPTIONS for word in option.allowed.split()} | set(ODD))
NEARLY = st.tuples(st.text(" \t\n", max_size=2), st.sampled_from(WORDS), st.text(max_size=3)).map("".join)
TEXTS = st.one_of(st.text(), st.sampled_from(WORDS), NEARLY, st.text(st.characters(codec=None)))


def check(option: settings.Option, spelled: str, text: str, values: dict[str, str], environ: dict[str, str]) -> None:
    try:
        chosen = settings.load(values, environ)
    except settings.SettingsError as error:
        said = str(error)
        assert "\n" not in said
        assert all(part in said for part in (spelled, repr(text), option.allowed))
        return
    exported = settings.as_environment(chosen)
    for name, value in exported.items():
        assert "\0" not in value
        os.fsencode(name + value)
    assert settings.load({}, exported) == chosen


@examples(60, 3000)
@pytest.mark.parametrize("option", settings.OPTIONS, ids=lambda option: option.field)
def test_any_text_as_an_argument(option: settings.Option, number: int) -> None:
    @given(TEXTS)
    def anything(text: str) -> None:
        check(option, option.flag or option.field, text, {option.field: text}, {})

    holds(anything, number)
    for word in WORDS:
        check(option, option.flag or option.field, word, {option.field: word}, {})


@examples(60, 3000)
@pytest.mark.parametrize("option", settings.OPTIONS, ids=lambda option: option.field)
def test_any_text_in_the_environment(option: settings.Option, number: int) -> None:
    @given(TEXTS)
    def anything(text: str) -> None:
        check(option, option.variable, text, {}, {option.variable: text})

    holds(anything, number)


@examples(300, 10_000)
def test_settings_together_survive_a_child(number: int) -> None:
    @given(st.dictionaries(st.sampled_from(settings.OPTIONS), TEXTS))
    def together(chosen: dict[settings.Option, str]) -> None:
        try:
            found = settings.load({}, {option.variable: text for option, text in chosen.items()})
        except settings.SettingsError:
            return
        assert settings.load({}, settings.as_environment(found)) == found

    holds(together, number)
