"""Any words on the command line are understood or refused; where options stand does not matter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torchdevice_cuda.launch import cli, options

from . import examples, holds

FLAGS = sorted(options.FLAGS)
SWITCHES = ["--info", "--patches", "--build", "--no-build", "--version", "-V", "--help", "-h", "--", "-", "-m", "-c"]
WORDS = st.one_of(
    st.sampled_from([*FLAGS, *SWITCHES]),
    st.builds("{}={}".format, st.sampled_from(FLAGS), st.text(max_size=3)),
    st.text(max_size=5),
    st.builds("-{}".format, st.text(max_size=4)),
)
#: Options with a value, by word or attached, each at most once.
OPTIONS = st.dictionaries(st.sampled_from(FLAGS), st.tuples(st.text("ab-=", max_size=3), st.booleans()), max_size=5)


@examples(500, 20_000)
def test_any_words(number: int) -> None:
    @given(st.lists(WORDS, max_size=6))
    def anything(words: list[str]) -> None:
        try:
            request = cli.parse(words)
        except cli.UsageError as error:
            assert str(error).strip()
            return
        assert words[len(words) - len(request.args) :] == request.args
        assert all(isinstance(value, str) for value in request.overrides.values())

    holds(anything, number)


@examples(300, 10_000)
def test_the_order_of_options_does_not_matter(number: int) -> None:
    @given(OPTIONS, st.randoms(), st.lists(st.text(max_size=4), max_size=3))
    def shuffled(given_options: dict[str, tuple[str, bool]], order: object, args: list[str]) -> None:
        pairs = [
            [f"{flag}={value}"] if attached or options.FLAGS[flag].bare else [flag, value]
            for flag, (value, attached) in given_options.items()
        ]
        words = [word for pair in pairs for word in pair]
        order.shuffle(pairs)  # type: ignore[attr-defined]
        other = [word for pair in pairs for word in pair]
        request = cli.parse([*words, "script.py", *args])
        assert request == cli.parse([*other, "script.py", *args])
        assert (request.action, request.target, request.args) == ("script", "script.py", args)
        assert request.overrides == {options.FLAGS[flag].field: value for flag, (value, _) in given_options.items()}

    holds(shuffled, number)
