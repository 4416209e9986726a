"""The line that names the setting, for a program that ended because a package could not be imported."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..settings.stand_ins import STAND_INS


def suggest(error: BaseException, enabled: Collection[str]) -> str | None:
    """Return the line for a failed import that a stand-in would have served, unless it is enabled."""
    if not isinstance(error, (ImportError, OSError)):
        return None
    modules = {getattr(error, "name", None) or "", *_list_modules(error)}
    packages = {module.partition(".")[0] for module in modules}
    # Programs that test for a package report it in an ImportError of their own.
    words = set(str(error).replace("`", " ").split()) if isinstance(error, ImportError) else set()
    for name, row in STAND_INS.items():
        if name not in enabled and (name in packages or {name, row.also_called} & words):
            return f"torchdevice_cuda has a stand-in for {name}: --stand-ins {name}, or TORCHDEVICE_STAND_INS={name}"
    return None


def _list_modules(error: BaseException) -> Iterator[str]:
    """List the modules that the error passed through: a library may fail to load inside the package."""
    traceback = error.__traceback__
    while traceback is not None:
        yield str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
