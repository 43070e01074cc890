"""Builds the wheel of leat with the standard library alone (PEP 517 and PEP 660).

The wheel has the package and the leat program, as a script. The program is ../bin/leat, which
"make bin/leat" brings up to date where make and Go are installed, or the file that LEAT_BINARY
names. The same files give the same wheel.

    python3 python/_build/leat_build.py DIR   writes the wheel into DIR and prints its name
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, Optional

PYTHON = Path(__file__).resolve().parent.parent
ROOT = PYTHON.parent
PROCESSORS = {62: "x86_64", 183: "aarch64"}  # machines of ELF headers

METADATA = """\
Metadata-Version: 2.1
Name: leat
Version: {version}
Summary: Functions over blocks of rasters, and caches that processes share
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy ; extra == "numpy"
Provides-Extra: cloudpickle
Requires-Dist: cloudpickle ; extra == "cloudpickle"
"""


def release() -> str:
    """Return the version in Python's form: 0.1.0-dev is 0.1.0.dev0."""
    text = (PYTHON / "leat" / "VERSION").read_text().strip()
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(dev|alpha|beta|rc)\.?(\d*))?", text)
    if match is None:
        raise ValueError(f"version {text!r}: expected 1.2.3, 1.2.3-dev or 1.2.3-rc.1")
    number, kind, count = match.groups()
    suffix = {None: "", "dev": ".dev", "alpha": "a", "beta": "b", "rc": "rc"}[kind]
    return number + (suffix + (count or "0") if kind else "")


def program() -> Path:
    """Return the leat program, built first if sources are newer and make and Go are installed."""
    given = os.environ.get("LEAT_BINARY")
    path = Path(given) if given else ROOT / "bin" / "leat"
    if not given and shutil.which("go") and shutil.which("make"):
        make = ["make", "--no-print-directory", "-C", str(ROOT), "bin/leat"]
        subprocess.run(make, check=True, stdout=sys.stderr)
    if not path.is_file():
        raise FileNotFoundError(f"leat program {path}: no such file; make it with \"make build\""
                                " (needs Go), or name another one in LEAT_BINARY")
    return path


def tag(binary: bytes) -> str:
    """Return the wheel's tag, for the processor that the program runs on."""
    processor = PROCESSORS.get(int.from_bytes(binary[18:20], "little"))
    if binary[:5] != b"\x7fELF\x02" or processor is None:
        raise ValueError("leat program: not one for Linux on x86_64 or aarch64")
    return f"py3-none-manylinux_2_17_{processor}"


def write_wheel(directory: str, package: dict[str, bytes]) -> str:
    """Write a wheel of the package's files, the program and the metadata; return its name."""
    version = release()
    binary = program().read_bytes()
    kind = tag(binary)
    info = f"leat-{version}.dist-info"
    script = f"leat-{version}.data/scripts/leat"
    wheel = f"Wheel-Version: 1.0\nGenerator: leat_build\nRoot-Is-Purelib: false\nTag: {kind}\n"
    files = dict(package)
    files[script] = binary
    files[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    files[f"{info}/WHEEL"] = wheel.encode()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    record = ""
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=")
        record += f"{name},sha256={digest.decode()},{len(files[name])}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    # 1980 is the first year that zip files know.
    changed = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]
    name = f"leat-{version}-{kind}.whl"
    unfinished = Path(directory) / f".{name}.leat-new"
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files, key=lambda path: (path.startswith(info), path)):
            entry = zipfile.ZipInfo(path, changed)
            entry.create_system = 3  # modes are those of Unix
            entry.external_attr = (0o100755 if path == script else 0o100644) << 16
            archive.writestr(entry, files[path], zipfile.ZIP_DEFLATED)
    unfinished.replace(Path(directory) / name)
    return name


def build_wheel(wheel_directory: str, config_settings: Optional[dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    """Build the wheel (PEP 517)."""
    files = {}
    for path in (PYTHON / "leat").rglob("*"):
        if path.suffix == ".py" or path.name in ("py.typed", "VERSION"):
            files[path.relative_to(PYTHON).as_posix()] = path.read_bytes()
    return write_wheel(wheel_directory, files)


def build_editable(wheel_directory: str, config_settings: Optional[dict[str, Any]] = None,
                   metadata_directory: Optional[str] = None) -> str:
    """Build a wheel that refers to this directory (PEP 660)."""
    return write_wheel(wheel_directory, {"leat.pth": f"{PYTHON}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: Optional[dict[str, Any]] = None) -> str:
    """Fail: the program is built from the whole repository."""
    raise NotImplementedError("leat has no source distribution: install from its repository")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: leat_build.py DIR")
    os.makedirs(sys.argv[1], exist_ok=True)
    print(build_wheel(sys.argv[1]))
