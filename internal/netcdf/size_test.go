package netcdf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"leat/internal/pytest"
)

// TestSizeOfFiles compares with files that SciPy writes: they end up to three bytes after the last
// value.
func TestSizeOfFiles(t *testing.T) {
	dir := t.TempDir()
	var names []string
	pytest.Run(t, []string{"numpy", "scipy.io"}, `
import json, os, sys
import numpy as np
from scipy.io import netcdf_file
dir = json.load(sys.stdin)
r = np.random.default_rng(1)
names = []
for k in range(200):
    name = f"{k}.nc"
    with netcdf_file(os.path.join(dir, name), "w", version=1 + k % 2) as f:
        f.title = "x" * int(r.integers(0, 9))
        f.numbers = np.arange(int(r.integers(1, 5)), dtype=">i2")
        f.createDimension("time", None)
        dims = []
        for d in range(int(r.integers(1, 4))):
            f.createDimension(f"d{d}", int(r.integers(1, 9)))
            dims.append(f"d{d}")
        records = int(r.integers(0, 4))
        for v in range(int(r.integers(1, 4))):
            own = [d for d in dims if r.integers(2)]
            record = bool(r.integers(2))
            kind = str(r.choice(["i1", "i2", "i4", "f4", "f8"]))
            var = f.createVariable(f"v{v}", kind, (["time"] if record else []) + own)
            var.units = "m" * int(r.integers(1, 6))
            if not record:
                var[...] = 7
            else:
                for i in range(records):
                    var[i] = 7
    names.append(name)
json.dump(names, sys.stdout)
`, dir, &names)
	if len(names) != 200 {
		t.Fatalf("%d files", len(names))
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := Size(bytes.NewReader(data)); err != nil || n > int64(len(data)) || n < int64(len(data))-3 {
			t.Errorf("%s: %d bytes, %v; the file has %d", name, n, err, len(data))
		}
	}
}

// made returns a header of version 5 with a plane of width x height float64, and two variables of
// records: three int16 and a byte.
func made(records, width, height uint64) []byte {
	var b []byte
	word := func(v uint32) { b = binary.BigEndian.AppendUint32(b, v) }
	double := func(v uint64) { b = binary.BigEndian.AppendUint64(b, v) }
	name := func(s string) {
		double(uint64(len(s)))
		b = append(b, s...)
		b = append(b, make([]byte, -len(s)&3)...)
	}
	list := func(tag uint32, n uint64) { word(tag); double(n) }
	variable := func(begin uint64, typ uint32, dims ...uint64) {
		name("value")
		double(uint64(len(dims)))
		for _, d := range dims {
			double(d)
		}
		list(absent, 0)
		word(typ)
		double(math.MaxUint64) // wrong, as for large variables
		double(begin)
	}
	b = append(b, "CDF\x05"...)
	double(records)
	list(dimensionTag, 4)
	for _, n := range []uint64{width, height, 0, 3} {
		name("size")
		double(n)
	}
	list(attributeTag, 1)
	name("valid_range")
	word(3)
	double(3)
	b = append(b, 0, 1, 0, 2, 0, 3, 0, 0)
	list(variableTag, 3)
	variable(1000, 6, 1, 0)
	variable(1<<40, 3, 2, 3)
	variable(1<<40+8, 1, 2)
	return b
}

func TestSizeOfVersion5(t *testing.T) {
	for _, c := range []struct {
		records uint64
		size    int64
	}{
		{0, 1000 + 8*100_000*50_000},
		{1, 1<<40 + 8 + 1},
		{1_000_000, 1<<40 + 12*999_999 + 8 + 1},
		{math.MaxUint64, 1000 + 8*100_000*50_000},
	} {
		if n, err := Size(bytes.NewReader(made(c.records, 100_000, 50_000))); n != c.size || err != nil {
			t.Errorf("%d records: %d bytes, %v; expected %d", c.records, n, err, c.size)
		}
	}
}

func TestSizeOfBadHeaders(t *testing.T) {
	whole := made(1, 2, 3)
	for n := range whole {
		if _, err := Size(bytes.NewReader(whole[:n])); !errors.Is(err, ErrFormat) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for name, b := range map[string][]byte{
		"HDF5":                      []byte("\x89HDF\r\n\x1a\n"),
		"version 3":                 append([]byte("CDF\x03"), whole[4:]...),
		"too large":                 made(1, 1<<40, 1<<40),
		"too many records":          made(1<<62, 1, 1),
		"two dimensions of records": made(1, 0, 0),
	} {
		if n, err := Size(bytes.NewReader(b)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

func FuzzSize(f *testing.F) {
	f.Add(made(1, 2, 3))
	f.Add(append([]byte("CDF\x01"), make([]byte, 28)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := Size(bytes.NewReader(b))
		if n < 0 || err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}
