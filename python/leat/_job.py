"""The job of leat.apply: its arguments as the fields of docs/format/apply-job.md."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Mapping
from typing import Any, Union

from .errors import JobError

Path = Union[str, "os.PathLike[str]"]

_OTHERS = {
    "input": "inputs", "output": "outputs", "expression": "function", "python": "function",
    "python_params": "params", "quiet": "progress",
}
"""Options of the command that are arguments of apply by other names."""

_IN_RESULT = ("verbose", "json")
"""Options of the command about what it prints, which the result of apply has."""

_OUTPUT_KEYS = {
    "compress": "COMPRESS", "predictor": "PREDICTOR", "zlevel": "LEVEL", "zstd_level": "LEVEL",
    "level": "LEVEL", "interleave": "INTERLEAVE", "bigtiff": "BIGTIFF",
}
"""Keys of rasterio's profiles that are creation options, by their names in lower case."""

_KEY_OPTIONS = {"dtype": "type", "nodata": "nodata", "count": "count", "driver": "format"}
"""Keys of rasterio's profiles that are options, by their names in lower case."""

_GRID_KEYS = ("width", "height", "crs", "transform")

_IGNORED_KEYS = ("num_threads",)

_PROFILE_KEYS = sorted({"driver", "dtype", "nodata", "count", "tiled", "blockxsize", "blockysize",
                        *_OUTPUT_KEYS, *_GRID_KEYS, *_IGNORED_KEYS})


def path_text(value: Any, what: str) -> str:
    """Return the text of a path or a URL."""
    try:
        path = os.fspath(value)
    except TypeError:
        raise TypeError(f"{what}: got {type(value).__name__}, expected a path or a URL") from None
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not path:
        raise ValueError(f"{what}: the path is empty")
    return str(path)


def _utf8(text: str, what: str) -> str:
    """Return text for a job, which must be UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:  # a path that os.fsdecode could not decode
        raise ValueError(f"{what}: {text!r} is not UTF-8: use another name") from None
    return text


def _job_path(value: Any, what: str) -> str:
    """Return the text of a path or a URL for a job."""
    return _utf8(path_text(value, what), what)


def plain(value: Any, what: str) -> Any:
    """Return a value of an option as JSON has it."""
    if isinstance(value, str):
        return _utf8(value, what)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        return {_utf8(str(name), what): plain(one, f"{what}[{name!r}]")
                for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(one, what) for one in value]
    if isinstance(value, os.PathLike):
        return _job_path(value, what)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # a scalar of NumPy
        value = value.item()
    elif hasattr(value, "to_wkt"):  # a CRS of rasterio or pyproj
        return _code(value) or value.to_wkt()
    elif hasattr(value, "tolist"):
        return plain(value.tolist(), what)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    raise TypeError(f"{what}: got {type(value).__name__}, expected a number, a str, a path, "
                    "or a list or dict of these")


def inputs_field(inputs: Any) -> dict[str, Any]:
    """Return the field of inputs: a path, or a list of paths, by name."""
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs: got {type(inputs).__name__}, expected a dict of paths by name, "
                        "such as inputs=dict(red='B4.tif')")
    field: dict[str, Any] = {}
    for name, value in inputs.items():
        what = f"inputs[{name!r}]"
        if isinstance(value, (list, tuple)):
            if not value:
                raise JobError(f"{what}: the list is empty, expected at least one path")
            field[_utf8(str(name), what)] = [_job_path(one, what) for one in value]
        else:
            field[_utf8(str(name), what)] = _job_path(value, what)
    return field


class Outputs:
    """Outputs is the outputs of a job: paths, and options that profiles set."""

    def __init__(self, outputs: Any, profile: Any) -> None:
        if isinstance(outputs, (str, os.PathLike)):
            outputs = {"out": outputs}
        if not isinstance(outputs, Mapping):
            raise TypeError(f"outputs: got {type(outputs).__name__}, expected a dict of paths by "
                            "name, such as outputs=dict(out='ndvi.tif')")
        self.paths: dict[str, str] = {}
        self.options: dict[str, dict[str, Any]] = {}
        """By option and output."""
        self.own: dict[str, str] = {}
        """Options that dicts of single outputs set, each with the name of such an output."""
        self.grids: dict[str, dict[str, Any]] = {}
        """The keys of each profile that describe the grid."""
        if profile is not None and not isinstance(profile, Mapping):
            raise TypeError(f"profile: got {type(profile).__name__}, expected a dict with the keys "
                            "of rasterio")
        for name, value in outputs.items():
            name = str(name)
            own: dict[str, Any] = dict(profile or {})
            if isinstance(value, Mapping):
                own.update(value)
                if "path" not in own:
                    raise JobError(f"outputs[{name!r}]: the profile has no 'path'")
                for key in value:
                    if str(key).lower() in _KEY_OPTIONS:
                        self.own[_KEY_OPTIONS[str(key).lower()]] = name
                value = own.pop("path")
            self.paths[_utf8(name, "outputs")] = _job_path(value, f"outputs[{name!r}]")
            if own:
                self._add(name, own)

    def _set(self, option: str, name: str, value: Any) -> None:
        self.options.setdefault(option, {})[name] = value

    def _add(self, name: str, profile: dict[str, Any]) -> None:
        what = f"profile of output {name!r}"
        creation: dict[str, Any] = {}
        keys = {str(key).lower(): value for key, value in profile.items()}
        driver = str(keys.pop("driver", None) or "GTiff")
        if driver != "GTiff":
            self._set("format", name, driver)
        tiled = keys.pop("tiled", None)
        sides = [keys.pop("blockxsize", None), keys.pop("blockysize", None)]
        if tiled is not False and driver == "GTiff":
            sides = [int(side) for side in sides if side is not None]
            if len(set(sides)) > 1:
                raise JobError(f"{what}: blockxsize {sides[0]} and blockysize {sides[1]}: "
                               "leat's tiles are square")
            if sides:
                creation["BLOCKSIZE"] = sides[0]
        grid: dict[str, Any] = {}
        for key, value in keys.items():
            if key == "dtype":
                self._set("type", name, _type_name(value))
            elif key == "nodata":
                self._set("nodata", name, "none" if value is None else plain(value, what))
            elif key == "count":
                self._set("count", name, plain(value, what))
            elif key in _GRID_KEYS:
                grid[key] = value
            elif key in _OUTPUT_KEYS:
                if driver != "GTiff" and (value is None or key == "interleave"
                                          and str(value).lower() in ("band", "pixel")):
                    continue  # what the profile of a GeoTIFF says of that file
                if value is None and key != "compress":
                    continue
                creation[_OUTPUT_KEYS[key]] = _creation(key, value, what)
            elif key not in _IGNORED_KEYS:
                raise JobError(f"{what}: unknown key {key!r}{meant(key, _PROFILE_KEYS)}; "
                               f"known ones are {', '.join(_PROFILE_KEYS)}")
        if grid:
            self.grids[name] = grid
        if creation:
            self._set("co", name, creation)

    def check_grids(self, plan: dict[str, Any]) -> None:
        """Raise JobError if a profile describes another grid than that of the plan."""
        grid = plan["grid"]
        for name, want in self.grids.items():
            for key in ("width", "height"):
                if key in want and want[key] is not None and int(want[key]) != grid[key]:
                    raise JobError(
                        f"profile of output {name!r}: {key} is {want[key]}, and the job's grid has "
                        f"{grid[key]}: the grid follows from the inputs and from options such as "
                        "reference, bbox and srcwin; a profile can leave it out")
            transform = want.get("transform")
            if transform is not None and grid["transform"] is not None:
                a, b, c, d, e, f = [float(v) for v in tuple(transform)[:6]]
                given, real = [c, a, b, f, d, e], grid["transform"]
                size = max(abs(v) for v in (real[1], real[2], real[4], real[5]))
                if any(abs(x - y) > 1e-6 * max(size, abs(y) * 1e-6) for x, y in zip(given, real)):
                    raise JobError(
                        f"profile of output {name!r}: transform is {given} in GDAL's order, and "
                        f"that of the job's grid is {real}; a profile can leave it out")
            crs, code = want.get("crs"), (grid["crs"] or {}).get("code")
            if crs is not None and code and _code(crs) not in (None, code):
                raise JobError(f"profile of output {name!r}: crs is {_code(crs)}, and that of the "
                               f"job's grid is {code}; a profile can leave it out")


def _code(crs: Any) -> Any:
    """Return the code of a CRS such as EPSG:32631, or None if it is not known."""
    if isinstance(crs, Mapping):
        crs = crs.get("init")
    if hasattr(crs, "to_epsg"):
        number = crs.to_epsg()
        return f"EPSG:{number}" if number else None
    text = str(crs or "").upper()
    return text if text.startswith("EPSG:") else None


def _creation(key: str, value: Any, what: str) -> Any:
    if key == "compress":
        return "NONE" if value is None else str(value).upper()
    if key == "bigtiff" and isinstance(value, bool):
        return "YES" if value else "IF_NEEDED"
    return value.upper() if isinstance(value, str) else plain(value, what)


def _type_name(value: Any) -> str:
    """Return the name of a type, which is given as a str, a type or a NumPy dtype."""
    if isinstance(value, str):
        return value
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return str(name or value)


def option_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of options given as keyword arguments."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if name in _OTHERS:
            raise TypeError(f"apply() has no argument {name!r}: it is {_OTHERS[name]!r} here")
        if name in _IN_RESULT:
            raise TypeError(f"apply() has no argument {name!r}: its result has what the command "
                            "prints")
        if name == "type" and value is not None:
            value = ({k: _type_name(v) for k, v in value.items()} if isinstance(value, Mapping)
                     else _type_name(value))
        if value is not None:
            fields[name.replace("_", "-")] = plain(value, name)
    return fields


def merge_options(fields: dict[str, Any], more: dict[str, dict[str, Any]],
                  own: dict[str, str]) -> None:
    """Add options of single outputs to fields; what fields say about an output takes precedence.

    JobError is raised if fields set for all outputs what the dict of one output sets too.
    """
    for option, values in more.items():
        given = fields.get(option)
        if given is None:
            fields[option] = values
        elif isinstance(given, dict) and option != "co":
            fields[option] = {**values, **given}
        elif option == "co":
            raise JobError("co and a profile both have creation options: give one of them")
        elif option in own:
            raise JobError(f"{option} is given for all outputs, and in outputs[{own[option]!r}]: "
                           "give one of them")
        # Else it holds for all outputs.


def meant(word: str, known: list[str]) -> str:
    """Return a suggestion, or nothing."""
    import difflib
    close = difflib.get_close_matches(word, known, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
