package gdal

import (
	"errors"
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
	has := Driver{Options: creationOptions(list)}
	if len(has.Options) == 0 {
		return nil
	}
	var names []string
	for i := range has.Options {
		has.Options[i].vector = false
		names = append(names, has.Options[i].Name)
	}
	var errs []error
	for _, s := range r.OpenOptions {
		key, value, _ := strings.Cut(s, "=")
		if o := has.option(strings.TrimPrefix(key, "@")); o == nil {
			errs = append(errs, fmt.Errorf("%s: the driver %s has no open option %s; it has %s", r.Path, driver, key,
				strings.Join(names, ", ")))
		} else if fault := o.invalidReason(value); fault != "" {
			errs = append(errs, fmt.Errorf("%s: the open option %s of the driver %s can't be %q: %s", r.Path, o.Name,
				driver, value, fault))
		}
	}
	return errors.Join(errs...)
}
