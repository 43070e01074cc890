package gdal

import (
	"reflect"
	"strconv"
	"unsafe"
)

// Handles of GDAL's objects.
type (
	hObject  uintptr // GDALMajorObjectH: any of the next three
	hDriver  uintptr
	hDataset uintptr
	hBand    uintptr
	hSRS     uintptr // OGRSpatialReferenceH
	hColors  uintptr // GDALColorTableH
	hRAT     uintptr // GDALRasterAttributeTableH
	hFile    uintptr // VSILFILE *
)

// c holds the functions of libgdal once load has returned nil, in fields of their names. No
// compiler checks their types. Tests compare them with the C prototypes in testdata/prototypes.txt,
// compare these with GDAL's headers if installed, and call every function. Strings that C returns
// are copied; const char * arguments must not contain NUL. Lists of strings and optional pointers
// are unsafe.Pointer.
//
// To add functions, embed another struct of such fields.
var c struct {
	portabilityAPI
	driverAPI
	datasetAPI
	bandAPI
	tableAPI
	referenceAPI
	warpAPI
	vectorAPI
}

// portabilityAPI holds functions of https://gdal.org/en/stable/api/cpl.html
type portabilityAPI struct {
	CPLErrorReset       func()
	CPLGetLastErrorNo   func() int32
	CPLGetLastErrorType func() int32
	CPLGetLastErrorMsg  func() string
	CPLSetErrorHandler  func(handler uintptr) uintptr
	CPLSetConfigOption  func(key, value string)
	CPLGetConfigOption  func(key, unset string) string
	VSIFree             func(memory unsafe.Pointer)
	CSLDestroy          func(list unsafe.Pointer)
	VSIFOpenL           func(path, access string) hFile
	VSIFWriteL          func(b *byte, size, count uintptr, f hFile) uintptr
	VSIFCloseL          func(f hFile) int32
	VSIUnlink           func(path string) int32
	VSIGetMemFileBuffer func(path string, size *uint64, seize int32) unsafe.Pointer
}

// driverAPI holds drivers and metadata of https://gdal.org/en/stable/api/raster_c_api.html
type driverAPI struct {
	GDALVersionInfo           func(request string) string
	GDALAllRegister           func()
	GDALSetCacheMax64         func(bytes int64)
	GDALGetCacheMax64         func() int64
	GDALGetDriverCount        func() int32
	GDALGetDriver             func(i int32) hDriver
	GDALGetDriverByName       func(name string) hDriver
	GDALGetDescription        func(o hObject) string
	GDALSetDescription        func(o hObject, text string)
	GDALGetMetadata           func(o hObject, domain string) unsafe.Pointer
	GDALGetMetadataItem       func(o hObject, name, domain string) string
	GDALGetMetadataDomainList func(o hObject) unsafe.Pointer
	GDALSetMetadataItem       func(o hObject, name, value, domain string) int32
	GDALCreate                func(d hDriver, path string, width, height, bands, typ int32,
		options unsafe.Pointer) hDataset
	GDALCreateCopy func(d hDriver, path string, from hDataset, strict int32, options unsafe.Pointer,
		progress, data uintptr) hDataset
}

// datasetAPI holds datasets of https://gdal.org/en/stable/api/raster_c_api.html. Since 3.7
// GDALClose and GDALFlushCache return a CPLErr, which is ignored: all versions also record the
// error.
type datasetAPI struct {
	GDALOpenEx            func(path string, flags uint32, drivers, options, siblings unsafe.Pointer) hDataset
	GDALClose             func(d hDataset)
	GDALFlushCache        func(d hDataset)
	GDALGetDatasetDriver  func(d hDataset) hDriver
	GDALGetFileList       func(d hDataset) unsafe.Pointer
	GDALGetRasterXSize    func(d hDataset) int32
	GDALGetRasterYSize    func(d hDataset) int32
	GDALGetRasterCount    func(d hDataset) int32
	GDALGetRasterBand     func(d hDataset, number int32) hBand
	GDALGetGeoTransform   func(d hDataset, six *float64) int32
	GDALSetGeoTransform   func(d hDataset, six *float64) int32
	GDALGetSpatialRef     func(d hDataset) hSRS
	GDALSetSpatialRef     func(d hDataset, s hSRS) int32
	GDALGetGCPCount       func(d hDataset) int32
	GDALGetGCPSpatialRef  func(d hDataset) hSRS
	GDALGetGCPs           func(d hDataset) unsafe.Pointer
	GDALSetGCPs2          func(d hDataset, count int32, list unsafe.Pointer, s hSRS) int32
	GDALDatasetRasterIOEx func(d hDataset, write, col, row, width, height int32, pixels unsafe.Pointer, toWidth,
		toHeight, typ, count int32, bands *int32, pixelStep, lineStep, bandStep int64, extra unsafe.Pointer) int32
	GDALBuildOverviews func(d hDataset, resampling string, levels int32, factors *int32, bands int32, list *int32,
		progress, data uintptr) int32
}

// bandAPI holds bands of https://gdal.org/en/stable/api/raster_c_api.html
type bandAPI struct {
	GDALRasterIOEx func(b hBand, write, col, row, width, height int32, pixels unsafe.Pointer,
		toWidth, toHeight, typ int32, pixelStep, lineStep int64, extra unsafe.Pointer) int32
	GDALGetRasterDataType            func(b hBand) int32
	GDALGetBlockSize                 func(b hBand, width, height *int32)
	GDALGetRasterNoDataValue         func(b hBand, ok *int32) float64
	GDALGetRasterNoDataValueAsInt64  func(b hBand, ok *int32) int64  `since:"3050000"`
	GDALGetRasterNoDataValueAsUInt64 func(b hBand, ok *int32) uint64 `since:"3050000"`
	GDALSetRasterNoDataValue         func(b hBand, v float64) int32
	GDALSetRasterNoDataValueAsInt64  func(b hBand, v int64) int32  `since:"3050000"`
	GDALSetRasterNoDataValueAsUInt64 func(b hBand, v uint64) int32 `since:"3050000"`
	GDALGetRasterScale               func(b hBand, ok *int32) float64
	GDALGetRasterOffset              func(b hBand, ok *int32) float64
	GDALSetRasterScale               func(b hBand, v float64) int32
	GDALSetRasterOffset              func(b hBand, v float64) int32
	GDALGetRasterUnitType            func(b hBand) string
	GDALSetRasterUnitType            func(b hBand, unit string) int32
	GDALGetRasterColorInterpretation func(b hBand) int32
	GDALSetRasterColorInterpretation func(b hBand, color int32) int32
	GDALGetMaskFlags                 func(b hBand) int32
	GDALGetMaskBand                  func(b hBand) hBand
	GDALGetOverviewCount             func(b hBand) int32
	GDALGetOverview                  func(b hBand, i int32) hBand
	GDALGetRasterBandXSize           func(b hBand) int32
	GDALGetRasterBandYSize           func(b hBand) int32
	GDALComputeRasterStatistics      func(b hBand, approximate int32, lowest, highest, mean, deviation *float64,
		progress, data uintptr) int32
	GDALSetRasterStatistics   func(b hBand, lowest, highest, mean, deviation float64) int32
	GDALGetDefaultHistogramEx func(b hBand, lowest, highest *float64, buckets *int32, counts *unsafe.Pointer,
		force int32, progress, data uintptr) int32
	GDALSetDefaultHistogramEx func(b hBand, lowest, highest float64, buckets int32, counts *uint64) int32
}

// tableAPI holds colour tables, categories and attribute tables of
// https://gdal.org/en/stable/api/raster_c_api.html
type tableAPI struct {
	GDALGetRasterColorTable    func(b hBand) hColors
	GDALSetRasterColorTable    func(b hBand, t hColors) int32
	GDALCreateColorTable       func(interpretation int32) hColors
	GDALDestroyColorTable      func(t hColors)
	GDALGetColorEntryCount     func(t hColors) int32
	GDALGetColorEntryAsRGB     func(t hColors, i int32, e *colorEntry) int32
	GDALSetColorEntry          func(t hColors, i int32, e *colorEntry)
	GDALGetRasterCategoryNames func(b hBand) unsafe.Pointer
	GDALSetRasterCategoryNames func(b hBand, names unsafe.Pointer) int32
	GDALGetDefaultRAT          func(b hBand) hRAT
	GDALRATGetColumnCount      func(t hRAT) int32
	GDALRATGetRowCount         func(t hRAT) int32
	GDALRATGetNameOfCol        func(t hRAT, col int32) string
	GDALRATGetTypeOfCol        func(t hRAT, col int32) int32
	GDALRATGetUsageOfCol       func(t hRAT, col int32) int32
	GDALRATGetValueAsString    func(t hRAT, row, col int32) string
	GDALRATValuesIOAsDouble    func(t hRAT, write, col, row, rows int32, values *float64) int32
	GDALRATValuesIOAsInteger   func(t hRAT, write, col, row, rows int32, values *int32) int32
}

// colorEntry is GDALColorEntry.
type colorEntry struct{ c1, c2, c3, c4 int16 }

// referenceAPI holds functions of https://gdal.org/en/stable/api/ogr_srs_api.html
type referenceAPI struct {
	OSRNewSpatialReference     func(wkt string) hSRS
	OSRDestroySpatialReference func(s hSRS)
	OSRClone                   func(s hSRS) hSRS
	OSRGetName                 func(s hSRS) string
	OSRGetAuthorityName        func(s hSRS, node unsafe.Pointer) string
	OSRGetAuthorityCode        func(s hSRS, node unsafe.Pointer) string
	OSRExportToWktEx           func(s hSRS, text *unsafe.Pointer, options unsafe.Pointer) int32
	OSRIsCompound              func(s hSRS) int32
	OSRIsProjected             func(s hSRS) int32
	OSRFindMatches             func(s hSRS, options unsafe.Pointer, count *int32,
		confidences *unsafe.Pointer) unsafe.Pointer
	OSRFreeSRSArray                func(list unsafe.Pointer)
	OSRSetFromUserInput            func(s hSRS, text string) int32
	OSRIsSameEx                    func(a, b hSRS, options unsafe.Pointer) int32
	OSRGetDataAxisToSRSAxisMapping func(s hSRS, count *int32) unsafe.Pointer
	OSRSetAxisMappingStrategy      func(s hSRS, strategy int32)
	OSRGetPROJVersion              func(major, minor, patch *int32)
}

// function is an entry of the table.
type function struct {
	name  string
	since int           // first GDAL version that has it; 0 if every supported version does
	value reflect.Value // the field of c, settable
}

// functions lists the entries of the table.
func functions() []function {
	var list []function
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Anonymous {
				// The embedded structs are not exported, but their fields are, and can be set.
				walk(v.Field(i))
				continue
			}
			since, _ := strconv.Atoi(f.Tag.Get("since"))
			list = append(list, function{f.Name, since, v.Field(i)})
		}
	}
	walk(reflect.ValueOf(&c).Elem())
	return list
}
