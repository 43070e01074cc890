package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/worker"
)

// CheckInputsEvery is how often a run checks whether its inputs are being written to, so that it
// does not continue for hours.
const CheckInputsEvery = 5 * time.Second

// CodeInputChanged is the word for an InputChangedError in a worker's message.
const CodeInputChanged = "input-changed"

// IsInputChanged reports whether a run failed because this process or a worker found an input
// changed.
func IsInputChanged(err error) bool {
	var f *worker.Failure
	return errors.As(err, new(*outcome.InputChangedError)) ||
		errors.As(err, &f) && slices.Contains(strings.Split(f.Code, ";"), CodeInputChanged)
}

// CheckUnchanged returns an error if a file was written to since it was opened. A file that another
// one replaced is not an error: the open one stays as it was, and workers reject the other. GDAL,
// however, opens the files behind a raster again, and those of a VRT on demand, so for its rasters
// a replaced file is an error too.
func (f *File) CheckUnchanged() error {
	if f.Version.Given || f.Version.Remote || len(f.Layers) == 0 {
		return nil
	}
	local := LocalFile(f.From)
	if f.ByGDAL() {
		if what := changeOf(&f.Version, local, f.Path); what != "" {
			return &outcome.InputChangedError{Change: what, During: "read"}
		}
		return nil
	}
	if now, there := stateOf(local); there && now.Inode == f.Version.Inode && now != f.Version.FileState {
		return writtenTo(f.Path)
	}
	for key := range f.Version.ContentSidecars() {
		if now, there := stateOf(jobspec.SidecarName(local, key)); there && now != f.Version.Sidecars[key] {
			return writtenTo(jobspec.SidecarName(f.Path, key))
		}
	}
	return nil
}

func writtenTo(path string) error {
	return &outcome.InputChangedError{Change: path + " was written to", During: "read", Overwritten: true}
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

// CheckUnchanged returns an error if one of the files was written to since it was opened.
func (in *Inputs) CheckUnchanged() error {
	for _, f := range in.Files {
		if err := f.CheckUnchanged(); err != nil {
			return fmt.Errorf("input %s: %w", f.Name, err)
		}
	}
	return nil
}

// ChangeChecker checks inputs from time to time.
type ChangeChecker struct {
	Inputs    *Inputs
	CheckedAt atomic.Int64 // in Unix nanoseconds
}

// Check returns the error of Inputs.CheckUnchanged, unless that was called less than
// CheckInputsEvery ago.
func (c *ChangeChecker) Check() error {
	now := time.Now().UnixNano()
	last := c.CheckedAt.Load()
	if now-last < int64(CheckInputsEvery) || !c.CheckedAt.CompareAndSwap(last, now) {
		return nil
	}
	return c.Inputs.CheckUnchanged()
}
