"""Blocks as functions see them, and the protocol that serves them."""

from __future__ import annotations

import array
import json
import math
import os
import socket
import struct
import threading
import time
import unittest
from typing import Any, Optional

from leat import _function

from .support import needs

try:
    import numpy as np
except ImportError:  # see needs below
    pass


def file(type: str, nodata: Optional[str] = None, bands: int = 1, **more: Any) -> dict[str, Any]:
    return dict(path="a.tif", type=type, bands=list(range(1, bands + 1)), nodata=[nodata] * bands,
                **more)


PIXELS: Any = None

TYPES = ("uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 "
         "complex128").split()


class Leat:
    """Leat's side of a connection, with one input of 4 x 3 pixels in a grid of two blocks."""

    def __init__(self, function: Any, pixels: Any, nodata: Optional[str] = None,
                 output: Any = ("", 0, None), overlap: int = 0,
                 mask: Any = None, emits: bool = True, private: bool = False,
                 limit: int = 1 << 20, transform: Any = (100, 10, 0, 200, 0, -10),
                 more: Any = ()) -> None:
        ours, theirs = socket.socketpair()
        self.sock = ours
        self.thread = threading.Thread(target=_function.serve, args=(theirs, function), daemon=True)
        self.thread.start()
        self.pixels, self.mask, self.private = np.ascontiguousarray(pixels), mask, private
        self.memory, self.outputs = os.memfd_create("inputs"), os.memfd_create("outputs")
        os.write(self.memory, self.pixels.tobytes().ljust(4096, b"\0") +
                 (b"" if mask is None else mask.tobytes()))
        os.ftruncate(self.memory, 8192)
        self.loaded = self.call(dict(type="load", protocol=2, version="1"))
        f = file(str(pixels.dtype), nodata, len(pixels))
        if mask is not None:
            f.update(mask_planes=1, mask=[0] * len(pixels))
        f.update(more)
        self.ready = self.call(dict(
            type="setup", worker=0, workers=1, slot=0, label="worker 1", params={"a": 1},
            grid=dict(width=8, height=3, transform=transform, crs="EPSG:32631"),
            blocks=dict(count=2, columns=2, rows=1), overlap=overlap,
            inputs=[dict(name="a", list=False, files=[f])],
            outputs=[dict(name="out", type=output[0], bands=output[1], nodata=output[2])],
            emits=emits,
            max_output_bytes=limit), self.outputs)
        self.new = True

    def call(self, message: Any, descriptor: Optional[int] = None) -> Any:
        self.send(message, descriptor)
        return self.answer()

    def send(self, message: Any, descriptor: Optional[int] = None) -> None:
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        ancillary = [] if descriptor is None else [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        self.sock.sendmsg([struct.pack("<I", len(text)) + text], ancillary)

    def answer(self) -> Any:
        data, end = b"", 4
        while len(data) < end:
            more = self.sock.recv(end - len(data))
            if not more:
                raise EOFError
            data += more
            if len(data) == 4:
                end += struct.unpack("<I", data)[0]
        if data[4] != ord("d"):
            return json.loads(data[4:])
        names = ("offset", "type", "bands", "rows", "columns")
        output = dict(zip(names, struct.unpack_from("<q4I", data, 12)))
        output["type"] = TYPES[output["type"]]
        answer = dict(type="done", outputs=[output if output["offset"] >= 0 else None])
        if len(data) > 36:
            answer["values"] = json.loads(data[36:])
        return answer

    def block(self, number: int = 0, window: Any = (0, 0, 4, 3)) -> Any:
        if self.new:
            mapped = self.call(dict(type="memory", number=0, bytes=8192, begin=0,
                                    private=self.private), self.memory)
            if mapped != dict(type="mapped"):
                raise AssertionError(mapped)
        self.new = False
        self.send_block(number, window)
        return self.answer()

    def send_block(self, number: int, window: Any = (0, 0, 4, 3), ahead: int = 0) -> None:
        places = (0, -1 if self.mask is None else 4096)
        self.send(struct.pack("<BB2xI7q", ord("b"), ahead, 0, number, *window, *places))

    def output(self, answer: Any) -> Any:
        if answer["type"] != "done":
            raise AssertionError(answer)
        o = answer["outputs"][0]
        shape = (o["bands"], o["rows"], o["columns"])
        dtype = np.dtype(o["type"])
        data = os.pread(self.outputs, dtype.itemsize * math.prod(shape), o["offset"])
        return np.frombuffer(data, dtype).reshape(shape)

    def close(self) -> None:
        self.sock.close()
        self.thread.join()
        os.close(self.memory)
        os.close(self.outputs)


@needs("numpy")
class BlockTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        global PIXELS
        PIXELS = np.arange(12, dtype="u2").reshape(1, 3, 4)

    def run_block(self, function: Any, pixels: Any = None, **options: Any) -> Any:
        """Return the output of one block."""
        leat = Leat(function, PIXELS if pixels is None else pixels, **options)
        try:
            return leat.output(leat.block())
        finally:
            leat.close()

    def set(self, value: Any, type: str = "", nodata: Optional[str] = None) -> Any:
        """Return the output to which a value was assigned."""
        def function(b: Any) -> None:
            b.out = value
        return self.run_block(function, output=(type, 0, nodata))

    def fails(self, text: str, function: Any, **options: Any) -> None:
        leat = Leat(function, PIXELS, **options)
        try:
            answer = leat.block()
            self.assertEqual(answer["type"], "error", answer)
            self.assertIn(text, answer["kind"] + ": " + answer["message"])
        finally:
            leat.close()

    def set_fails(self, text: str, value: Any, type: str = "",
                  nodata: Optional[str] = None) -> None:
        def function(b: Any) -> None:
            b.out = value
        self.fails(text, function, output=(type, 0, nodata))

    def same(self, got: Any, want: Any, dtype: str) -> None:
        self.assertEqual(got.dtype, np.dtype(dtype))
        np.testing.assert_array_equal(got, np.asarray(want, dtype))

    def test_types_of_arrays(self) -> None:
        whole = np.arange(12).reshape(3, 4)
        for dtype in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16",
                      ">f4", ">u2"):
            self.same(self.set(whole.astype(dtype)), whole[None],
                      np.dtype(dtype).newbyteorder("=").name)
        self.same(self.set(whole > 5), (whole > 5)[None], "u1")
        self.same(self.set(np.asfortranarray(whole)), whole[None], "i8")
        self.same(self.set(np.stack([whole, whole * 2])[:, ::-1]),
                  np.stack([whole, whole * 2])[:, ::-1], "i8")
        self.set_fails("TypeError: output 'out': pixels of type object", whole.astype(object))
        self.set_fails("TypeError: output 'out': pixels of type <U21", whole.astype(str))
        self.set_fails("TypeError: output 'out': pixels of type datetime64", whole.astype("M8[s]"))
        self.set_fails("ValueError: output 'out' has the shape (), expected (bands, 3, 4)", 5)
        self.set_fails("ValueError: output 'out' has the shape (1, 4, 3), expected (bands, 3, 4)",
                       whole.T)

    def test_declared_types(self) -> None:
        whole = np.arange(12).reshape(3, 4)
        halves = whole / 2 - 0.25
        self.same(self.set(whole, "uint8"), whole[None], "u1")
        self.same(self.set(whole / 2, "int16"), [[[0, 0, 1, 2], [2, 2, 3, 4], [4, 4, 5, 6]]], "i2")
        self.same(self.set(halves, "float32"), halves[None], "f4")
        self.same(self.set(whole > 3, "float64"), (whole > 3)[None], "f8")
        self.same(self.set(whole, "complex64"), whole[None], "c8")
        at = "band 1, column 3, row 1 of the grid"
        for value, dtype, type in [(256, "i8", "uint8"), (-1, "i8", "uint64"), (256, "f8", "uint8"),
                                   (-0.6, "f4", "uint8"),
                                   (2.0**63, "f8", "int64"), (2**63, "u8", "int64"),
                                   (2.0**31, "f4", "int32"),
                                   (1e39, "f8", "float32"), (65520, "f4", "float16"),
                                   (np.inf, "f4", "int16"),
                                   (70000, "i4", "float16"), (300, "f2", "uint8")]:
            bad = np.zeros((3, 4), dtype)
            bad[1, 3] = value
            self.set_fails("OverflowError: output 'out' (%s): the value" % type, bad, type)
            self.set_fails(at, bad, type)
        edges = np.array([[-2.0**63, 2.0**63 - 1024, 0.5, -0.5]] * 3)
        self.same(self.set(edges, "int64"), [[[-2**63, 2**63 - 1024, 0, 0]] * 3], "i8")
        self.same(self.set(np.full((3, 4), 255.49), "uint8"), np.full((1, 3, 4), 255), "u1")
        self.same(self.set(np.full((3, 4), np.inf), "float32"), np.full((1, 3, 4), np.inf), "f4")
        self.set_fails("TypeError: complex pixels for an output of float64", whole.astype("c8"),
                       "float64")

    def test_invalid_pixels(self) -> None:
        whole = np.arange(12.0).reshape(3, 4)
        whole[1, 2] = np.nan
        want = np.arange(12).reshape(1, 3, 4)
        want[0, 1, 2] = 255
        self.same(self.set(whole, "uint8", "255"), want, "u1")
        self.same(self.set(whole, "float32", "255"), whole[None], "f4")
        self.set_fails(
            "ValueError: output 'out' (uint8): the output has no nodata value for the "
            "invalid pixel at band 1, "
                       "column 2, row 1 of the grid", whole, "uint8")
        masked = np.ma.array(np.arange(12), mask=np.arange(12) == 6).reshape(3, 4)
        self.same(self.set(masked, "uint8", "255"), want, "u1")
        self.same(self.set(masked, "", "255"), want, "i8")
        masked.data[1, 2] = 1000  # below the mask
        self.same(self.set(masked, "uint8", "255"), want, "u1")
        self.set_fails("no nodata value", masked)
        out = self.set(masked.astype("f4"))
        self.assertEqual(np.isnan(out).sum(), 1)
        self.assertTrue(np.isnan(out[0, 1, 2]))
        self.set_fails("the valid pixel has the nodata value 3 at band 1, column 3, row 0", masked,
                       "uint8", "3")
        self.set_fails("the nodata value 300 is not a value of uint8", masked.astype("u1"), "",
                       "300")
        self.same(self.set(np.ma.array(np.arange(12)).reshape(3, 4), "uint8"),
                  np.arange(12).reshape(1, 3, 4), "u1")
        both = np.ma.array(whole, mask=np.zeros((3, 4), bool))
        both.mask[0, 0] = True
        want[0, 0, 0] = 255
        self.same(self.set(both, "uint8", "255"), want, "u1")

    def test_valid_pixels(self) -> None:
        seen: dict[str, Any] = {}

        def function(b: Any) -> None:
            seen.update(valid=b.valid("a").copy(), masked=b.masked("a").copy(),
                        nodata=b.nodata("a"))
            b.out = b.a
        mask = np.array([[255, 0, 1, 1]] * 3, "u1")
        self.run_block(function, nodata="5", mask=mask)
        want = (PIXELS != 5) & (mask != 0)
        np.testing.assert_array_equal(seen["valid"], want)
        np.testing.assert_array_equal(seen["masked"].mask, ~want)
        self.assertEqual((seen["nodata"], seen["nodata"].dtype), (5, np.dtype("u2")))
        floats = PIXELS.astype("f4")
        floats[0, 0, 1] = np.nan
        self.run_block(function, floats, nodata="nan")
        np.testing.assert_array_equal(seen["valid"], ~np.isnan(floats))
        self.run_block(function, floats, nodata="0.1")
        np.testing.assert_array_equal(seen["valid"], ~np.isnan(floats))
        floats[0, 2, 2] = np.float32(0.1)
        self.run_block(function, floats, nodata="0.1")
        self.assertEqual(seen["valid"].sum(), 10)
        numbers = PIXELS.astype("c8")
        numbers[0, 1, 1] = complex(3, 4)
        numbers[0, 2, 1] = complex(1, np.nan)
        self.run_block(function, numbers, nodata="3")
        self.assertEqual(list(np.flatnonzero(~seen["valid"])), [3, 5, 9])

    def test_place(self) -> None:
        seen: dict[str, Any] = {}

        def function(b: Any) -> None:
            seen.update(first=b.first, last=b.last, total=b.total, rows=b.rows, columns=b.columns,
                        transform=b.transform,
                        xy=b.coordinates(), window=tuple(b.window), crs=b.crs, params=b.params,
                        text=repr(b), path=b.path("a"))
            b.out = b.a[:, 1:-1, 1:-1]
        leat = Leat(function, PIXELS, overlap=1)
        answer = leat.block(1, (4, 1, 2, 1))
        np.testing.assert_array_equal(leat.output(answer), PIXELS[:, 1:-1, 1:-1])
        leat.close()
        x, y = seen.pop("xy")
        self.assertEqual((list(x), list(y)), ([135, 145, 155, 165], [195, 185, 175]))
        self.assertEqual(seen, dict(
            first=False, last=True, total=2, rows=3, columns=4, transform=(130, 10, 0, 200, 0, -10),
            window=(4, 1, 2, 1),
            crs="EPSG:32631", params={"a": 1}, path="a.tif",
            text="<Block 1 of 2, 2 x 1 pixels at column 4, row 1; a=uint16>"))

    def test_block_that_has_ended(self) -> None:
        kept: list[Any] = []

        def function(b: Any) -> None:
            kept.append(b)
            b.out = b.a + b.valid("a")
        leat = Leat(function, PIXELS)
        for number in range(2):
            self.assertEqual(leat.block(number)["type"], "done")
        leat.close()
        for b in kept:
            for use in (lambda: b.a, lambda: b["a"], lambda: b.valid("a"), lambda: b.masked("a"),
                        lambda: b.out, lambda: b.new("out", "u1"), lambda: b.set("out", PIXELS),
                        lambda: b.emit(1)):
                with self.assertRaisesRegex(RuntimeError, f"block {b.number} has ended"):
                    use()
            self.assertEqual((b.rows, b.nodata("a"), b.path("a")), (3, None, "a.tif"))

    def test_rotated_grid(self) -> None:
        self.fails("ValueError: the grid is rotated", lambda b: b.coordinates(),
                   transform=(100, 10, 1, 200, 1, -10))
        self.fails("ValueError: the grid has no transform", lambda b: b.coordinates(),
                   transform=None)

    def test_valid_pixels_that_the_function_changes(self) -> None:
        def function(b: Any) -> None:
            b.valid("a")[...] = False
            b.out = b.valid("a")
        self.same(self.run_block(function, nodata="5"), PIXELS != 5, "u1")

    def test_array_of_another_library(self) -> None:
        class Tensor:
            def values(self) -> None: ...  # as PyTorch's has

            def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
                return PIXELS + 1
        self.same(self.set(Tensor()), PIXELS + 1, "u2")

    def test_new(self) -> None:
        def function(b: Any) -> None:
            out = b.new("out", "f4", 2)
            out[...] = b.a
            out *= 2
            b.out = out
            assert b.out is out
        self.same(self.run_block(function), np.repeat(PIXELS * 2, 2, 0), "f4")
        self.same(
            self.run_block(lambda b: np.copyto(b.new("out"), b.a), output=("uint16", 0, None)),
            PIXELS, "u2")
        self.fails("KeyError: there is no output 'other'; the outputs are out",
                   lambda b: b.new("other", "u1"))
        self.fails("no dtype is given", lambda b: b.new("out"))
        self.fails("output 'out' is uint8, not float32", lambda b: b.new("out", "f4"),
                   output=("uint8", 0, None))
        self.fails("has 1 band, not 2", lambda b: b.new("out", "u1", 2), output=("uint8", 1, None))
        self.fails("output 'out': 0 bands, expected at least one", lambda b: b.new("out", "u1", 0))
        self.fails("MemoryError: the outputs of a block take", lambda b: b.new("out", "f8", 100000))

    def test_names(self) -> None:
        def assign(b: Any) -> None:
            b.other = 1

        def overwrite(b: Any) -> None:
            b.a = 1

        def fixed(b: Any) -> None:
            b.window = 1
        self.fails("AttributeError: there is no output 'other'; the outputs are out", assign)
        self.fails("'a' is an input: write to its pixels", overwrite)
        self.fails("'window' of a block can't be set", fixed)
        self.fails("there is no input 'b'; the inputs are a", lambda b: b.b)
        self.fails("the output 'out' was not set", lambda b: b.out)
        self.fails("band 2 of input 'a', which has 1 band", lambda b: b.nodata("a", 2))

        def items(b: Any) -> None:
            b["out"] = b["a"] + 1
        self.same(self.run_block(items), PIXELS + 1, "u2")

    def test_memory_of_later_blocks(self) -> None:
        counts = []

        def function(b: Any) -> None:
            b.state.n = getattr(b.state, "n", 0) + 1
            counts.append(b.state.n)
            b.out = b.a
            b.a[...] = 0
        for private in (False, True):
            leat = Leat(function, PIXELS, private=private)
            self.same(leat.output(leat.block()), PIXELS, "u2")
            self.same(leat.output(leat.block()), PIXELS if private else 0 * PIXELS, "u2")
            leat.close()
        self.assertEqual(counts, [1, 2, 1, 2])
        kept = []

        def grows(b: Any) -> None:
            kept.append(b.new("out", "u1", 1))
            kept[-1][...] = 1
            more = b.new("out", "f8", 5000)  # the memory grows while the first array is in use
            more[...] = 2
            assert (kept[-1] == 1).all()
        self.assertEqual(self.run_block(grows, limit=1 << 23).shape, (5000, 3, 4))

    def test_blocks_sent_ahead(self) -> None:
        """Outputs of a block stay as they are while the next one is computed, whatever their
        sizes, and take no more memory than five blocks."""
        bands = np.random.default_rng(1).integers(1, 50, 200).tolist()

        def function(b: Any) -> None:
            for more in (0, 1):  # the last one counts
                b.new("out", "u1", bands[b.number] + more)[...] = b.number
        leat = Leat(function, PIXELS, limit=5 * 2 * 640)
        self.assertEqual(leat.ready, dict(type="ready", ahead=True))
        leat.block(0)
        leat.send_block(0)
        for n in range(1, len(bands)):
            leat.send_block(n, ahead=1)
            answer = leat.answer()
            time.sleep(.0005)  # the server computes block n
            self.same(leat.output(answer), np.full((bands[n - 1] + 1, 3, 4), n - 1), "u1")
        leat.answer()
        leat.close()

    def test_blocks_sent_ahead_of_an_error(self) -> None:
        called = []

        def function(b: Any) -> None:
            called.append(b.number)
            if b.number == 1:
                raise ValueError("no luck")
            b.out = b.a
        leat = Leat(function, PIXELS)
        leat.block(0)
        leat.send_block(1)
        for n in (2, 3):
            leat.send_block(n, ahead=1)
        self.assertEqual([leat.answer()["kind"] for _ in range(3)],
                         ["ValueError", "Skipped", "Skipped"])
        self.same(leat.output(leat.block(4)), PIXELS, "u2")
        self.assertEqual(called, [0, 1, 4])
        self.assertEqual(leat.call(dict(type="close")), dict(type="closed"))
        leat.close()

    def test_values(self) -> None:
        def function(b: Any) -> None:
            b.emit({"sum": b.a.sum(), "all": [1, None, "é"], "pixels": b.a[0, 0]})
            b.out = b.a
        leat = Leat(function, PIXELS)
        self.assertEqual(leat.block()["values"],
                         [{"sum": 66, "all": [1, None, "é"], "pixels": [0, 1, 2, 3]}])
        leat.close()
        self.fails("has a number that is NaN or infinite; None can stand for it",
                   lambda b: b.emit(float("nan")))
        self.fails("is not JSON", lambda b: b.emit(object()))
        self.fails("nothing receives the values", lambda b: b.emit(1), emits=False)

    def test_errors(self) -> None:
        def function(b: Any) -> None:
            if b.number == 0:
                raise KeyError("red")
            b.out = b.a
        leat = Leat(function, PIXELS)
        answer = leat.block()
        self.assertEqual((answer["kind"], answer["message"]), ("KeyError", "'red'"))
        self.assertNotIn("_function.py", answer["traceback"])
        self.assertIn('raise KeyError("red")', answer["traceback"])
        self.same(leat.output(leat.block(1)), PIXELS, "u2")  # the connection goes on
        for wrong in (dict(type="other"), b"[]", b"{}", b"b\0", b"\xff\xff",
                      b"b\0\0\0" + struct.pack("<I7q", 1, 0, 0, 0, 4, 3, 0, -1)):
            with self.subTest(wrong):
                self.assertEqual(leat.call(wrong)["kind"], "Protocol")
        self.assertEqual(leat.call(dict(type="load", protocol=3, version="9"))["kind"], "Protocol")
        self.assertEqual(leat.call(dict(type="close")), dict(type="closed"))
        self.assertEqual(leat.sock.recv(1), b"")
        leat.close()

    def test_xarray(self) -> None:
        try:
            import xarray  # noqa: F401
        except ImportError:
            self.skipTest("no xarray")
        seen: list[Any] = []

        def function(b: Any) -> None:
            a = b.xarray("a")
            seen.append((a.dims, list(a.x.values), list(a.y.values), a.attrs, a.name))
            b.out = a * 2
        self.same(self.run_block(function, nodata="5"), PIXELS * 2, "u2")
        self.assertEqual(seen, [(("band", "y", "x"), [105, 115, 125, 135], [195, 185, 175],
                                 {"nodata": 5, "crs": "EPSG:32631"}, "a")])


if __name__ == "__main__":
    unittest.main()
