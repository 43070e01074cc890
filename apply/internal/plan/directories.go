package plan

import (
	"os"
	"path/filepath"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/internal/localpath"
)

// sharedDir returns the directory in which the directory that worker processes share is made.
func sharedDir(c *jobspec.Concurrency, outs []*output.Output) string {
	if dir := c.SharedTemp; dir != "" {
		return resolve.Absolute(dir)
	}
	for _, o := range outs {
		if !o.Spec.InStore() {
			return filepath.Dir(localpath.Real(o.Spec.Path))
		}
	}
	if dir, err := os.Getwd(); err == nil {
		return dir
	}
	return os.TempDir()
}

// rasterDir returns the directory in which the run makes its directory for rasters: one that
// worker processes on other machines can reach, else that of unfinished outputs.
func rasterDir(c *jobspec.Concurrency, outs []*output.Output) string {
	if on := c.On; on != nil && !on.Capabilities().Local {
		return sharedDir(c, outs)
	}
	if len(outs) == 0 {
		return os.TempDir()
	}
	o := &outs[0].Spec
	if dir := o.SpoolDir(); dir != "" {
		return resolve.Absolute(dir)
	}
	return filepath.Dir(localpath.Real(o.Path))
}
