"""setuptools' build backend, with editable installs made ordinary ones.

An editable install puts this folder on ``sys.path`` instead of copying it, and python reads ``.pth`` files only from
site-packages itself: the shim would be installed and never run.
"""

from setuptools.build_meta import *  # noqa: F403
from setuptools.build_meta import build_wheel, get_requires_for_build_wheel, prepare_metadata_for_build_wheel

build_editable = build_wheel
get_requires_for_build_editable = get_requires_for_build_wheel
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
