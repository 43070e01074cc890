package gdal

import (
	"strings"
	"testing"
)

func TestAMethodWhosePixelsDependOnWindowsIsNotOffered(t *testing.T) {
	err := CheckMethod("sum")
	if err == nil || !strings.Contains(err.Error(), "average") {
		t.Errorf("%v", err)
	}
	for _, name := range Methods() {
		if methods[name].number == 13 {
			t.Errorf("%s is GDAL's sum", name)
		}
	}
}
