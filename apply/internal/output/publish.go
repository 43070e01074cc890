package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"leat/apply/internal/jobspec"
	"leat/internal/localpath"
	"leat/internal/tempfile"
	"leat/objstore"
)

// clobbers returns the error about a file that appeared during the run.
func (o *Output) clobbers() error {
	return jobspec.Errorf("Output.NoClobber", "output %s: %s was created during the run and must not be replaced", o.Name,
		o.Spec.Path)
}

// checkClobber returns an error if the output exists and must not be replaced.
func (o *Output) checkClobber() error {
	if _, err := os.Stat(localpath.Absolute(o.Spec.Path)); err == nil && o.Spec.NoClobber {
		return o.clobbers()
	}
	return nil
}

// removeSidecars removes what belongs to the output's old file, under the name of a link and of its
// target.
func (o *Output) removeSidecars(suffixes []string) error {
	path := localpath.Absolute(o.Spec.Path)
	for _, name := range slices.Compact([]string{path, localpath.Real(path)}) {
		for _, suffix := range suffixes {
			err := os.Remove(name + suffix)
			if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENAMETOOLONG) {
				return fmt.Errorf("output %s: %s belongs to the old file and can't be removed: %w", o.Name,
					name+suffix, err)
			}
		}
	}
	return nil
}

// publish gives the file the output's name.
func (o *Output) publish(file *tempfile.File) error {
	if !o.Spec.NoClobber {
		return file.Commit()
	}
	err := file.CommitNew()
	if errors.Is(err, os.ErrExist) {
		return o.clobbers()
	}
	return err
}

// upload writes a file of so many bytes to the output's store, calls also, which may be nil, and
// removes the file.
func (w *Writer) upload(ctx context.Context, store Store, file *tempfile.File, bytes int64,
	also func(context.Context, Store) error) error {
	defer w.timings.Start("uploading", "main", -1).Stop()
	err := store.Upload(ctx, w.Spec.Path, file.File, bytes, objstore.UploadOptions{IfAbsent: w.Spec.NoClobber})
	if err == nil && also != nil {
		err = also(ctx, store)
	}
	if err == nil {
		return file.Abort() // the local copy is not needed any more
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("writing %s was ended: %w", w.Spec.Label(), context.Cause(ctx))
	}
	return fmt.Errorf("output %s: %w", w.Name, err)
}
