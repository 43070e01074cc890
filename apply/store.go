package apply

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"leat/internal/publish"
	"leat/objstore"
)

// inStore reports whether the output is an object in a store.
func (s *Output) inStore() bool { return objstore.IsURL(s.Path) }

// label is the output's path for messages and files.
func (s *Output) label() string { return objstore.Redact(s.Path) }

// identity tells the output from all others: its real path, or its URL.
func (s *Output) identity() string {
	if s.inStore() {
		return s.label()
	}
	return realPath(s.Path)
}

// claimPath is the file that is claimed for the output. One in a store has no place here; it is claimed by the sum of its
// URL, as a file that nobody makes.
func (s *Output) claimPath() string {
	if s.inStore() {
		sum := sha256.Sum256([]byte(s.identity()))
		return fmt.Sprintf("/leat-output-%x", sum[:16])
	}
	return s.identity()
}

// tempDir is where the unfinished output is kept; "": beside it.
func (s *Output) tempDir() string {
	if s.TempDir == "" && s.inStore() {
		return os.TempDir()
	}
	return s.TempDir
}

// localPath is the name that the finished file gets here. An object's file gets it only if it can't be written to its store.
func (s *Output) localPath() string {
	if !s.inStore() {
		return absolute(s.Path)
	}
	base := path.Base(s.label())
	ext := path.Ext(base)
	return absolute(filepath.Join(s.tempDir(), fmt.Sprintf("%s-%08x%s", strings.TrimSuffix(base, ext), crc32.Checksum([]byte(s.identity()), castagnoli), ext)))
}

// sideSuffixes are what files that belong to a GeoTIFF have behind its name.
var sideSuffixes = []string{".aux.xml", ".ovr", ".msk", ".msk.ovr"}

// checkStore reports outputs that can't be written to their stores, as far as that can be told before.
func checkStore(ctx context.Context, job *Job) error {
	var g errgroup.Group
	g.SetLimit(manyAtOnce)
	var all []*[]error
	for _, name := range sortedKeys(job.Outputs) {
		o := job.Outputs[name]
		if !o.inStore() {
			continue
		}
		errs := new([]error)
		all = append(all, errs)
		g.Go(func() error {
			*errs = o.checkStore(ctx, name, job.Store)
			return nil
		})
	}
	_ = g.Wait()
	var errs []error
	for _, list := range all {
		errs = append(errs, *list...)
	}
	return errors.Join(errs...)
}

func (s *Output) checkStore(ctx context.Context, name string, store Store) []error {
	if store == nil {
		return []error{fmt.Errorf("output %s: %s: the job has nothing that writes to stores (Job.Store)", name, s.label())}
	}
	if err := store.Check(ctx, s.Path); err != nil {
		return []error{fmt.Errorf("output %s: %w", name, err)}
	}
	var errs []error
	exists := func(suffix, format string, args ...any) {
		there, err := store.Exists(ctx, s.Path+suffix)
		if err == nil && there {
			err = fmt.Errorf(format, args...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("output %s: %w", name, err))
		}
	}
	if s.NoClobber {
		exists("", "%s exists and is not to be replaced (--no-clobber): give another name, or remove it first", s.label())
	}
	for _, suffix := range sideSuffixes {
		if suffix == ".aux.xml" && s.HistAux {
			continue // it is replaced
		}
		// It would be read as the new file's statistics, overviews or mask, and stores are not asked to remove anything.
		exists(suffix, "%s belongs to an older file of the same name, and would be taken for a part of the new one: remove it first, or give another name", s.label()+suffix)
	}
	return errs
}

// createSpool makes the output's spool.
func (o *output) createSpool() (err error) {
	if o.spec.inStore() {
		o.spool, err = createSpoolIn(o.spec.identity(), o.spec.tempDir())
	} else {
		o.spool, err = createSpool(o.spec.identity(), o.spec.TempDir)
	}
	return err
}

// upload writes a finished file to the output's store. If that fails, but for the end of ctx, the file gets a name here, which the error tells.
func (o *output) upload(ctx context.Context, f *publish.File, res *OutputResult) error {
	defer o.run.timings.Start("uploading", "main", -1).Stop()
	defer o.run.tell("uploading")()
	err := o.run.job.Store.Upload(ctx, o.spec.Path, f.File, res.Bytes)
	if err == nil && o.spec.HistAux {
		err = o.uploadAux(ctx, res)
	}
	if err == nil {
		return f.Abort() // the copy here is not needed any more
	}
	err = fmt.Errorf("output %s: %w", o.name, err)
	if ctx.Err() != nil {
		return errors.Join(err, f.Abort())
	}
	return o.keep(f, err)
}

// keep gives the finished file a name here, and says so in the error.
func (o *output) keep(f *publish.File, err error) error {
	if kerr := f.Commit(); kerr != nil {
		return errors.Join(err, kerr)
	}
	return fmt.Errorf("%w; the finished file is kept as %s", err, o.spec.localPath())
}

func (o *output) uploadAux(ctx context.Context, res *OutputResult) error {
	text, err := auxText(res)
	if err != nil || text == "" {
		return err
	}
	return o.run.job.Store.Upload(ctx, o.spec.Path+".aux.xml", strings.NewReader(text), int64(len(text)))
}
