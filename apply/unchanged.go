package apply

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"leat/worker"
)

// glances is how often a run that reads looks whether its inputs are being written to, so that it does not go on for hours.
const glances = 5 * time.Second

// changedInput is about an input that was changed while it was read: blocks are of more than one state of it, and so no use to any run.
type changedInput struct {
	what string // became of which file
	tip  string
}

func (e *changedInput) Error() string {
	return e.what + " while it was read, so that its pixels may be of several states: run again when it is whole" + e.tip
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
// they find instead. But GDAL opens the files behind a raster again, and those of a VRT when they are needed: there another file is an error too.
func (f *inputFile) unchanged() error {
	if f.version.given || f.version.remote || len(f.layers) == 0 {
		return nil
	}
	local := localFile(f.from)
	if f.byGDAL() {
		if what := f.version.changed(local, f.path); what != "" {
			return &changedInput{what: what}
		}
		return nil
	}
	if now, there := stateOf(local); there && now.Inode == f.version.Inode && now != f.version.fileState {
		return writtenTo(f.path)
	}
	for key := range f.version.beside() {
		if now, there := stateOf(besideName(local, key)); there && now != f.version.Beside[key] {
			return writtenTo(besideName(f.path, key))
		}
	}
	return nil
}

func writtenTo(path string) error {
	return &changedInput{path + " was written to", ", and replace inputs of a run by renaming"}
}

// changed says how the files differ from what they were, "" where they do not; path is what people call the first one.
func (v *fileVersion) changed(local, path string) string {
	now, _ := stateOf(local)
	if text := v.fileState.change(now); text != "" {
		return path + " " + text
	}
	for key := range v.beside() {
		now, _ := stateOf(besideName(local, key))
		if text := v.Beside[key].change(now); text != "" {
			return besideName(path, key) + " " + text
		}
	}
	return ""
}

// beside yields the files beside the first one, but for metadata: what they say was read when the raster was opened, and programs that show one write statistics there.
func (v *fileVersion) beside() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, key := range sortedKeys(v.Beside) {
			if !strings.HasSuffix(key, ".aux.xml") && !yield(key) {
				return
			}
		}
	}
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
