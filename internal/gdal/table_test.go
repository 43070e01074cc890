package gdal

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// goTypes maps C's types to the Go types by which they are passed.
var goTypes = map[string][]string{
	"int": {"int32"}, "unsigned int": {"uint32"}, "double": {"float64"}, "size_t": {"uintptr"}, "int64_t": {"int64"},
	"uint64_t": {"uint64"},
	"GIntBig":  {"int64"}, "GUIntBig": {"uint64"}, "GSpacing": {"int64"}, "vsi_l_offset": {"uint64"},
	"CPLErr": {"int32"}, "CPLErrorNum": {"int32"}, "OGRErr": {"int32"}, "GDALDataType": {"int32"},
	"GDALRWFlag": {"int32"}, "GDALColorInterp": {"int32"}, "GDALPaletteInterp": {"int32"},
	"GDALRATFieldType": {"int32"}, "GDALRATFieldUsage": {"int32"}, "OSRAxisMappingStrategy": {"int32"},
	"OGRFieldType": {"int32"}, "GDALResampleAlg": {"int32"}, "OGRwkbGeometryType": {"int32"},
	"OGRwkbByteOrder": {"int32"}, "unsigned char *": {"*uint8"},
	"GDALMajorObjectH": {"gdal.hObject"}, "GDALDriverH": {"gdal.hDriver"}, "GDALDatasetH": {"gdal.hDataset"},
	"GDALRasterBandH": {"gdal.hBand"}, "OGRSpatialReferenceH": {"gdal.hSRS"},
	"GDALColorTableH": {"gdal.hColors"}, "GDALRasterAttributeTableH": {"gdal.hRAT"}, "VSILFILE *": {"gdal.hFile"},
	"GDALWarpOperationH": {"gdal.hOperation"},
	"OGRLayerH":          {"gdal.hLayer"}, "OGRFeatureDefnH": {"gdal.hDefinition"}, "OGRFieldDefnH": {"gdal.hField"},
	"OGRFeatureH": {"gdal.hFeature"}, "OGRGeometryH": {"gdal.hGeometry", "unsafe.Pointer"},
	"OGRCoordinateTransformationH": {"gdal.hTransformation"}, "GDALRasterizeOptions *": {"gdal.hBurning"},
	"GDALRasterizeOptionsForBinary *": {"unsafe.Pointer"}, "GDALWarpOptions *": {"*gdal.warpOptions"},
	"CPLErrorHandler": {"uintptr"}, "GDALProgressFunc": {"uintptr"}, "GDALColorEntry *": {"*gdal.colorEntry"},
	"GDALRasterIOExtraArg *": {"unsafe.Pointer"}, "GDAL_GCP *": {"unsafe.Pointer"}, "GByte *": {"unsafe.Pointer"},
	"char *": {"string", "unsafe.Pointer", "*uint8"}, "char **": {"unsafe.Pointer", "*unsafe.Pointer"},
	"CSLConstList": {"unsafe.Pointer"}, "GUIntBig **": {"*unsafe.Pointer"},
	"int *": {"*int32", "unsafe.Pointer"}, "double *": {"*float64"}, "vsi_l_offset *": {"*uint64"},
	"GUIntBig *": {"*uint64"}, "GIntBig *": {"*int64"}, "OGREnvelope *": {"*float64"},
	"OGRSpatialReferenceH *": {"unsafe.Pointer"}, "OGRGeometryH *": {"*gdal.hGeometry"}, "int **": {"*unsafe.Pointer"},
	"void *": {"unsafe.Pointer", "uintptr", "*uint8", "gdal.hTransformer"},
}

var spaces = regexp.MustCompile(`\s+`)

// plainType removes const and extra blanks from a C type: "char **".
func plainType(c string) string {
	c = regexp.MustCompile(`\bconst\b`).ReplaceAllString(c, " ")
	stars := strings.Count(c, "*")
	c = strings.TrimSpace(spaces.ReplaceAllString(strings.ReplaceAll(c, "*", " "), " "))
	if stars > 0 {
		c += " " + strings.Repeat("*", stars)
	}
	return c
}

// passes reports whether a value of the Go type can be passed as the C type.
func passes(g reflect.Type, c string) bool { return slices.Contains(goTypes[c], g.String()) }

// parts splits a prototype "result (a, b)".
func parts(prototype string) (result string, args []string) {
	at := strings.Index(prototype, "(")
	inner := strings.TrimSuffix(strings.TrimSpace(prototype[at+1:]), ")")
	for _, a := range strings.Split(inner, ",") {
		if a = plainType(a); a != "void" {
			args = append(args, a)
		}
	}
	return plainType(prototype[:at]), args
}

// prototypes returns the C prototypes of all functions of the table by name.
func prototypes(t *testing.T) map[string]string {
	b, err := os.ReadFile("testdata/prototypes.txt")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if name, prototype, ok := strings.Cut(strings.TrimSpace(line), " | "); ok && line[0] != '#' {
			list[name] = prototype
		}
	}
	for _, f := range functions() {
		if list[f.name] == "" {
			t.Fatalf("%s has no prototype", f.name)
		}
	}
	return list
}

func TestGoTypesMatchPrototypes(t *testing.T) {
	list := prototypes(t)
	for _, f := range functions() {
		result, args := parts(list[f.name])
		g := f.value.Type()
		switch {
		case result == "void" && g.NumOut() != 0, result != "void" && (g.NumOut() != 1 || !passes(g.Out(0), result)):
			t.Errorf("%s returns %s, which is not what %v does", f.name, result, g)
		}
		if g.NumIn() != len(args) {
			t.Errorf("%s takes %d arguments, %v takes %d", f.name, len(args), g, g.NumIn())
			continue
		}
		for i, a := range args {
			if !passes(g.In(i), a) {
				t.Errorf("%s: argument %d is %s, not %v", f.name, i+1, a, g.In(i))
			}
		}
	}
}

// inHeader finds the declaration of a function.
func inHeader(headers, name string) (result string, args []string, ok bool) {
	m := regexp.MustCompile(`(?:^|[;{}"])([^;{}"()]*?)\b` + name + `\s*\(([^;{}()]*)\)`).FindStringSubmatch(headers)
	if m == nil {
		return "", nil, false
	}
	result = regexp.MustCompile(`\b(CPL_DLL|CPL_STDCALL|extern)\b`).ReplaceAllString(m[1], " ")
	for _, a := range strings.Split(m[2], ",") {
		a = strings.TrimSpace(spaces.ReplaceAllString(a, " "))
		// The argument's name, if any, follows its type.
		if n := regexp.MustCompile(`^(.*[\s*])(\w+)(\[\])?$`).FindStringSubmatch(a); n != nil &&
			goTypes[plainType(a)] == nil {
			a = n[1]
		}
		if a = plainType(a); a != "void" && a != "" {
			args = append(args, a)
		}
	}
	return plainType(result), args, true
}

func TestPrototypesMatchHeaders(t *testing.T) {
	dir := os.Getenv("GDAL_INCLUDE")
	if dir == "" {
		dir = "/usr/include/gdal"
	}
	var headers strings.Builder
	for _, name := range []string{"ogr_core.h", "cpl_error.h", "cpl_conv.h", "cpl_string.h", "cpl_vsi.h", "gdal.h",
		"ogr_srs_api.h", "ogr_api.h", "gdal_alg.h", "gdal_utils.h", "gdalwarper.h"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Skipf("skipped: GDAL's headers are not at %s (Debian: apt-get install libgdal-dev), nor where GDAL_INCLUDE says", dir)
		}
		headers.Write(b)
	}
	text := headers.String()
	for _, re := range []string{`(?s)/\*.*?\*/`, `//[^\n]*`, `(?m)^[ \t]*#(.*\\\n)*.*$`,
		`CPL_WARN_DEPRECATED\s*\(("[^"]*"|\s|[^()"])*\)`} {
		text = regexp.MustCompile(re).ReplaceAllString(text, " ")
	}
	list := prototypes(t)
	for _, f := range functions() {
		result, args, ok := inHeader(text, f.name)
		if !ok {
			t.Errorf("%s is not declared", f.name)
			continue
		}
		wantResult, want := parts(list[f.name])
		// These two return a value since 3.7, which is ignored.
		if (f.name == "GDALClose" || f.name == "GDALFlushCache") && result == "CPLErr" {
			result = "void"
		}
		if result != wantResult || !reflect.DeepEqual(args, want) {
			t.Errorf("%s is declared as %s %q, and in the table as %s %q", f.name, result, args, wantResult, want)
		}
	}
}

func TestColorEntrySize(t *testing.T) {
	if n := unsafe.Sizeof(colorEntry{}); n != 8 {
		t.Errorf("%d bytes, not 8", n)
	}
}
