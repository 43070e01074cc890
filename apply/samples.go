package apply

import (
	"context"
	"fmt"
	"path/filepath"

	"leat/apply/internal/resolve"
)

// sampleFormats writes samples of the outputs that GDAL writes, and finds files that two outputs or
// inputs share.
func (r *run) sampleFormats(ctx context.Context) error {
	type file struct{ path, what string }
	var files []file
	for _, o := range r.outs {
		if !o.Spec.UsesGDAL() {
			files = append(files, file{o.Spec.Identity(), "output " + o.Name})
		}
	}
	for _, f := range r.in.Files {
		if path := resolve.LocalFile(f.From); path != "" {
			files = append(files, file{realPath(path), "input " + f.Name})
		}
	}
	for i, o := range r.outs {
		if !o.Spec.UsesGDAL() || !o.Type.Valid() || o.Bands == 0 {
			continue
		}
		if err := o.Sample(ctx, r.plan.Grid); err != nil {
			return err
		}
		r.plan.Outputs[i].Notes = o.Notes()
		if err := o.CheckSidecars(o.Files()); err != nil {
			return err
		}
		for _, name := range o.Files() {
			path := filepath.Join(filepath.Dir(o.Spec.Identity()), name)
			for _, f := range files {
				if f.path == path {
					return jobErrors(fmt.Errorf("output %s: %s has a sidecar %s, which is that of %s: write to another folder, or under another name", o.Name, o.Spec.Label(), path, f.what))
				}
			}
			files = append(files, file{path, "output " + o.Name})
		}
	}
	return nil
}
