"""Runs one module of tests for python_test.go, to which it writes events as JSON lines:

    python3 -m tests.run tests.test_errors FD

{"event": "start", "test": NAME} and {"event": "end", "test": NAME, "skip": REASON or null,
"failures": [TEXT]} for each test, and {"event": "done"} at the end.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import unittest
from typing import Any, Optional

from .support import LEFT_OUT


class Result(unittest.TestResult):
    """Result writes events."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd = fd
        self.started: Optional[unittest.TestCase] = None
        self.skip: Optional[str] = None
        self.texts: list[str] = []

    def emit(self, **event: Any) -> None:
        os.write(self.fd, json.dumps(event).encode() + b"\n")

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.started, self.skip, self.texts = test, None, []
        self.emit(event="start", test=name(test))

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        if self.started is None:  # Python 3.12.1 does not start tests that are skipped
            return
        self.started = None
        self.emit(event="end", test=name(test), skip=self.skip, failures=self.texts)

    def note(self, test: Any, skip: Optional[str], text: str = "") -> None:
        if self.started is not None:
            self.skip = skip
            self.texts += [text] if text else []
            return
        # A fixture of a class or a module, or a test that was not started.
        what = name(test) if isinstance(test, unittest.TestCase) else str(test)
        self.emit(event="start", test=what)
        self.emit(event="end", test=what, skip=skip, failures=[text] if text else [])

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self.note(test, None, self.errors[-1][1])

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self.note(test, None, self.failures[-1][1])

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            list_ = self.failures if issubclass(err[0], test.failureException) else self.errors
            self.note(test, None, f"{subtest}: {list_[-1][1]}")

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        self.note(test, reason)

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        self.note(test, None, "it passed, and was expected to fail")


def name(test: unittest.TestCase) -> str:
    """Return a test's class and method: Errors.test_pickle."""
    return ".".join(test.id().split(".")[-2:])


def left_out(suite: unittest.TestSuite) -> unittest.TestSuite:
    """Return the tests of a suite that are decorated with slow or longer, or whose class is."""
    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTest(left_out(test))
        elif any(getattr(part, "longer", False) for part in (
                type(test), getattr(test, getattr(test, "_testMethodName"), None))):
            kept.addTest(test)
    return kept


def main() -> None:
    module, fd = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(fd, False)
    faulthandler.enable()
    faulthandler.dump_traceback_later(560, exit=True)
    result = Result(fd)
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    if LEFT_OUT:
        suite = left_out(suite)
    suite.run(result)
    result.emit(event="done")


if __name__ == "__main__":
    main()
