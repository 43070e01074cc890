"""What leat.apply returns, and what leat.open does."""

from __future__ import annotations

import html
import struct
from typing import Any, Iterator, Optional, Union

from . import _run


class Result:
    """Result is what a run of leat.apply made.

    Its text is a line for each output, and in a notebook also a quicklook of the first output and
    the timings of the run's stages.

    >>> import leat, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     scene = leat.demo(directory, size=64)
    ...     result = leat.apply("nir > red", scene, directory + "/vegetation.tif")
    >>> result.paths["out"].endswith("vegetation.tif"), result.blocks, result.grid["width"]
    (True, 1, 64)
    >>> result.statistics["out"][0]["max"]
    1
    """

    paths: dict[str, str]
    """Path or URL of each output, by name."""
    outputs: dict[str, dict[str, Any]]
    """What leat apply --json reports about each output when it is done, by name:
    docs/format/json.md."""
    statistics: dict[str, list[Optional[dict[str, Any]]]]
    """Statistics of the bands of each output: min, max, mean, std_dev and valid_percent; None for
    a band without statistics."""
    seconds: float
    """Duration of the run in seconds."""
    blocks: int
    """Number of blocks of the grid."""
    resumed: int
    """Number of blocks from an earlier run."""
    timings: dict[str, dict[str, Any]]
    """Timings of the stages that blocks pass, by stage: count, total_seconds, median_seconds and
    others."""
    values: list[Any]
    """Values that blocks emitted, in the order of blocks; empty if there is a merge function."""
    merged: Any
    """Result of the merge function; None without one, and if no block emitted a value."""
    worker_values: list[Any]
    """What close returned for the instances of a function that is a class, in the order of
    workers; without those that returned None."""
    warnings: list[str]
    """Warnings, which were also issued as Python warnings."""
    notes: list[str]
    """Notes on the run."""
    grid: dict[str, Any]
    """Grid of the outputs: width, height, crs, transform (in GDAL's order), bounds."""
    workers: int
    """Number of workers."""

    def __init__(self, started: dict[str, Any], done: dict[str, Any], values: list[Any],
                 merged: Any, worker_values: list[Any], warnings: list[str]) -> None:
        self.outputs = {one["name"]: one for one in done["outputs"]}
        self.paths = {name: one["path"] for name, one in self.outputs.items()}
        self.statistics = {name: [band["statistics"] for band in one["bands"]]
                           for name, one in self.outputs.items()}
        self.seconds = done["elapsed_seconds"]
        self.blocks, self.resumed = done["blocks"], done["resumed_blocks"]
        self.timings = {one["stage"]: one for one in done["timings"]["stages"]}
        self.values, self.merged, self.worker_values = values, merged, worker_values
        self.warnings, self.notes = warnings, done["notes"]
        self.grid, self.workers = started["grid"], started["workers"]

    def __repr__(self) -> str:
        return "\n".join([*(_output_line(one, self.grid) for one in self.outputs.values()),
                          self._summary()])

    def _summary(self) -> str:
        text = f"done in {self.seconds:.2f} s ({self.blocks} block{'s' * (self.blocks != 1)}"
        if self.resumed:
            text += f", {self.resumed} from an earlier run"
        if self.values:
            text += f", {len(self.values)} value{'s' * (len(self.values) != 1)} emitted"
        if self.worker_values:
            text += f", values of {len(self.worker_values)} workers"
        return text + ")"

    def _repr_html_(self) -> str:
        pictures = "".join(
            f'<figure style="margin:0 1.5em 0.5em 0;max-width:min(100%,{_SIDE}px)">'
            f"{_picture(one['path'])}"
            f'<figcaption style="{_WRAPPED}"><b>{html.escape(name)}</b> '
            f"{html.escape(one['path'])}</figcaption>"
            "</figure>" for name, one in list(self.outputs.items())[:_PICTURES])
        bands = "".join(_html_row(name if number == 1 else "", number, band, one)
                        for name, one in self.outputs.items()
                        for number, band in enumerate(one["bands"], 1))
        if bands:
            bands = ("<table><tr><th>output</th><th>band</th><th>type</th><th>nodata</th>"
                     "<th>min</th><th>max</th><th>mean</th><th>valid</th></tr>" + bands
                     + "</table>")
        longest = max((one["total_seconds"] for one in self.timings.values()), default=0) or 1
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{one['count']}</td>"
            f"<td>{one['total_seconds']:.3f}</td><td>{one['median_seconds'] * 1000:.2f}</td>"
            '<td style="text-align:left"><div style="background:#4c78a8;height:0.8em;width:'
            f'{100 * one["total_seconds"] / longest:.0f}px"></div></td></tr>'
            for name, one in sorted(self.timings.items(), key=_total, reverse=True))
        grid = self.grid
        summary = f"{grid['width']} x {grid['height']} pixels; {self._summary()}"
        return (f'<div style="display:flex;flex-wrap:wrap">{pictures}'
                '<div style="max-width:100%;overflow-x:auto">'
                f"<p>{html.escape(summary)}</p>{bands}"
                "<details><summary>timings</summary><table><tr><th>stage</th><th>count</th>"
                f"<th>total, s</th><th>median, ms</th><th></th></tr>{rows}</table></details></div>"
                "</div>")

    def plot(self, name: Optional[str] = None, ax: Any = None) -> Any:
        """Draw the quicklook of an output by Matplotlib, in map coordinates, and return the axes.

        name is that of the output, by default the first. ax are axes to draw in; without them a
        figure is made.

        >>> def show(result, file):
        ...     result.plot("ndvi").figure.savefig(file)
        """
        if not self.paths:
            raise ValueError("plot: the run has no outputs")
        if name is None:
            name = next(iter(self.paths))
        if name not in self.paths:
            raise KeyError(f"there is no output {name!r}; there is {', '.join(self.paths)}")
        return _plot(self.paths[name], name, self.grid, ax)


class Raster:
    """Raster describes a raster file: what leat info --json prints, with the words of rasterio.

    >>> import leat, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     red = leat.open(leat.demo(directory, size=64)["red"])
    >>> red.shape, red.profile["dtype"], red.crs
    ((1, 64, 64), 'uint16', 'EPSG:32631')
    """

    json: dict[str, Any]
    """All that leat info --json prints: docs/format/json.md."""

    def __init__(self, json: dict[str, Any]) -> None:
        self.json = json

    @property
    def path(self) -> str:
        """Path or URL."""
        return str(self.json["path"])

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.json["grid"]["width"])

    @property
    def height(self) -> int:
        """Number of rows."""
        return int(self.json["grid"]["height"])

    @property
    def count(self) -> int:
        """Number of bands."""
        return len(self.json["bands"])

    @property
    def shape(self) -> tuple[int, int, int]:
        """(bands, rows, columns), as the arrays of blocks have them."""
        return self.count, self.height, self.width

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Type of each band, such as uint16."""
        return tuple(band["type"] for band in self.json["bands"])

    @property
    def nodata(self) -> Union[int, float, None]:
        """Nodata value of the first band; None if it has none."""
        value: Union[int, float, str, None] = self.json["bands"][0]["nodata"]
        return float(value) if isinstance(value, str) else value

    @property
    def crs(self) -> Optional[str]:
        """CRS as a code such as EPSG:32631, else as WKT; None if the file has none."""
        crs = self.json["grid"]["crs"]
        return (crs.get("code") or crs.get("wkt")) if crs else None

    @property
    def transform(self) -> Optional[tuple[float, ...]]:
        """Six numbers a, b, c, d, e, f as affine.Affine takes them; None without georeference.

        x = a * column + b * row + c, and y = d * column + e * row + f.
        """
        t = self.json["grid"]["transform"]
        return (t[1], t[2], t[0], t[4], t[5], t[3]) if t else None

    @property
    def bounds(self) -> Optional[tuple[float, ...]]:
        """Smallest x and y, largest x and y: the edges; None without georeference."""
        bounds = self.json["grid"]["bounds"]
        return tuple(float(v) for v in bounds) if bounds else None

    @property
    def profile(self) -> dict[str, Any]:
        """Profile with the keys of rasterio, which leat.apply takes for outputs."""
        layout = self.json["layout"]
        return {"driver": self.json["format"], "dtype": self.dtypes[0], "nodata": self.nodata,
                "width": self.width, "height": self.height, "count": self.count, "crs": self.crs,
                "transform": self.transform, "tiled": layout["tiled"],
                "interleave": layout["interleave"], "blockxsize": layout["tile_width"],
                "blockysize": layout["tile_height"]}

    def __getitem__(self, name: str) -> Any:
        return self.json[name]

    def keys(self) -> Iterator[str]:
        """Return the names of the fields of json.

        >>> import leat, tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     red = leat.open(leat.demo(directory, size=64)["red"])
        >>> "grid" in red.keys(), red["grid"]["width"]
        (True, 64)
        """
        return iter(self.json)

    def __repr__(self) -> str:
        size = self.json["grid"]
        kinds = ", ".join(dict.fromkeys(self.dtypes))
        return (f"<Raster {self.path}: {size['width']} x {size['height']} pixels, {self.count} "
                f"band{'s' * (self.count != 1)} of {kinds}, {self.crs or 'no CRS'}>")

    def _repr_html_(self) -> str:
        return _picture(self.path) + (f'<pre style="white-space:pre-wrap;{_WRAPPED}">'
                                      f"{html.escape(repr(self))}</pre>")

    def plot(self, ax: Any = None) -> Any:
        """Draw the quicklook by Matplotlib, in map coordinates, and return the axes.

        >>> def show(path, file):
        ...     leat.open(path).plot().figure.savefig(file)
        """
        return _plot(self.path, self.path, self.json["grid"], ax)


_SIDE = 400
"""Longest side of a quicklook in a notebook, in pixels: notebooks store the pictures."""

_PICTURES = 4
"""How many outputs have quicklooks in a notebook."""

_WRAPPED = "overflow-wrap:anywhere"
"""Style of text that may have a long path."""

_CHECKS = "background:repeating-conic-gradient(#bbb 0 25%,#ddd 0 50%) 0 0/16px 16px"
"""Style of a quicklook: a pattern, in light and dark notebooks, where pixels are invalid."""


def _html_row(name: str, number: int, band: dict[str, Any], output: dict[str, Any]) -> str:
    statistics = band["statistics"] or {}
    values = [statistics.get(key) for key in ("min", "max", "mean")]
    valid = statistics.get("valid_percent")
    cells = [name, str(number), band["type"],
             "" if band["nodata"] is None else str(band["nodata"]),
             *("" if v is None else _number(v) for v in values),
             "" if valid is None else f"{valid:.4g} %"]
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _total(stage: tuple[str, dict[str, Any]]) -> float:
    return float(stage[1]["total_seconds"])


def _output_line(output: dict[str, Any], grid: dict[str, Any]) -> str:
    bands = output["bands"]
    if not bands:
        return f"{output['path']}: {output['format']}, {_size(output['bytes'])}"
    text = f"{output['path']}: {grid['width']} x {grid['height']} pixels"
    if len(bands) > 1:
        text += f", {len(bands)} bands"
    text += f" of {bands[0]['type']}, {_size(output['bytes'])}"
    if bands[0]["nodata"] is not None:
        text += f", nodata {bands[0]['nodata']}"
    statistics = bands[0]["statistics"]
    if statistics:
        text += (f", {_number(statistics['min'])} to {_number(statistics['max'])}, "
                 f"mean {_number(statistics['mean'])}")
    return text


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _size(count: int) -> str:
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def _picture(path: str) -> str:
    """Return a quicklook as HTML; what can't be shown is left out with a reason."""
    import base64
    try:
        png = _run.quicklook(path, _SIDE)
    except Exception as e:
        return f'<p style="{_WRAPPED}">no quicklook: {html.escape(str(e))}</p>'
    width, height = struct.unpack(">II", png[16:24])
    larger = max(1, _SIDE // 2 // max(width, height))
    pixels = ";image-rendering:pixelated" if larger > 1 else ""
    return (f'<img alt="{html.escape(path)}" width="{larger * width}" '
            f'style="max-width:100%;height:auto;{_CHECKS}{pixels}" '
            f'src="data:image/png;base64,{base64.b64encode(png).decode()}">')


def _plot(path: str, title: str, grid: dict[str, Any], ax: Any) -> Any:
    import importlib
    import io
    plt: Any = importlib.import_module("matplotlib.pyplot")
    image = plt.imread(io.BytesIO(_run.quicklook(path)), format="png")
    if ax is None:
        _, ax = plt.subplots()
    extent = None
    if grid["bounds"] and grid["transform"][2] == 0 and grid["transform"][5] < 0:
        west, south, east, north = grid["bounds"]
        extent = (west, east, south, north)
    ax.imshow(image, extent=extent, interpolation="nearest")
    ax.set_title(title)
    return ax
