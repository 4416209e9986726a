"""Create a wheel of ``torchdevice-cuda-native`` from libraries that were built here.

Its version names the torch that it is for, its tags the Python and the platform, and it requires that torch, as
torchvision's wheels do: a library fits no other. The platform tag is the plain one, since compatibility of the
compiler's C++ library with others was not tested. The same libraries give the same wheel, byte for byte.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from . import prebuilt
from .prebuilt import DISTRIBUTION, MANIFEST, PACKAGE
from .toolchain import BuildError

#: The earliest time that a zip file can store.
_MOMENT = (1980, 1, 1, 0, 0, 0)
_INIT = '"""Compiled parts of torchdevice-cuda, for one torch and one Python: the manifest says which."""\n'
_METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Compiled parts of torchdevice-cuda, for torch {torch}
License: Apache-2.0
Requires-Python: =={python}.*
Requires-Dist: torchdevice-cuda=={ours}
Requires-Dist: torch=={torch}

Found by torchdevice-cuda {ours} on torch {torch}, in place of what it would compile: the virtual GPU then needs no C++
compiler. `python -m torchdevice_cuda --build --wheel-dir DIR` makes it.
"""
_WHEEL = """\
Wheel-Version: 1.0
Generator: torchdevice-cuda {ours}
Root-Is-Purelib: false
Tag: {tag}
"""


def version(ours: str, torch: str) -> str:
    """Return the version with torch's, as far as a version may contain it: 0.1.0+torch2.13.0.cpu."""
    spelled = re.sub(r"[^a-z0-9]+", ".", torch.lower()).strip(".")
    return f"{ours}+torch{spelled}"


def tag() -> str:
    """Return the tags of the running Python and platform."""
    interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
    abi = re.match(r"cpython-(\d+t?)", prebuilt.python_abi())
    platform = re.sub(r"[^a-z0-9]", "_", sysconfig.get_platform().lower())
    return f"{interpreter}-cp{abi[1] if abi else interpreter[2:]}-{platform}"


def write(folder: Path, ours: str, torch: str, libraries: Mapping[str, Path]) -> Path:
    """Write the wheel of these libraries into `folder`.

    ``libraries`` are keyed by their names in the manifest; each is in a cache folder that is named for kind and key.
    """
    named = version(ours, torch)
    stem = f"{PACKAGE}-{named}"
    files = {f"{PACKAGE}/__init__.py": _INIT.encode()}
    manifest: dict[str, dict[str, str]] = {}
    for entry, path in libraries.items():
        content = path.read_bytes()
        place = f"{path.parent.name}/{path.name}"
        files[f"{PACKAGE}/{place}"] = content
        kind, _, part = entry.partition("/")
        # A part's file is named for its key, and the core's folder.
        named_for_key = path.name.partition(".")[0] if part else path.parent.name
        key = named_for_key.removeprefix(f"{part or kind}-")
        manifest[entry] = {"key": key, "file": place, "sha256": hashlib.sha256(content).hexdigest()}
    written = {
        "version": ours,
        "torch": torch,
        "python": prebuilt.python_abi(),
        "sources": prebuilt.sources_digest(),
        "libraries": manifest,
    }
    files[f"{PACKAGE}/{MANIFEST}"] = (json.dumps(written, indent=1, sort_keys=True) + "\n").encode()
    words = {
        "name": DISTRIBUTION,
        "version": named,
        "ours": ours,
        "torch": torch,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "tag": tag(),
    }
    files[f"{stem}.dist-info/METADATA"] = _METADATA.format(**words).encode()
    files[f"{stem}.dist-info/WHEEL"] = _WHEEL.format(**words).encode()
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join([*(_recorded(name, content) for name, content in files.items()), f"{record},,\n"]).encode()
    try:
        return _put(files, folder, f"{stem}-{tag()}.whl")
    except OSError as error:
        raise BuildError(f"the wheel cannot be written to {folder}: {error}; name another folder") from error


def _recorded(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def _put(files: Mapping[str, bytes], folder: Path, name: str) -> Path:
    """Write the archive, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".wheel-", delete=False) as made:
        try:
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
                for path, content in files.items():
                    entry = zipfile.ZipInfo(path, _MOMENT)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = (0o100755 if path.endswith(".so") else 0o100644) << 16
                    archive.writestr(entry, content)
            os.chmod(made.name, 0o644)
            os.replace(made.name, folder / name)
        except BaseException:
            os.unlink(made.name)
            raise
    return folder / name
