"""Progress of a run: by tqdm where it is installed, in notebooks too, else as text."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from typing import Any, Callable, Optional, Union

_LINE_SECONDS = 5.0
"""Seconds between lines where standard error is not a terminal."""


class Progress:
    """Progress shows how many blocks are done. It is made for one run."""

    def __init__(self, how: Union[bool, Callable[[int, int], None]]) -> None:
        self._how = how
        self._bar: Any = None
        self._shown = False
        self._last = time.monotonic()
        self._tqdm: Any = None
        if how is True:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # without ipywidgets, the bar is text
                    self._tqdm = importlib.import_module("tqdm.auto").tqdm
            except ImportError:
                pass

    def update(self, done: int, total: int, remaining: Optional[float]) -> None:
        """Show that done of total blocks are done; remaining is an estimate in seconds."""
        if not self._how:
            return
        if callable(self._how):
            self._how(done, total)
        elif self._tqdm is not None:
            if self._bar is None:
                self._bar = self._tqdm(total=total, unit="block", initial=0)
            self._bar.update(done - self._bar.n)
        else:
            self._text(done, total, remaining)

    def _text(self, done: int, total: int, remaining: Optional[float]) -> None:
        line = f"{done} of {total} blocks"
        if total:
            line += f" ({100 * done // total} %)"
        if remaining is not None and done < total:
            line += f", about {remaining:.0f} s left"
        now = time.monotonic()
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{line}\x1b[K")
            sys.stderr.flush()
            self._shown = True
        elif now - self._last >= _LINE_SECONDS or done == total:
            self._last = now
            print(line, file=sys.stderr)

    def close(self) -> None:
        """End the display."""
        if self._bar is not None:
            self._bar.close()
        elif self._shown:
            print(file=sys.stderr)
