package apply

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"leat/block"
	"leat/internal/gdal"
	"leat/internal/pytest"
	"leat/ndarray"
)

// maskedFile is a raster with its valid pixels according to GDAL, band after band: the bytes of
// GetMaskBand, except that NaN is never valid here.
type maskedFile struct {
	Path  string
	What  string
	Bands int
	Valid []byte // 1 and 0
}

const readMasks = `
import json, sys, base64, itertools, os, numpy as np
from osgeo import gdal
gdal.UseExceptions()
gdal.PushErrorHandler('CPLQuietErrorHandler')

def masks(path, what):
    ds = gdal.Open(path)
    rows = []
    for b in range(1, ds.RasterCount + 1):
        px = ds.GetRasterBand(b).ReadAsArray()
        rows.append((ds.GetRasterBand(b).GetMaskBand().ReadAsArray() != 0) & ~np.isnan(px))
    return {'Path': path, 'What': what, 'Bands': ds.RasterCount,
            'Valid': base64.b64encode(np.array(rows).astype('u1').tobytes()).decode()}
`

// generateMasks writes a file for every combination of masks, nodata, NODATA_VALUES and alpha.
func generateMasks(t *testing.T) []maskedFile {
	var files []maskedFile
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, readMasks+`
dir = json.load(sys.stdin)
rng = np.random.default_rng(1)
W, H = 40, 36
out = []
kinds = {'one': (1, 0), 'three': (3, 0), 'alpha2': (2, 2), 'alpha4': (4, 4)}
for kind, dtype, mask, nodata, values in itertools.product(
        kinds, ['u1', 'u2', 'i2', 'f4'], ['', 'internal', 'msk', 'both', 'unflagged'], [None, 0, 1],
        ['', 'all', 'mixed', 'short']):
    bands, alpha = kinds[kind]
    if alpha and dtype in ('i2', 'f4') or dtype in ('u2', 'f4') and (
            mask in ('both', 'unflagged') or values in ('mixed', 'short')):
        continue
    path = os.path.join(dir, 'f%04d.tif' % len(out))
    gtype = {'u1': gdal.GDT_Byte, 'u2': gdal.GDT_UInt16, 'i2': gdal.GDT_Int16, 'f4': gdal.GDT_Float32}[dtype]
    options = ['TILED=YES', 'BLOCKXSIZE=32', 'BLOCKYSIZE=16', 'COMPRESS=DEFLATE'] if len(out) % 2 else []
    options += ['INTERLEAVE=BAND'] if len(out) % 3 else []
    options += ['PHOTOMETRIC=RGB'] if bands > 2 and dtype in ('u1', 'u2') else []
    options += ['ALPHA=YES'] if alpha else []
    ds = gdal.GetDriverByName('GTiff').Create(path, W, H, bands, gtype, options)
    ds.SetGeoTransform((500000, 10, 0, 5000000, 0, -10))
    for b in range(bands):
        px = rng.integers(0, 2, (H, W)).astype(dtype)
        if dtype == 'f4':
            px[b, :3] = np.nan
        if b + 1 == alpha:
            px *= 200
        ds.GetRasterBand(b + 1).WriteArray(px)
    if nodata is not None:
        ds.GetRasterBand(1).SetNoDataValue(nodata)
    if values:
        text = {'all': '0 ' * bands, 'mixed': ' '.join(str(i % 2 + 0.5) for i in range(bands)),
                'short': '0 ' * (bands - 1)}[values]
        ds.SetMetadataItem('NODATA_VALUES', text.strip() or '0 0')
    m = [(rng.integers(0, 2, (H, W)) * 255).astype('u1') for _ in range(2)]
    if mask in ('internal', 'both'):
        gdal.SetConfigOption('GDAL_TIFF_INTERNAL_MASK', 'YES')
        ds.CreateMaskBand(gdal.GMF_PER_DATASET)
        ds.GetRasterBand(1).GetMaskBand().WriteArray(m[0])
    ds = None
    if mask in ('msk', 'both', 'unflagged'):
        other = gdal.GetDriverByName('GTiff').Create(path + '.msk', W, H, 1, gdal.GDT_Byte)
        for b in range(0 if mask == 'unflagged' else bands):
            other.SetMetadataItem('INTERNAL_MASK_FLAGS_%d' % (b + 1), '2')
        other.GetRasterBand(1).WriteArray(m[1])
        other = None
    out.append(masks(path, '%s of %s, mask %r, nodata %s, NODATA_VALUES %r' % (kind, dtype, mask, nodata, values)))
print(json.dumps(out))
`, t.TempDir(), &files)
	return files
}

// As in GDAL, one property of the file decides about a band: the mask of the dataset, else
// NODATA_VALUES, else nodata, else alpha.
func TestValidMatchesGDAL(t *testing.T) {
	files := generateMasks(t)
	if len(files) < 200 {
		t.Fatalf("only %d files", len(files))
	}
	t.Run("generated", func(t *testing.T) { sameValidPixels(t, files, nil) })
	t.Run("generated/through GDAL", func(t *testing.T) {
		needGDAL(t)
		before, err := gdal.CacheBytes()
		if err != nil {
			t.Fatal(err)
		}
		defer gdal.SetCacheBytes(before) // the run sets it for the whole process
		sameValidPixels(t, files, func(path string) (*gdal.File, error) { return gdal.Open(path, nil) })
	})
	t.Run("expressions", func(t *testing.T) {
		job := Job{Inputs: map[string]Input{}, Expressions: map[string]string{"o": "["},
			Outputs: map[string]Output{"o": {Path: filepath.Join(t.TempDir(), "o.tif"), NoOverviews: true}}}
		var want []byte
		for i, f := range files {
			name := fmt.Sprintf("f%d", i)
			job.Inputs[name] = File(f.Path)
			for b := range f.Bands {
				job.Expressions["o"] += fmt.Sprintf("1 - isnodata(%s[%d]), ", name, b+1)
			}
			want = append(want, f.Valid...)
		}
		job.Expressions["o"] = job.Expressions["o"][:len(job.Expressions["o"])-2] + "]"
		mustRun(t, job)
		if got := pixels[uint8](t, job.Outputs["o"].Path); !bytes.Equal(got, want) {
			t.Error("other pixels are valid than in GDAL")
		}
	})
}

func TestRealValidMatchesGDAL(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, pattern := range []string{"rasterio/*.tif", "landsat8/*.tif", "sentinel2/*.jp2"} {
		names, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(repositoryData(t,
			"rasterio/RGB.byte.tif"))), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if base := filepath.Base(name); base != "corrupt.tif" && base != "rotated.tif" { // rotated ones are warped
				paths = append(paths, name)
			}
		}
	}
	var files []maskedFile
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, readMasks+`
print(json.dumps([masks(p, '') for p in json.load(sys.stdin)]))
`, paths, &files)
	for _, f := range files { // each has a grid of its own
		sameValidPixels(t, []maskedFile{f}, nil)
	}
}

// sameValidPixels runs one job over files of one grid, with a margin, which is never valid.
func sameValidPixels(t *testing.T, files []maskedFile, open func(path string) (*gdal.File, error)) {
	t.Helper()
	job := Job{Inputs: map[string]Input{}, Controls: Controls{Overlap: 1}}
	got := make([][]byte, len(files))
	for i, f := range files {
		in := File(f.Path)
		if open != nil {
			src, err := open(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			in.Source = src
		}
		job.Inputs[fmt.Sprint("f", i)] = in
		got[i] = make([]byte, len(f.Valid))
	}
	job.Func = func(_ context.Context, b *Block) error {
		g := b.Grid()
		for i := range files {
			v := b.Valid(fmt.Sprint("f", i))
			for band := range v.Shape[0] {
				px := ndarray.Slice[uint8](v.At(band))
				for k, valid := range px {
					at := block.Window{Col: b.Window.Col - b.Overlap() + k%b.Columns(),
						Row: b.Window.Row - b.Overlap() + k/b.Columns(), Width: 1, Height: 1}
					if inside := g.Window().Contains(at); inside {
						got[i][(band*g.Height+at.Row)*g.Width+at.Col] = valid
					} else if valid != 0 {
						return fmt.Errorf("the pixel at %v is valid", at)
					}
				}
			}
		}
		return nil
	}
	mustRun(t, job)
	for i, f := range files {
		if !bytes.Equal(got[i], f.Valid) {
			n := 0
			for k, v := range got[i] {
				if v != f.Valid[k] {
					n++
				}
			}
			t.Errorf("%s (%s): %d of %d pixels are not as in GDAL", filepath.Base(f.Path), f.What, n, len(f.Valid))
		}
	}
}

// The job's nodata applies in addition to the file's mask, and replaces its nodata and
// NODATA_VALUES.
func TestNodataOfTheJobWithMasks(t *testing.T) {
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal", "numpy"}, `
import json, sys, os, numpy as np
from osgeo import gdal
dir = json.load(sys.stdin)
gdal.SetConfigOption('GDAL_TIFF_INTERNAL_MASK', 'YES')
def make(name, bands, options=[], nodata=None, values=None, mask=False):
    ds = gdal.GetDriverByName('GTiff').Create(os.path.join(dir, name), 4, 1, bands, gdal.GDT_Byte, options)
    for b in range(bands):
        ds.GetRasterBand(b + 1).WriteArray(np.array([[0, 7, 7, 9]] if b == 0 else [[0, 0, 200, 200]], 'u1'))
    if nodata is not None: ds.GetRasterBand(1).SetNoDataValue(nodata)
    if values: ds.SetMetadataItem('NODATA_VALUES', values)
    if mask:
        ds.CreateMaskBand(gdal.GMF_PER_DATASET)
        ds.GetRasterBand(1).GetMaskBand().WriteArray(np.array([[255, 0, 255, 255]], 'u1'))
make('mask.tif', 1, nodata=0, mask=True)
make('values.tif', 2, values='0 0')
make('alpha.tif', 2, ['ALPHA=YES'], nodata=9)
print('null')
`, dir, nil)
	for _, c := range []struct {
		file   string
		nodata []string
		want   []string
	}{
		{"mask.tif", nil, []string{"#.##"}},
		{"mask.tif", []string{"9"}, []string{"#.#."}},
		{"mask.tif", []string{"none"}, []string{"#.##"}},
		{"values.tif", nil, []string{".###", ".###"}},
		{"values.tif", []string{"9", "0"}, []string{"###.", "..##"}},
		{"values.tif", []string{"none"}, []string{"####", "####"}},
		{"alpha.tif", nil, []string{"###.", "####"}},
		{"alpha.tif", []string{"7", "none"}, []string{"...#", "####"}},
		{"alpha.tif", []string{"none"}, []string{"..##", "####"}},
	} {
		wantRows(t, validPixels(t, Input{Files: []string{filepath.Join(dir, c.file)}, Nodata: c.nodata}, Controls{}),
			c.want...)
	}
}
