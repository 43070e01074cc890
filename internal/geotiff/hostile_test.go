package geotiff

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"leat/internal/tiff"
	"leat/ndarray"
	"leat/raster"
)

// little returns a valid small image: 8x4 uint8, one strip.
func little(change func(tags []tag) []tag, data []byte) []byte {
	tags := plain(8, 4, 8, 1, tiff.FormatUint, tiff.CompressionNone)
	if change != nil {
		tags = change(tags)
	}
	return handmade(binary.LittleEndian, tags, tiff.TagStripOffsets, tiff.TagStripByteCounts, [][]byte{data})
}

// set returns a function that replaces or adds a tag.
func set(id, typ uint16, values ...uint64) func([]tag) []tag {
	return func(tags []tag) []tag {
		out := []tag{{id, typ, values}}
		for _, t := range tags {
			if t.id != id {
				out = append(out, t)
			}
		}
		return out
	}
}

func all(changes ...func([]tag) []tag) func([]tag) []tag {
	return func(tags []tag) []tag {
		for _, c := range changes {
			tags = c(tags)
		}
		return tags
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// readSome opens a TIFF in memory and reads a corner of its first band, its overviews and its
// masks.
func readSome(b []byte) error {
	f, err := openReader(bytes.NewReader(b), int64(len(b)), "memory.tif")
	if err != nil {
		return err
	}
	files := append([]*File{f}, f.levels...)
	for _, f := range files {
		g := f.Info().Grid
		for _, w := range []raster.Window{
			{Width: min(40, g.Width), Height: min(40, g.Height)},
			{Col: g.Width - min(9, g.Width), Row: g.Height - min(9, g.Height), Width: min(9, g.Width),
				Height: min(9, g.Height)},
		} {
			band := len(f.info.Bands)
			if e := f.Read(nilContext, []int{band}, w,
				ndarray.New(f.info.Bands[0].Type, 1, w.Height, w.Width)); e != nil {
				err = e
			}
			if f.info.Mask == raster.MaskDataset {
				if e := f.ReadMask(nilContext, w, make([]byte, w.Width*w.Height)); e != nil {
					err = e
				}
			}
		}
	}
	return err
}

func TestOversizedHeadersAllocateLittle(t *testing.T) {
	data := make([]byte, 32)
	huge := uint64(math.MaxInt32)
	for _, c := range []struct {
		name string
		file []byte
		is   error
	}{
		{"2^31 x 2^31 pixels in one strip",
			little(all(set(tiff.TagImageWidth, tiff.TypeLong, huge), set(tiff.TagImageLength, tiff.TypeLong, huge)),
				data),
			raster.ErrFormat},
		{"2^31 rows in strips of one", little(all(set(tiff.TagImageWidth, tiff.TypeLong, huge),
			set(tiff.TagImageLength, tiff.TypeLong, huge), set(tiff.TagRowsPerStrip, tiff.TypeLong, 1)), data),
			raster.ErrFormat},
		{"a giant deflate strip", little(all(set(tiff.TagImageWidth, tiff.TypeLong, 30000),
			set(tiff.TagImageLength, tiff.TypeLong, 30000),
			set(tiff.TagCompression, tiff.TypeShort, tiff.CompressionDeflate)), data), raster.ErrFormat},
		{"a giant LZW strip", little(all(set(tiff.TagImageWidth, tiff.TypeLong, 30000),
			set(tiff.TagImageLength, tiff.TypeLong, 30000),
			set(tiff.TagCompression, tiff.TypeShort, tiff.CompressionLZW)), data), raster.ErrFormat},
		{"a giant zstd strip", little(all(set(tiff.TagImageWidth, tiff.TypeLong, 30000),
			set(tiff.TagImageLength, tiff.TypeLong, 30000),
			set(tiff.TagCompression, tiff.TypeShort, tiff.CompressionZstd)), data), raster.ErrFormat},
		{"a strip beyond 2 GiB", little(all(set(tiff.TagImageWidth, tiff.TypeLong, 1<<20),
			set(tiff.TagImageLength, tiff.TypeLong, 1<<20),
			set(tiff.TagCompression, tiff.TypeShort, tiff.CompressionDeflate)), data), raster.ErrUnsupported},
		{"65535 bands", little(set(tiff.TagSamplesPerPixel, tiff.TypeShort, 65535), data), raster.ErrFormat},
		{"65535 planes", little(all(set(tiff.TagSamplesPerPixel, tiff.TypeShort, 65535),
			set(tiff.TagPlanarConfig, tiff.TypeShort, tiff.PlanarBand)), data), raster.ErrFormat},
		{"no width", little(set(tiff.TagImageWidth, tiff.TypeLong, 0), data), raster.ErrFormat},
		{"no bands", little(set(tiff.TagSamplesPerPixel, tiff.TypeShort, 0), data), raster.ErrFormat},
		{"strips of no rows", little(set(tiff.TagRowsPerStrip, tiff.TypeLong, 0), data), raster.ErrFormat},
		{"tiles of no pixels", little(all(set(tiff.TagTileWidth, tiff.TypeLong, 0),
			set(tiff.TagTileOffsets, tiff.TypeLong, 8)), data),
			raster.ErrFormat},
		{"0 bits", little(set(tiff.TagBitsPerSample, tiff.TypeShort, 0), data), raster.ErrFormat},
		{"10000 bits", little(set(tiff.TagBitsPerSample, tiff.TypeShort, 10000), data), raster.ErrFormat},
		{"24-bit floats", little(all(set(tiff.TagBitsPerSample, tiff.TypeShort, 24),
			set(tiff.TagSampleFormat, tiff.TypeShort, tiff.FormatFloat)), data), raster.ErrUnsupported},
		{"bands of different types", little(all(set(tiff.TagSamplesPerPixel, tiff.TypeShort, 3),
			set(tiff.TagBitsPerSample, tiff.TypeShort, 5, 6, 5)), data), raster.ErrUnsupported},
		{"planar configuration 7", little(set(tiff.TagPlanarConfig, tiff.TypeShort, 7), data), raster.ErrFormat},
		{"a strip outside the file", little(set(tiff.TagStripOffsets, tiff.TypeLong, 1<<30), data), raster.ErrFormat},
		{"a strip of too few bytes", little(nil, data[:31]), raster.ErrFormat},
		{"no table of strips", bytes.Replace(little(nil, data), []byte{17, 1, 4, 0}, []byte{16, 1, 4, 0}, 1),
			raster.ErrFormat},
		{"a table of texts", bytes.Replace(little(nil, data), []byte{17, 1, 4, 0}, []byte{17, 1, 2, 0}, 1),
			raster.ErrFormat},
	} {
		var err error
		if n := allocated(func() { err = readSome(c.file) }); n > 40<<20 {
			t.Errorf("%s: %d MiB allocated for a file of %d bytes", c.name, n>>20, len(c.file))
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), "memory.tif") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := readSome(little(nil, data)); err != nil {
		t.Errorf("valid file: %v", err)
	}
}

func TestInconsistentDirectories(t *testing.T) {
	sound := little(nil, make([]byte, 32))
	at := binary.LittleEndian.Uint32(sound[4:])
	change := func(f func(b []byte)) []byte {
		b := bytes.Clone(sound)
		f(b)
		return b
	}
	big := append([]byte("II+\x00\x08\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 64)...)
	many := make([]byte, 1<<20)
	copy(many, "II*\x00\x08\x00\x00\x00\xff\xff")
	for name, b := range map[string][]byte{
		"the chain leads back to its first": change(func(b []byte) { binary.LittleEndian.PutUint32(b[len(b)-4:], at) }),
		"the chain leads out of the file": change(func(b []byte) {
			binary.LittleEndian.PutUint32(b[len(b)-4:],
				1<<20)
		}),
		"the first directory is nowhere":    change(func(b []byte) { binary.LittleEndian.PutUint32(b[4:], 1<<31) }),
		"there is no directory":             change(func(b []byte) { binary.LittleEndian.PutUint32(b[4:], 0) }),
		"the directory claims more entries": change(func(b []byte) { binary.LittleEndian.PutUint16(b[at:], 900) }),
		"65535 entries":                     many,
		"2^64-1 entries":                    big,
		"a tag claims 2^32-1 values": change(func(b []byte) {
			binary.LittleEndian.PutUint32(b[at+2+4:],
				math.MaxUint32)
		}),
	} {
		var err error
		if n := allocated(func() { err = readSome(b) }); n > 8<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
		if !errors.Is(err, raster.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe.tif")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	secret := file("secret.tif", "II*\x00")
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, says string
		is         error
	}{
		{dir, "is a directory", raster.ErrFormat},
		{filepath.Join(dir, "missing.tif"), "no such file", fs.ErrNotExist},
		{file("empty.tif", ""), "is empty", raster.ErrFormat},
		{file("page.tif", "<html><body>"), `not a TIFF: starts with "<html><b"; leat reads GeoTIFF and .npy`,
			raster.ErrFormat},
		{file("short.tif", "II*"), `not a TIFF: starts with "II*"`, raster.ErrFormat},
		{"/dev/null", "is a pipe, a socket or a device", raster.ErrFormat},
		{pipe, "is a pipe, a socket or a device", raster.ErrFormat},
	} {
		f, err := Open(c.path)
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(),
			c.path+":") {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	if os.Getuid() != 0 {
		if _, err := Open(secret); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("unreadable file: %v", err)
		}
	}
}

func TestUnsupportedCodecs(t *testing.T) {
	for codec, name := range map[uint64]string{2: "ccitt", tiff.CompressionJPEG: "jpeg", 34712: "jpeg2000",
		tiff.CompressionLERC: "lerc", tiff.CompressionLZMA: "lzma", tiff.CompressionWebP: "webp",
		tiff.CompressionJXL: "jpegxl",
		12345:               "compression 12345"} {
		f := openBytes(t, little(set(tiff.TagCompression, tiff.TypeShort, codec), make([]byte, 32)))
		if got := f.Info().Compression; got != name {
			t.Errorf("codec %d is called %q", codec, got)
		}
		err := f.CheckReadable()
		if !errors.Is(err, raster.ErrUnsupported) || !strings.Contains(err.Error(),
			name) || !strings.Contains(err.Error(), "gdal_translate -co COMPRESS=DEFLATE memory.tif out.tif") {
			t.Errorf("codec %d: %v", codec, err)
		}
	}
}

func TestUnsupportedColours(t *testing.T) {
	for _, p := range []uint64{tiff.PhotometricCMYK, tiff.PhotometricYCbCr, tiff.PhotometricCIELab,
		tiff.PhotometricLogLuv} {
		err := openBytes(t, little(set(tiff.TagPhotometric, tiff.TypeShort, p), make([]byte, 32))).CheckReadable()
		if !errors.Is(err, raster.ErrUnsupported) || !strings.Contains(err.Error(), "PHOTOMETRIC=RGB") {
			t.Errorf("photometric %d: %v", p, err)
		}
	}
}

func TestTruncatedFiles(t *testing.T) {
	root := sharedData(t)
	for _, name := range []string{"rasterio/rgb_deflate.tif", "rasterio/rgb_lzw.tif", "rasterio/rotated.tif",
		"rasterio/all-nodata.tif", "rasterio/RGB.byte.tif", "rasterio/RGBA.uint16.tif", "landsat8/l8_B4.tif"} {
		whole, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		f := openBytes(t, whole)
		if err := f.CheckWhole(t.Context()); err != nil {
			t.Error(err)
		}
		var want []*ndarray.Array
		for b := range f.info.Bands {
			want = append(want, readBand(t, f, b+1))
		}
		refused := 0
		for i := range 51 {
			n := len(whole) * i / 50
			if i == 50 {
				n = len(whole) - 1
			}
			part := whole[:n:n]
			f, err := openReader(bytes.NewReader(part), int64(n), name)
			if err != nil {
				if !errors.Is(err, raster.ErrFormat) {
					t.Errorf("%s cut to %d bytes: %v", name, n, err)
				}
				refused++
				continue
			}
			cut := false
			for b := range want {
				g := f.info.Grid
				a := ndarray.New(want[b].Type, 1, g.Height, g.Width)
				if err := f.Read(t.Context(), []int{b + 1}, g.Window(), a); err != nil {
					if !errors.Is(err, raster.ErrFormat) {
						t.Errorf("%s cut to %d bytes: %v", name, n, err)
					}
					refused++
					cut = true
					break
				}
				if !bytes.Equal(a.Data, want[b].Data) {
					t.Errorf("%s cut to %d bytes: wrong pixels without an error", name, n)
				}
			}
			if err := f.CheckWhole(t.Context()); errors.Is(err, raster.ErrFormat) != cut {
				t.Errorf("%s cut to %d bytes: CheckWhole returns %v", name, n, err)
			}
		}
		if refused < 50 {
			t.Errorf("%s: %d of 51 cuts were refused", name, refused)
		}
	}
}

func TestCutFileOfManyTiles(t *testing.T) {
	const n = maxChecked + 5
	for _, cut := range []int{0, n - 1} {
		offsets := repeat(8, n)
		offsets[cut] = 1 << 30
		tags := append(plain(1, n, 8, 1, tiff.FormatUint, tiff.CompressionNone),
			tag{tiff.TagRowsPerStrip, tiff.TypeLong, []uint64{1}}, tag{tiff.TagStripOffsets, tiff.TypeLong, offsets},
			tag{tiff.TagStripByteCounts, tiff.TypeLong, repeat(1, n)})
		whole := handmade(binary.LittleEndian, tags, tiff.TagStripOffsets, tiff.TagStripByteCounts, [][]byte{{1}})
		f := openBytes(t, whole)
		if err := f.CheckWhole(t.Context()); !errors.Is(err, raster.ErrFormat) {
			t.Errorf("strip %d is beyond the end: %v", cut, err)
		}
	}
}
