"""The choice of a configuration."""


class Autotuner:
    """Measures all of them."""

    def run(self) -> None: ...

    def _bench(self) -> None: ...
