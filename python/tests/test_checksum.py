"""Tests of CRC-32 by libdeflate and by zlib."""

from __future__ import annotations

import os
import unittest
import zlib
from typing import Any
from unittest import mock

from leat import _checksum

from .support import TestCase


class Checksum(TestCase):
    def check(self) -> None:
        for size in (0, 5, 16 << 10, (110 << 10) + 3):
            data = os.urandom(size)
            own = bytearray(data)
            kinds: list[Any] = [data, own, memoryview(data), memoryview(own),
                                memoryview(data)[size // 2:], memoryview(own)[size // 2:]]
            for one in kinds:
                self.assertEqual(_checksum.crc32(one, 77), zlib.crc32(one, 77))
        with self.assertRaises(BufferError):
            _checksum.crc32(memoryview(bytes(1 << 20))[::-1])

    def test_zlib(self) -> None:
        with mock.patch.object(_checksum, "_libdeflate", lambda: None):
            self.check()

    def test_libdeflate(self) -> None:
        if _checksum._libdeflate() is None:
            raise unittest.SkipTest("no libdeflate.so.0 (Debian: apt-get install libdeflate0)")
        with mock.patch.object(zlib, "crc32", side_effect=zlib.crc32) as slow:
            data = os.urandom(1 << 20)
            self.assertEqual(_checksum.crc32(data), _checksum.crc32(memoryview(bytearray(data))))
            slow.assert_not_called()
        self.check()
