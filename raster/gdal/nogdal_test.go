//go:build nogdal

package gdal

import (
	"errors"
	"testing"
)

func TestWithoutGDALEveryCallSaysSo(t *testing.T) {
	_, open := Open("a.tif", nil)
	_, create := Create("a.img", &Spec{})
	_, drivers := Drivers()
	_, driver := DriverByName("HFA")
	_, version := Version()
	for name, err := range map[string]error{"Open": open, "Create": create, "Drivers": drivers, "DriverByName": driver, "Version": version, "Available": Available(), "SetCacheBytes": SetCacheBytes(1)} {
		if !errors.Is(err, ErrAbsent) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		holds(t, err, "built without GDAL")
	}
}
