"""The driver in use."""


class DriverConfig:
    """Chosen when it is first asked for."""

    def __init__(self) -> None:
        self._active = None


driver = DriverConfig()
