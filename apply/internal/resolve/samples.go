package resolve

import (
	"context"
	"path/filepath"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/internal/localpath"
	"leat/raster"
)

// sampleFormats writes samples of the outputs that GDAL writes, and finds files that two outputs or
// inputs share.
func sampleFormats(ctx context.Context, outs []*output.Output, in *Inputs, grid raster.Grid) error {
	type file struct{ path, what string }
	var files []file
	for _, o := range outs {
		if !o.Spec.UsesGDAL() {
			files = append(files, file{o.Spec.Identity(), "output " + o.Name})
		}
	}
	for _, f := range in.Files {
		if path := LocalFile(f.From); path != "" {
			files = append(files, file{localpath.Real(path), "input " + f.Name})
		}
	}
	for _, o := range outs {
		if !o.Spec.UsesGDAL() && !o.Spec.Polygons || !o.Type.Valid() || o.Bands == 0 {
			continue
		}
		if err := o.Sample(ctx, grid); err != nil {
			return err
		}
		if err := o.CheckSidecars(o.Files()); err != nil {
			return err
		}
		for _, name := range o.Files() {
			path := filepath.Join(filepath.Dir(o.Spec.Identity()), name)
			for _, f := range files {
				if f.path == path {
					return jobspec.JobErrors(jobspec.Errorf("Output.Path", "output %s: %s has a sidecar %s, which is that of %s", o.Name,
						o.Spec.Label(), path, f.what))
				}
			}
			files = append(files, file{path, "output " + o.Name})
		}
	}
	return nil
}
