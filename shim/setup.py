"""Packages the ``.pth`` file, and takes the version from torchdevice-cuda; everything else is in setup.cfg."""

import ast
from email.parser import HeaderParser
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
PTH = "torchdevice_cuda_shim.pth"


def version() -> str:
    """The one that the package beside this folder says; a source distribution has it written down."""
    written = HERE / "PKG-INFO"
    if written.exists():
        return HeaderParser().parsestr(written.read_text(encoding="utf-8"))["Version"]
    source = (HERE.parent / "torchdevice_cuda" / "_version.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            return ast.literal_eval(node.value)
    raise ValueError("torchdevice_cuda/_version.py says no __version__")


class BuildWithPth(build_py):
    """Puts the ``.pth`` beside the module, at the root of the wheel: the one place whose ``.pth`` files python reads.

    ``data_files`` would need the path of site-packages below the prefix, which differs by system and version.
    """

    def run(self) -> None:
        """Build the module, then copy the file."""
        super().run()
        self.copy_file(PTH, str(Path(self.build_lib, PTH)), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return the files that ``run`` creates."""
        return [*super().get_outputs(include_bytecode), str(Path(self.build_lib, PTH))]

    def get_source_files(self) -> list[str]:
        """Return the files of a source distribution."""
        return [*super().get_source_files(), PTH, "sitecustomize.py", "_build/backend.py"]


setup(version=version(), cmdclass={"build_py": BuildWithPth})
