package gdal

import (
	"fmt"
	"strings"

	"leat/raster"
)

// Subdataset is one of several rasters in a file.
type Subdataset struct {
	Name        string // as Open takes it, such as NETCDF:"a.nc":temperature
	Description string
}

// SubdatasetsError is returned for a file that holds several rasters but none of its own. It wraps
// raster.ErrUnsupported.
type SubdatasetsError struct {
	Path, Driver string
	Subdatasets  []Subdataset
	Metadata     map[string]string // of the file
}

// maxListed bounds the number of rasters that an error names.
const maxListed = 20

func (e *SubdatasetsError) Error() string {
	var list []string
	for i, s := range e.Subdatasets {
		if i == maxListed {
			list = append(list, fmt.Sprintf("and %d more", len(e.Subdatasets)-maxListed))
			break
		}
		list = append(list, fmt.Sprintf("%s (%s)", s.Name, s.Description))
	}
	return fmt.Sprintf("%s: it holds several rasters; name one of them instead: %s (%v)", e.Path,
		strings.Join(list, ", "), raster.ErrUnsupported)
}

func (e *SubdatasetsError) Unwrap() error { return raster.ErrUnsupported }

// Subdatasets lists the file's other rasters; most files have none.
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
