"""The applier of RIOS on leat: change the import lines of a RIOS script.

    from leat.rios import applier

docs/python/rios.md lists what differs. The modules need NumPy and GDAL's Python module (osgeo), as
RIOS does.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

__all__ = ["RIOS_VERSION", "install"]

RIOS_VERSION = "2.0.9"
"""The version of RIOS whose interface the modules have."""

_REPLACED = ("rioserrors", "structures", "pixelgrid", "readerinfo", "cuiprogress", "applier")
"""Modules that install puts in place of those of RIOS, each after those that it imports."""


def install() -> None:
    """Put the modules of leat.rios in place of those of the installed RIOS.

    Then "from rios import applier" imports leat's module. The same holds for structures,
    readerinfo, pixelgrid, cuiprogress and rioserrors. Other modules, such as rat and fileinfo, stay
    those of RIOS. Call it before the program imports names from RIOS, such as "from rios.applier
    import apply".
    """
    rios = importlib.import_module("rios")
    before: dict[int, Any] = {}
    for name in _REPLACED:
        ours = importlib.import_module("." + name, __name__)
        theirs = sys.modules.get("rios." + name)
        if theirs is not None and theirs is not ours:
            before[id(theirs)] = ours
        sys.modules["rios." + name] = ours
        setattr(rios, name, ours)
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("rios.") and module_name.split(".")[1] not in _REPLACED:
            for name, value in list(vars(module).items()):
                if id(value) in before:
                    setattr(module, name, before[id(value)])
