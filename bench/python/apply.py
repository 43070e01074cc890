"""Compares a NumPy function in leat.apply with an expression, and measures what a small block costs.

    LEAT_BINARY=bin/leat PYTHONPATH=python python3 bench/python/apply.py [--size N] [--runs N]

Prints Markdown. Times are medians of the wall clock of whole calls, in brackets the lowest and highest.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from typing import Any, Callable

import leat
from functions import ndvi, nothing

EXPRESSION = "(float32(nir) - float32(red)) / (float32(nir) + float32(red))"


def processor() -> float:
    """Return the processor time of this process and of its children that have ended, in seconds."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


def by_function(scene: dict[str, str], out: str, workers: Any) -> None:
    leat.apply(ndvi, scene, out, nodata="nan", workers=workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=5490)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        scene = leat.demo(os.path.join(directory, "scene"), size=options.size)
        out = os.path.join(directory, "out.tif")
        variants: dict[str, Callable[[], Any]] = {
            "expression": lambda: leat.apply(EXPRESSION, scene, out, nodata="nan"),
            "function, 2 processes": lambda: by_function(scene, out, 2),
            "function, calling thread": lambda: by_function(scene, out, 0),
            "function, threads": lambda: by_function(scene, out, "threads"),
        }
        wall: dict[str, list[float]] = {name: [] for name in variants}
        used: dict[str, list[float]] = {name: [] for name in variants}
        for run in range(options.runs + 1):
            for name, call in variants.items():
                before, begin = processor(), time.perf_counter()
                call()
                if run > 0:  # the first one warms up
                    wall[name].append(time.perf_counter() - begin)
                    used[name].append(processor() - before)
                os.unlink(out)
                print(".", end="", file=sys.stderr, flush=True)
        base = statistics.median(wall["expression"])
        print(f"\nNDVI of two bands of uint16, {options.size} x {options.size}, to float32, with "
              "statistics and overviews:\n\n| variant | wall, s | processor, s | ÷ expression |\n"
              "| --- | --- | --- | --- |")
        for name, times in wall.items():
            middle = statistics.median(times)
            print(f"| {name} | {middle:.2f} ({min(times):.2f} to {max(times):.2f}) | "
                  f"{statistics.median(used[name]):.2f} | {middle / base:.2f} |")
        print("\nHow long a worker waits for a block of a function that does nothing:\n\n"
              "| worker | blocks | median, us |\n| --- | --- | --- |")
        for workers in (1, 0):
            result = leat.apply(nothing, dict(red=scene["red"]), workers=workers, window=64,
                                jobs=None if workers else 1)
            middle = result.timings["computing"]["median_seconds"] * 1e6
            kind = "process" if workers else "calling thread"
            print(f"| {kind} | {result.blocks} | {middle:.1f} |")


if __name__ == "__main__":
    main()
