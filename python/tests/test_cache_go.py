"""Tests of leat.Cache together with the leat command, both ways."""

from __future__ import annotations

import json
from pathlib import Path

import leat

from .support import TestCase, leat as run, needs


class Command(TestCase):
    def test_entries_both_ways(self) -> None:
        path = self.path("c")
        run("cache", "create", path, "1000", "--max-bytes", "10M")
        with leat.Cache(1000, path) as c:
            self.assertEqual((c.max_bytes, c.get(1)), (10 << 20, None))
            self.assertTrue(c.put(1, b"one"))
            self.assertTrue(c.put(999, b""))
            run("cache", "put", path, "2", input=b"two")
            self.assertEqual((c.get(2), c.put(2, b"other")), (b"two", False))
            run("cache", "put", path, "1", input=b"other", code=1)
            self.assertEqual(run("cache", "get", path, "1"), b"one")
            self.assertEqual(run("cache", "get", path, "999"), b"")
            run("cache", "get", path, "3", code=1)
            listed = run("cache", "ls", path).decode()
            self.assertEqual([line.split()[0] for line in listed.splitlines()
                              if line.split()[0].isdigit()], ["1", "2", "999"])
            stats = json.loads(run("cache", "stat", "--json", path))
            self.assertEqual((stats["slots"], stats["counters"]["stored_puts"]), (1000, 3))
            self.assertEqual(c.stats().stored, 3)
        run("cache", "check", path)

    def test_preserved_files_both_ways(self) -> None:
        for k, preserve in enumerate((lambda c, p: c.preserve(p),
                                      lambda c, p: run("cache", "preserve", c.path, p))):
            path, final = self.path(f"c{k}"), self.path(f"p{k}")
            with leat.Cache(1000, path) as c:
                for i in range(0, 1000, 7):
                    c.put(i, b"%d" % i)
                preserve(c, final)
                self.assertTrue(c.stats().preserved)
                self.assertFalse(c.put(1, b"late"))
            run("cache", "check", final)
            with leat.Cache.load(final) as p:
                self.assertEqual(p.get(14), b"14")
            run("cache", "put", final, "1", input=b"late", code=1)
            pfio = self.path(f"pfio{k}")
            run("cache", "export", final, pfio)
            from leat.pfio import MultiprocessFileCache
            with MultiprocessFileCache(1000, dir=self.dir) as m:
                self.assertTrue(m.preload(f"pfio{k}"))
                self.assertEqual((m.get(14), m.get(15)), (b"14", None))

    def test_import_of_preserved_pfio_files(self) -> None:
        from leat.pfio import MultiprocessFileCache
        with MultiprocessFileCache(50, dir=self.dir) as m:
            for i in (3, 49, 0):
                m.put(i, b"%d" % i)
            m.preserve("m")
        run("cache", "import", self.path("m"), "50", self.path("c"))
        with leat.Cache.load(self.path("c")) as c:
            self.assertEqual([c.get(i) for i in (0, 3, 49, 4)], [b"0", b"3", b"49", None])

    def test_damage_is_found(self) -> None:
        path = self.path("c")
        with leat.Cache(10, path) as c:
            c.put(0, b"data")
        with open(path, "r+b") as f:
            f.seek(4096 + 128 + 64)
            f.write(b"X")
        run("cache", "check", path, code=1)
        with leat.Cache(10, path) as c:
            self.assertIsNone(c.get(0))
            self.assertTrue(c.put(0, b"data"))
        run("cache", "check", path)

    def test_version_1_is_upgraded(self) -> None:
        path = self.path("c")
        old = Path(__file__).parents[2] / "cache" / "testdata" / "good_v1.cache"
        self.assertEqual(old.read_bytes()[8], 1)
        Path(path).write_bytes(old.read_bytes())
        Path(path).chmod(0o600)
        with self.assertRaisesRegex(leat.Damaged, "version 1"):
            leat.Cache.load(path)
        run("cache", "upgrade", path, self.path("new"))
        with leat.Cache.load(self.path("new")) as c:
            self.assertTrue(c.stats().preserved)
            self.assertTrue(any(i in c for i in range(len(c))))

    @needs("numpy")
    def test_arrays_are_npy_files(self) -> None:
        import numpy
        path = self.path("c")
        a = numpy.arange(12, dtype="f4").reshape(3, 4)
        numpy.save(self.path("a.npy"), a)
        with leat.Cache(10, path) as c:
            run("cache", "put", path, "0", self.path("a.npy"))
            numpy.testing.assert_array_equal(c.get_array(0), a)
            c.put_array(1, a.T)
            Path(self.path("b.npy")).write_bytes(run("cache", "get", path, "1"))
            numpy.testing.assert_array_equal(numpy.load(self.path("b.npy")), a.T)
