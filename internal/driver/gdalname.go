package driver

import "strings"

// GDALName returns the name by which GDAL's programs open a file: the path, or for a URL its name
// in GDAL's virtual file systems.
func GDALName(path string) string {
	scheme, rest, ok := strings.Cut(path, "://")
	if !ok {
		return path
	}
	switch scheme {
	case "http", "https":
		return "/vsicurl/" + path
	case "s3":
		return "/vsis3/" + rest
	case "gs":
		return "/vsigs/" + rest
	case "azblob":
		return "/vsiaz/" + rest
	}
	return path
}
