package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"leat/apply/internal/jobspec"
	"leat/worker"
)

// checkInputsEvery is how often a run checks whether its inputs are being written to, so that it
// does not continue for hours.
const checkInputsEvery = 5 * time.Second

// inputChangedError is returned when an input was changed while it was read: the blocks are of more
// than one state of it and can't be resumed.
type inputChangedError struct {
	what string // the file and what happened to it
	tip  string
}

func (e *inputChangedError) Error() string {
	return e.what + " while it was read, so that its pixels may be of several versions: run again when it is complete" +
		e.tip
}

// Code is the word that identifies this error in a worker's message.
func (e *inputChangedError) Code() string { return "input-changed" }

// isInputChanged reports whether a run failed because this process or a worker found an input
// changed.
func isInputChanged(err error) bool {
	var f *worker.Failure
	var c *inputChangedError
	return errors.As(err, &c) || errors.As(err, &f) && slices.Contains(strings.Split(f.Code, ";"), c.Code())
}

// checkUnchanged returns an error if a file was written to since it was opened. A file that another
// one replaced is no error: the open one stays as it was, and workers reject the other. GDAL,
// however, opens the files behind a raster again, and those of a VRT on demand, so for its rasters
// a replaced file is an error too.
func (f *inputFile) checkUnchanged() error {
	if f.version.Given || f.version.Remote || len(f.layers) == 0 {
		return nil
	}
	local := localFile(f.from)
	if f.byGDAL() {
		if what := changeOf(&f.version, local, f.path); what != "" {
			return &inputChangedError{what: what}
		}
		return nil
	}
	if now, there := stateOf(local); there && now.Inode == f.version.Inode && now != f.version.FileState {
		return writtenTo(f.path)
	}
	for key := range f.version.ContentSidecars() {
		if now, there := stateOf(jobspec.SidecarName(local, key)); there && now != f.version.Sidecars[key] {
			return writtenTo(jobspec.SidecarName(f.path, key))
		}
	}
	return nil
}

func writtenTo(path string) error {
	return &inputChangedError{path + " was written to", ", and replace inputs of a run by renaming"}
}

// changeOf describes how the files differ from their version; "" if they do not. path is the user's
// name of the first one.
func changeOf(v *jobspec.FileVersion, local, path string) string {
	now, _ := stateOf(local)
	if text := v.FileState.Changes(now); text != "" {
		return path + " " + text
	}
	for key := range v.ContentSidecars() {
		now, _ := stateOf(jobspec.SidecarName(local, key))
		if text := v.Sidecars[key].Changes(now); text != "" {
			return jobspec.SidecarName(path, key) + " " + text
		}
	}
	return ""
}

// checkUnchanged returns an error if one of the files was written to since it was opened.
func (in *inputs) checkUnchanged() error {
	for _, f := range in.files {
		if err := f.checkUnchanged(); err != nil {
			return fmt.Errorf("input %s: %w", f.input, err)
		}
	}
	return nil
}

// checkUnchangedSometimes calls checkUnchanged unless that was done less than checkInputsEvery ago.
func (in *inputs) checkUnchangedSometimes() error {
	now := time.Now().UnixNano()
	last := in.checkedAt.Load()
	if now-last < int64(checkInputsEvery) || !in.checkedAt.CompareAndSwap(last, now) {
		return nil
	}
	return in.checkUnchanged()
}
