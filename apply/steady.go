package apply

import (
	"fmt"
	"strings"
)

// Rasters that leat opens itself are read through one open file each, whatever becomes of its name. GDAL opens the files behind a raster again, and those of a VRT when they
// are needed, so that a run could read two versions of one: it looks when all is read.

// unchanged makes sure that the files that GDAL reads are what they were when they were opened.
func (in *inputs) unchanged() error {
	for _, f := range in.files {
		if !f.byGDAL() || f.remote != nil || f.version.given || len(f.layers) == 0 {
			continue
		}
		if text := f.version.changed(localFile(f.from), f.path); text != "" {
			return fmt.Errorf("input %s: %s while it was read: run again when it is whole", f.input, text)
		}
	}
	return nil
}

// changed says how the files differ from what they were, "" where they do not; path is what people call the first one. Files of metadata do not count: what they say was
// read when the raster was opened, and programs that show one write statistics there.
func (v *fileVersion) changed(local, path string) string {
	now, _ := stateOf(local)
	if text := v.fileState.change(now); text != "" {
		return path + " " + text
	}
	for _, key := range sortedKeys(v.Beside) {
		if strings.HasSuffix(key, ".aux.xml") {
			continue
		}
		now, _ := stateOf(besideName(local, key))
		if text := v.Beside[key].change(now); text != "" {
			return besideName(path, key) + " " + text
		}
	}
	return ""
}
