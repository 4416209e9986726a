"""Packages the ``.pth`` file; everything else is in setup.cfg."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PTH = "torchdevice_cuda_shim.pth"


class BuildWithPth(build_py):
    """Puts the ``.pth`` beside the module, at the root of the wheel: the one place whose ``.pth`` files python reads.

    ``data_files`` would need the path of site-packages below the prefix, which differs by system and version.
    """

    def run(self) -> None:
        """Build the module, then copy the file."""
        super().run()
        self.copy_file(PTH, str(Path(self.build_lib, PTH)), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """What ``run`` makes."""
        return [*super().get_outputs(include_bytecode), str(Path(self.build_lib, PTH))]

    def get_source_files(self) -> list[str]:
        """What a source distribution has to hold."""
        return [*super().get_source_files(), PTH, "sitecustomize.py", "_build/backend.py"]


setup(cmdclass={"build_py": BuildWithPth})
