package gdal

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"leat/raster"
)

// CRSs are compared by EPSG code where they have one, and else by geo keys (raster.CRS.Equal). GDAL
// holds a CRS as an object of PROJ. Its GeoTIFF driver converts between such objects and geo keys,
// by way of a file of one pixel in memory; so CRSs read by the native driver and those read here
// compare, and a CRS without a code can be written to a GeoTIFF.

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
// of 2019 is not always the same: it says whether WGS 84 is a datum ensemble, which depends on what
// GDAL's GeoTIFF driver looked up earlier on the thread.
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

// minConfidence is PROJ's confidence from which a CRS has a code even if its name is spelled
// differently.
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
	keys := parseKeys(unsafe.Slice((*byte)(b), n))
	if keys == nil {
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

var codePattern = regexp.MustCompile(`^[A-Za-z_]+:[0-9]+$`)

func srsOfKeys(k *raster.GeoKeys) hSRS {
	path := fmt.Sprintf("/vsimem/leat-crs-%d.tif", serial.Add(1))
	b := fileOfKeys(k)
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

// Tags of the geo keys.
const (
	tagKeys    = 34735
	tagDoubles = 34736
	tagASCII   = 34737
)

// fileOfKeys returns a little-endian TIFF of one pixel with geo keys.
func fileOfKeys(k *raster.GeoKeys) []byte {
	le := binary.LittleEndian
	var keys, doubles []byte
	for _, v := range k.Directory {
		keys = le.AppendUint16(keys, v)
	}
	for _, v := range k.Doubles {
		doubles = le.AppendUint64(doubles, math.Float64bits(v))
	}
	const short, long, double, ascii = 3, 4, 12, 2
	entries := []struct {
		tag, typ uint16
		count    int
		value    uint32
		data     []byte
	}{
		{256, short, 1, 1, nil}, {257, short, 1, 1, nil}, {258, short, 1, 8, nil}, {259, short, 1, 1, nil},
		{262, short, 1, 1, nil},
		{273, long, 1, 0, []byte{0}}, {277, short, 1, 1, nil}, {278, short, 1, 1, nil}, {279, long, 1, 1, nil},
		{33550, double, 3, 0, make([]byte, 24)}, // without scale and tie point, some versions ignore the keys
		{33922, double, 6, 0, make([]byte, 48)},
		{tagKeys, short, len(k.Directory), 0, keys}, {tagDoubles, double, len(k.Doubles), 0, doubles},
		{tagASCII, ascii, len(k.ASCII) + 1, 0, append([]byte(k.ASCII), 0)},
	}
	le.PutUint64(entries[9].data, math.Float64bits(1))
	le.PutUint64(entries[9].data[8:], math.Float64bits(1))
	n := len(entries)
	if len(doubles) == 0 {
		n--
	}
	b := le.AppendUint32([]byte("II*\x00"), 8)
	b = le.AppendUint16(b, uint16(n))
	at := len(b) + 12*n + 4
	var tail []byte
	for _, e := range entries {
		if e.count == 0 {
			continue
		}
		b = le.AppendUint16(le.AppendUint16(b, e.tag), e.typ)
		b = le.AppendUint32(b, uint32(e.count))
		switch {
		case e.data == nil:
			b = le.AppendUint32(b, e.value)
		case len(e.data) <= 4 && e.tag != 273:
			b = append(append(b, e.data...), make([]byte, 4-len(e.data))...)
		default:
			b = le.AppendUint32(b, uint32(at+len(tail)))
			tail = append(tail, e.data...)
			if len(tail)%2 == 1 {
				tail = append(tail, 0)
			}
		}
	}
	return append(le.AppendUint32(b, 0), tail...)
}

// parseKeys returns the geo keys of a classic TIFF written by GDAL, or nil.
func parseKeys(b []byte) *raster.GeoKeys {
	if len(b) < 8 {
		return nil
	}
	var order binary.ByteOrder = binary.LittleEndian
	if b[0] == 'M' {
		order = binary.BigEndian
	}
	at := int(order.Uint32(b[4:]))
	if at+2 > len(b) {
		return nil
	}
	k := &raster.GeoKeys{}
	for range order.Uint16(b[at:]) {
		e := b[at+2:]
		if len(e) < 12 {
			return nil
		}
		at += 12
		size := map[uint16]int{2: 1, 3: 2, 12: 8}[order.Uint16(e[2:])] * int(order.Uint32(e[4:]))
		data := e[8:12]
		if size > 4 {
			from := int(order.Uint32(e[8:]))
			if from+size > len(b) {
				return nil
			}
			data = b[from : from+size]
		}
		switch order.Uint16(e) {
		case tagKeys:
			for i := 0; i+2 <= size; i += 2 {
				k.Directory = append(k.Directory, order.Uint16(data[i:]))
			}
		case tagDoubles:
			for i := 0; i+8 <= size; i += 8 {
				k.Doubles = append(k.Doubles, math.Float64frombits(order.Uint64(data[i:])))
			}
		case tagASCII:
			k.ASCII = strings.TrimRight(string(data[:size]), "\x00")
		}
	}
	if len(k.Directory) <= 4 {
		return nil
	}
	return k
}
