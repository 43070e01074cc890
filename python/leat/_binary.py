"""Finds the leat program, and checks that it has the package's version."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from .errors import NoBinary, VersionMismatch

PACKAGE = Path(__file__).resolve().parent


@functools.lru_cache(maxsize=None)
def version() -> str:
    """Return the version of the package, as "leat version --json" prints it: 0.1.0-dev."""
    return (PACKAGE / "VERSION").read_text().strip()


def candidates() -> list[Path]:
    """Return where the program may be: where pip puts scripts, and bin/leat of the repository."""
    name = "leat"
    user = "posix_user"  # pip install --user
    if sys.version_info >= (3, 10):
        user = sysconfig.get_preferred_scheme("user")
    places = [Path(sysconfig.get_path("scripts")) / name]
    places.append(Path(sys.executable).parent / name)
    places.append(Path(sysconfig.get_path("scripts", user)) / name)
    places.append(PACKAGE.parent / "bin" / name)  # pip install --target
    if (PACKAGE.parent / "pyproject.toml").is_file():
        places.insert(0, PACKAGE.parent.parent / "bin" / name)
    return list(dict.fromkeys(places))


def find() -> str:
    """Return the path of the program: $LEAT_BINARY, one of candidates(), or leat on $PATH."""
    given = os.environ.get("LEAT_BINARY")
    if given:
        if not os.access(given, os.X_OK) or os.path.isdir(given):
            raise NoBinary(f"leat program {given} (LEAT_BINARY): no such program")
        return given
    places = candidates()
    for path in places:
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("leat")
    if found:
        return found
    listed = ", ".join(str(path) for path in places)
    raise NoBinary(f"leat program: none at LEAT_BINARY (not set), {listed}, nor on PATH")


@functools.lru_cache(maxsize=None)
def check(path: str, changed: int) -> None:
    """Raise VersionMismatch unless the program, last changed at a time, has our version."""
    try:
        result = subprocess.run([path, "version", "--json"], check=True, capture_output=True)
        found = str(json.loads(result.stdout)["version"])
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError) as e:
        raise NoBinary(f"leat program {path}: its version is unknown: {e}") from e
    if found != version():
        raise VersionMismatch(f"leat program {path}: version {found}, expected {version()}",
                              path=path, found=found, expected=version())


def binary() -> str:
    """Return the path of a leat program of the package's version.

    The error is NoBinary, which says where it looked, or VersionMismatch. The version is checked
    once in each process: that takes a few hundredths of a second.
    """
    path = find()
    check(path, os.stat(path).st_mtime_ns)
    return path
