package gdal

import (
	"fmt"
	"strings"

	"leat/raster"
)

// Subdataset is one of several rasters that a file holds.
type Subdataset struct {
	Name        string // under which Open takes it, such as NETCDF:"a.nc":temperature
	Description string
}

// SubdatasetsError: the file holds several rasters and none of its own. It wraps raster.ErrUnsupported.
type SubdatasetsError struct {
	Path, Driver string
	Subdatasets  []Subdataset
	Metadata     map[string]string // of the file
}

// maxNamed is how many rasters an error names.
const maxNamed = 20

func (e *SubdatasetsError) Error() string {
	var list []string
	for i, s := range e.Subdatasets {
		if i == maxNamed {
			list = append(list, fmt.Sprintf("and %d more", len(e.Subdatasets)-maxNamed))
			break
		}
		list = append(list, fmt.Sprintf("%s (%s)", s.Name, s.Description))
	}
	return fmt.Sprintf("%s: it holds several rasters; name one of them instead: %s (%v)", e.Path, strings.Join(list, ", "), raster.ErrUnsupported)
}

func (e *SubdatasetsError) Unwrap() error { return raster.ErrUnsupported }

// Subdatasets lists the rasters that the file holds besides this one, or that it is one of; none for most.
func (f *File) Subdatasets() []Subdataset { return f.sub }

func subdatasets(h hDataset) (list []Subdataset) {
	sub := items(goStrings(c.GDALGetMetadata(hObject(h), "SUBDATASETS")))
	for n := 1; ; n++ {
		name, ok := sub[fmt.Sprintf("SUBDATASET_%d_NAME", n)]
		if !ok {
			return list
		}
		list = append(list, Subdataset{name, sub[fmt.Sprintf("SUBDATASET_%d_DESC", n)]})
	}
}
