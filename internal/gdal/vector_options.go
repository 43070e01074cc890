package gdal

import (
	"fmt"
	"strings"
)

// checkOpenOptions returns an error for open options that the driver of an open source does not
// have, or whose values it does not accept: GDAL only warns, and would ignore a misspelt one.
// Options of a driver without a list are not checked.
func (r *VectorRequest) checkOpenOptions(from hDataset) error {
	if len(r.OpenOptions) == 0 {
		return nil
	}
	var driver, list string
	onThread(func() {
		d := hObject(c.GDALGetDatasetDriver(from))
		driver, list = c.GDALGetDescription(d), c.GDALGetMetadataItem(d, "DMD_OPENOPTIONLIST", "")
	})
	has := creationOptions(list)
	if len(has) == 0 {
		return nil
	}
	var options []string
	for _, o := range r.OpenOptions {
		options = append(options, strings.TrimPrefix(o, "@"))
	}
	if err := checkOptions("open option", "the driver "+driver, has, options); err != nil {
		return fmt.Errorf("%s: %w", r.name(), err)
	}
	return nil
}
