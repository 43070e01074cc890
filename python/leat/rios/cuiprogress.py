"""Progress objects for ApplierControls.setProgress, under RIOS's names."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["CUIProgressBar", "GDALProgressBar", "LogProgressBar", "SilentProgress"]


class SilentProgress:
    """A progress object that shows nothing.

    Other progress objects need setTotalSteps, setProgress and reset. apply calls them with 100 and
    percentages, and ends the run with ProcessCancelledError if wasCancelled returns true.
    """

    def __init__(self) -> None:
        self.totalsteps = 100

    def setTotalSteps(self, steps: int) -> None:
        """Set the progress at which the run is done."""
        self.totalsteps = steps

    def setProgress(self, progress: int) -> None:
        """Show the progress, from 0 to the total."""

    def reset(self) -> None:
        """End the line that shows the progress."""

    def setLabelText(self, text: str) -> None:
        """Show what is being done."""

    def wasCancelled(self) -> bool:
        """Return whether the run is to end."""
        return False

    def displayException(self, trace: str) -> None:
        """Show a traceback."""

    def displayWarning(self, text: str) -> None:
        """Show a warning."""

    def displayError(self, text: str) -> None:
        """Show an error."""

    def displayInfo(self, text: str) -> None:
        """Show information."""


class _Text(SilentProgress):
    """A progress object that prints."""

    def percent(self, progress: float) -> int:
        return int(100.0 * progress / max(1, self.totalsteps))

    def reset(self) -> None:
        sys.stdout.write("\n")
        sys.stdout.flush()

    def setLabelText(self, text: str) -> None:
        sys.stdout.write(f"\n{text}\n")

    def displayException(self, trace: str) -> None:
        sys.stdout.write(trace)

    def displayWarning(self, text: str) -> None:
        sys.stdout.write(f"Warning: {text}\n")

    def displayError(self, text: str) -> None:
        sys.stdout.write(f"Error: {text}\n")

    def displayInfo(self, text: str) -> None:
        sys.stdout.write(f"Info: {text}\n")


class CUIProgressBar(_Text):
    """A progress object that prints the percentage in one line of a terminal."""

    def setProgress(self, progress: int) -> None:
        """Show the progress, from 0 to the total."""
        if sys.stdout.isatty():
            sys.stdout.write(f"\r{self.percent(progress)}%")
            sys.stdout.flush()


class LogProgressBar(_Text):
    """A progress object that prints each percentage once, in a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.last_percent = -1

    def setProgress(self, progress: int) -> None:
        """Show the progress, from 0 to the total."""
        percent = self.percent(progress)
        if percent != self.last_percent:
            self.last_percent = percent
            sys.stdout.write(f"{percent}%\n")
            sys.stdout.flush()


class GDALProgressBar(_Text):
    """A progress object that prints as GDAL's programs do."""

    def setProgress(self, progress: int) -> None:
        """Show the progress, from 0 to the total."""
        import importlib
        gdal: Any = importlib.import_module("osgeo.gdal")
        gdal.TermProgress_nocb(progress / max(1, self.totalsteps))
