package gdal

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"leat/internal/geotiff"
	"leat/internal/lazyregexp"
	"leat/internal/tiffwrite"
	"leat/ndarray"
	"leat/raster"
)

// leat compares CRSs by EPSG code where they have one, else by geo keys (raster.CRS.Equal). GDAL
// holds a CRS as an object of PROJ. Its GeoTIFF driver converts between such objects and geo keys,
// through a file of one pixel in memory. So a CRS read by the native driver can be compared with
// one read here, and a CRS without a code can be written to a GeoTIFF.

// known caches crsOf by WKT: the rasters of a job share few CRSs, and computing one takes a
// millisecond.
var known struct {
	sync.Mutex
	crs map[string]raster.CRS
}

const maxKnown = 256

// compareOptions holds the options for comparing CRSs. They ignore the order of axes, since pixels
// are always x, y here.
var compareOptions = []string{"CRITERION=EQUIVALENT_EXCEPT_AXIS_ORDER_GEOGCRS", "IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES",
	"IGNORE_COORDINATE_EPOCH=YES"}

// crsOf describes a CRS; s may be 0. It must run within onThread or try.
func crsOf(s hSRS) raster.CRS {
	if s == 0 {
		return raster.CRS{}
	}
	wkt := wktOf(s)
	known.Lock()
	r, ok := known.crs[wkt]
	known.Unlock()
	if ok {
		return r
	}
	r = raster.CRS{WKT: wkt, Name: c.OSRGetName(s), Code: codeOf(s), Keys: keysOf(s)}
	known.Lock()
	defer known.Unlock()
	if known.crs == nil || len(known.crs) >= maxKnown {
		known.crs = map[string]raster.CRS{}
	}
	known.crs[wkt] = r
	return r
}

// wktOf returns a CRS as WKT2:2015, or as WKT2:2019 if the older version can't express it. The text
// of 2019 varies: whether it calls WGS 84 a datum ensemble depends on what GDAL's GeoTIFF driver
// looked up earlier on the thread.
func wktOf(s hSRS) string {
	for _, format := range []string{"WKT2_2015", "WKT2_2019"} {
		var text unsafe.Pointer
		failed := c.OSRExportToWktEx(s, &text, cStrings([]string{"FORMAT=" + format, "MULTILINE=NO"})) != 0
		wkt := goString(text)
		c.VSIFree(text)
		if !failed && wkt != "" {
			return wkt
		}
	}
	return ""
}

// codeOf returns "EPSG:n" for a CRS of EPSG, even if it does not name its code. For a compound CRS
// it returns the horizontal part's code, as the native driver does.
func codeOf(s hSRS) string {
	var node unsafe.Pointer
	if c.OSRIsCompound(s) != 0 {
		node = unsafe.Pointer(cString("GEOGCS"))
		if c.OSRIsProjected(s) != 0 {
			node = unsafe.Pointer(cString("PROJCS"))
		}
	}
	if a, n := c.OSRGetAuthorityName(s, node), c.OSRGetAuthorityCode(s, node); a != "" && n != "" {
		return a + ":" + n
	}
	if node != nil {
		return ""
	}
	return identify(s)
}

// minConfidence is the confidence of PROJ that identify requires. A match whose name is spelled
// differently reaches it.
const minConfidence = 90

// identify finds the code of a CRS that does not name it, as in ESRI's files and those of older
// programs. It returns "" if there is none or more than one.
func identify(s hSRS) string {
	var n int32
	var confidences unsafe.Pointer
	list := c.OSRFindMatches(s, nil, &n, &confidences)
	defer c.OSRFreeSRSArray(list)
	defer c.VSIFree(confidences)
	var codes []string
	for i := range n {
		if *(*int32)(unsafe.Add(confidences, 4*i)) < minConfidence {
			continue
		}
		match := *(*hSRS)(unsafe.Add(list, uintptr(i)*unsafe.Sizeof(s)))
		if a := c.OSRGetAuthorityName(match, nil); a == "EPSG" {
			codes = append(codes, a+":"+c.OSRGetAuthorityCode(match, nil))
		}
	}
	if len(codes) != 1 {
		return ""
	}
	return codes[0]
}

// serial numbers the files in memory.
var serial atomic.Int64

// flavors lists GDAL's ways to write geo keys. The second can express some CRSs that the first
// can't, such as heights above a datum without a code.
var flavors = []string{"STANDARD", "ESRI_PE"}

// keysOf returns geo keys that GDAL reads as s, or nil.
func keysOf(s hSRS) *raster.GeoKeys {
	for _, flavor := range flavors {
		if k := keysIn(flavor, s); k != nil {
			return k
		}
	}
	return nil
}

func keysIn(flavor string, s hSRS) *raster.GeoKeys {
	path := fmt.Sprintf("/vsimem/leat-crs-%d.tif", serial.Add(1))
	defer c.VSIUnlink(path)
	defer c.VSIUnlink(path + ".aux.xml")
	h := c.GDALCreate(c.GDALGetDriverByName("GTiff"), path, 1, 1, 1, gdtByte,
		cStrings([]string{"GEOTIFF_KEYS_FLAVOR=" + flavor}))
	if h == 0 {
		return nil
	}
	failed := c.GDALSetSpatialRef(h, s) != 0
	c.GDALClose(h)
	if failed {
		return nil
	}
	c.VSIUnlink(path + ".aux.xml") // its content is not in the keys
	var n uint64
	b := c.VSIGetMemFileBuffer(path, &n, 0)
	if b == nil {
		return nil
	}
	f, err := geotiff.OpenAt(bytes.NewReader(unsafe.Slice((*byte)(b), n)), int64(n), path, nil)
	if err != nil {
		return nil
	}
	keys := f.Info().Grid.CRS.Keys
	if keys == nil || len(keys.Directory) <= 4 {
		return nil
	}
	back := c.GDALOpenEx(path, openRaster, nil, nil, nil)
	if back == 0 {
		return nil
	}
	defer c.GDALClose(back)
	if r := c.GDALGetSpatialRef(back); r == 0 || c.OSRIsSameEx(s, r, cStrings(compareOptions)) == 0 {
		return nil
	}
	return keys
}

// srsOf returns a GDAL object for a CRS, which the caller destroys; 0 for none. It must run within
// onThread or try.
func srsOf(r raster.CRS) (hSRS, error) {
	var s hSRS
	switch {
	case r.IsZero():
		return 0, nil
	case r.WKT != "":
		s = c.OSRNewSpatialReference(r.WKT)
	case r.Keys != nil:
		s = srsOfKeys(r.Keys)
	}
	if s == 0 && r.Code != "" {
		// GDAL would read other texts as names of files and URLs.
		if !codePattern.MatchString(r.Code) {
			return 0, fmt.Errorf("the coordinate reference system %q is not AUTHORITY:NUMBER", r.Code)
		}
		s = c.OSRNewSpatialReference("")
		if c.OSRSetFromUserInput(s, r.Code) != 0 {
			c.OSRDestroySpatialReference(s)
			s = 0
		}
	}
	if s == 0 {
		return 0, fmt.Errorf("GDAL can't parse the coordinate reference system %v: %s", r,
			strings.Join(strings.Fields(c.CPLGetLastErrorMsg()), " "))
	}
	c.OSRSetAxisMappingStrategy(s, 0) // x before y, as in geotransforms
	return s, nil
}

var codePattern = lazyregexp.New(`^[A-Za-z_]+:[0-9]+$`)

func srsOfKeys(k *raster.GeoKeys) hSRS {
	path := fmt.Sprintf("/vsimem/leat-crs-%d.tif", serial.Add(1))
	b, err := fileOfKeys(k)
	if err != nil {
		return 0
	}
	f := c.VSIFOpenL(path, "wb")
	if f == 0 {
		return 0
	}
	defer c.VSIUnlink(path)
	written := c.VSIFWriteL(&b[0], 1, uintptr(len(b)), f)
	if c.VSIFCloseL(f) != 0 || written != uintptr(len(b)) {
		return 0
	}
	h := c.GDALOpenEx(path, openRaster, nil, nil, nil)
	if h == 0 {
		return 0
	}
	defer c.GDALClose(h)
	if s := c.GDALGetSpatialRef(h); s != 0 {
		return c.OSRClone(s)
	}
	return 0
}

// fileOfKeys returns a TIFF of one pixel with geo keys.
func fileOfKeys(k *raster.GeoKeys) ([]byte, error) {
	keys := *k
	keys.Directory = keys.Directory[:len(keys.Directory)&^3] // whole keys
	spec := &tiffwrite.FileSpec{Path: "geo keys", Width: 1, Height: 1, Bands: 1, Type: ndarray.Uint8, TileWidth: 16,
		TileHeight: 16, Grid: raster.Grid{Width: 1, Height: 1, CRS: raster.CRS{Keys: &keys},
			// Without a transform, some versions of GDAL ignore the keys.
			HasTransform: true, Transform: raster.Transform{0, 1, 0, 0, 0, -1}}}
	tile, err := tiffwrite.NewEncoder(spec.Shape(), spec.Coding).Encode(nil, make([]byte, spec.Shape().Bytes()))
	if err != nil {
		return nil, err
	}
	return tiffwrite.Single(spec, tile)
}
