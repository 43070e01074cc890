package apply

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"leat/worker"
)

// glances is how often a run that reads looks whether its inputs are being written to, so that it does not go on for hours.
const glances = 5 * time.Second

// changedInput is about an input that was written to while it was read: blocks are of more than one state of it, and so no use to any run.
type changedInput struct{ path string }

func (e *changedInput) Error() string {
	return e.path + " was written to while it was read, so that its pixels may be of several states: run again when it is whole, and replace inputs of a run by renaming"
}

// Code is how a run knows it of a worker.
func (e *changedInput) Code() string { return "input-changed" }

// isChangedInput reports whether a run failed since an input was changed, as it or a worker has seen.
func isChangedInput(err error) bool {
	var f *worker.Failure
	var c *changedInput
	return errors.As(err, &c) || errors.As(err, &f) && f.Code == c.Code()
}

// unchanged is an error when a file was written to since it was opened. One that was put in the place of another is none: what is open stays as it was, and workers refuse what
// they find instead.
func (f *inputFile) unchanged() error {
	if f.version.given || f.version.remote || len(f.layers) == 0 {
		return nil
	}
	local := localFile(f.from)
	if local == "" {
		return nil
	}
	if now, there := stateOf(local); there && now.Inode == f.version.Inode && now != f.version.fileState {
		return &changedInput{f.path}
	}
	for _, key := range sortedKeys(f.version.Beside) {
		// Programs that show a raster write statistics to the one; GDAL opens others when it needs them, by their names.
		if strings.HasSuffix(key, ".aux.xml") {
			continue
		}
		if now, there := stateOf(besideName(local, key)); there && now != f.version.Beside[key] {
			return &changedInput{besideName(f.path, key)}
		}
	}
	return nil
}

// unchanged is an error when one of the files was written to since it was opened.
func (in *inputs) unchanged() error {
	for _, f := range in.files {
		if err := f.unchanged(); err != nil {
			return fmt.Errorf("input %s: %w", f.input, err)
		}
	}
	return nil
}

// glance is unchanged, now and then.
func (in *inputs) glance() error {
	now := time.Now().UnixNano()
	last := in.looked.Load()
	if now-last < int64(glances) || !in.looked.CompareAndSwap(last, now) {
		return nil
	}
	return in.unchanged()
}
