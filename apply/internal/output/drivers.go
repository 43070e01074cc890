package output

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/internal/gdal"
)

// endings maps file name endings to GDAL's names of formats.
var endings = map[string]string{
	".asc": "AAIGrid", ".bil": "EHdr", ".bmp": "BMP", ".bt": "BT", ".envi": "ENVI", ".ers": "ERS", ".gif": "GIF",
	".gpkg": "GPKG", ".grib": "GRIB", ".grb2": "GRIB", ".h5": "BAG",
	".hdf": "HDF4Image", ".img": "HFA", ".j2k": "JP2OpenJPEG", ".jp2": "JP2OpenJPEG", ".jpeg": "JPEG", ".jpg": "JPEG",
	".kea": "KEA", ".kro": "KRO", ".mbtiles": "MBTiles", ".mrf": "MRF",
	".nc": "netCDF", ".ntf": "NITF", ".pix": "PCIDSK", ".png": "PNG", ".rst": "RST", ".sdat": "SAGA", ".vrt": "VRT",
	".webp": "WEBP", ".xyz": "XYZ", ".zarr": "Zarr",
}

const geoTIFF = "GeoTIFF"

// wellKnown are formats whose endings belong to them alone: no format without an ending of its own
// may use them.
var wellKnown = []string{"GIF", "GPKG", "JP2OpenJPEG", "JPEG", "netCDF", "PNG", "WEBP"}

// otherEnding returns the format that a name's ending belongs to if it is not d, and "" if the name
// may be that of a file of format d. If d has no ending of its own, only the endings of well-known
// formats count: ENVI's files often end in .img.
func otherEnding(d *gdal.Driver, path string) string {
	ext := strings.ToLower(filepath.Ext(path))
	owner := endings[ext]
	switch {
	case len(ext) < 2 || owner == d.Name || hasEnding(d, ext):
		return ""
	case ext == ".tif" || ext == ".tiff":
		return geoTIFF
	case len(d.Extensions) == 0 && !slices.Contains(wellKnown, owner):
		return ""
	}
	return owner
}

func hasEnding(d *gdal.Driver, ext string) bool {
	return slices.ContainsFunc(d.Extensions, func(e string) bool { return strings.EqualFold(e, ext[1:]) })
}

// usualEnding returns the ending of a format, "" if it has none.
func usualEnding(d *gdal.Driver) string {
	if len(d.Extensions) > 0 {
		return "." + d.Extensions[0]
	}
	for _, ext := range slices.Sorted(maps.Keys(endings)) {
		if endings[ext] == d.Name {
			return ext
		}
	}
	return ""
}

// writableFormat looks up a format of rasters that GDAL can write.
func writableFormat(name string) (gdal.Driver, error) {
	all, err := gdal.Drivers()
	if err != nil {
		return gdal.Driver{}, err
	}
	i := slices.IndexFunc(all, func(d gdal.Driver) bool { return strings.EqualFold(d.Name, name) })
	if i < 0 {
		return gdal.Driver{}, jobspec.Errorf("Output.Format", "%w", gdal.UnknownDriver(all, name))
	}
	d := all[i]
	switch {
	case d.Name == "VRT":
		return d, jobspec.Errorf("Output.Format", "a VRT holds no pixels, expected another format")
	case !d.Write:
		return d, jobspec.Errorf("Output.Format", "GDAL can't write rasters of the format %s (%s)", d.Name, d.LongName)
	}
	return d, nil
}
