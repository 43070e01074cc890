package apply

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"leat/apply/internal/resolve"

	"golang.org/x/sync/errgroup"

	"leat/apply/internal/spool"
	"leat/internal/tempfile"
	"leat/objstore"
)

// inStore reports whether the output is an object in a store.
func (s *Output) inStore() bool { return objstore.IsURL(s.Path) }

// label returns the output's path for messages and files.
func (s *Output) label() string { return objstore.Redact(s.Path) }

// identity identifies the output: its real path, or its URL.
func (s *Output) identity() string {
	if s.inStore() {
		return s.label()
	}
	return realPath(s.Path)
}

// claimPath returns the path that is claimed for the output. An object in a store is claimed by the
// sum of its URL, as a file that is never made. A directory, as in some formats, is claimed by a
// file next to it that is never made.
func (s *Output) claimPath() string {
	path := s.identity()
	if s.inStore() {
		sum := sha256.Sum256([]byte(path))
		return fmt.Sprintf("/leat-output-%x", sum[:16])
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+directoryClaim)
	}
	return path
}

const directoryClaim = ".leat-folder"

// tempDir returns the directory of the unfinished output; "" for that of the output itself.
func (s *Output) tempDir() string {
	if s.TempDir == "" && s.inStore() {
		return os.TempDir()
	}
	return s.TempDir
}

// target returns the output as its spool identifies it.
func (s *Output) target() spool.Target {
	return spool.Target{Path: s.identity(), Label: s.label(), TempDir: s.tempDir(), InStore: s.inStore()}
}

// spoolPath returns the path of the output's spool.
func (s *Output) spoolPath() string {
	t := s.target()
	return t.SpoolPath()
}

// localPath returns the local name of the finished file. The file of an object gets it, or a
// similar one, only if it can't be uploaded.
func (s *Output) localPath() string {
	if !s.inStore() {
		return resolve.Absolute(s.Path)
	}
	base := path.Base(s.label())
	ext := path.Ext(base)
	return resolve.Absolute(filepath.Join(s.tempDir(),
		fmt.Sprintf("%s-%08x%s", strings.TrimSuffix(base, ext), crc32.Checksum([]byte(s.identity()), crc32.MakeTable(crc32.Castagnoli)), ext)))
}

// sidecarSuffixes are the suffixes of the sidecars of a GeoTIFF.
var sidecarSuffixes = []string{".aux.xml", ".ovr", ".msk", ".msk.ovr"}

// checkStore returns errors for outputs that can't be written to their stores, as far as that can
// be found without writing.
func checkStore(ctx context.Context, job *Job) error {
	var g errgroup.Group
	g.SetLimit(resolve.ManyAtOnce)
	var all []*[]error
	for _, name := range sortedKeys(job.Outputs) {
		o := job.Outputs[name]
		if !o.inStore() {
			continue
		}
		errs := new([]error)
		all = append(all, errs)
		g.Go(func() error {
			*errs = o.checkStore(ctx, name, job.Store, job.Logger)
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

func (s *Output) checkStore(ctx context.Context, name string, store Store, log *slog.Logger) []error {
	if store == nil {
		return []error{fmt.Errorf("output %s: %s: the job has no way to write to stores (Job.Store)", name,
			s.label())}
	}
	if err := store.Check(ctx, s.Path); err != nil {
		return []error{fmt.Errorf("output %s: %w", name, err)}
	}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("output %s: %w", name, fmt.Errorf(format, args...)))
	}
	if s.NoClobber {
		switch there, err := store.Exists(ctx, s.Path); {
		case errors.Is(err, fs.ErrPermission):
			bad("whether %s exists can't be found out, and it is not to be replaced (--no-clobber): allow looking it up and listing the bucket, or leave out --no-clobber: %w", s.label(), err)
		case err != nil:
			bad("%w", err)
		case there:
			bad("%s exists and is not to be replaced (--no-clobber): give another name, or remove it first", s.label())
		}
	}
	var unseen []string
	for _, suffix := range sidecarSuffixes {
		if suffix == ".aux.xml" && s.HistAux {
			continue // it is replaced
		}
		switch there, err := store.Exists(ctx, s.Path+suffix); {
		case errors.Is(err, fs.ErrPermission): // stores answer so for missing objects if the user may not list them
			unseen = append(unseen, suffix)
		case err != nil:
			bad("%w", err)
		case there:
			// It would be read as the new file's statistics, overviews or mask, and leat removes
			// nothing from stores.
			bad("%s belongs to an older file of the same name, and would be taken for a part of the new one: remove it first, or give another name", s.label()+suffix)
		}
	}
	if len(unseen) > 0 && log != nil {
		log.Warn("the store does not tell whether files of an older output lie there, which would be taken for parts of the new one", "output", s.label(), "files", strings.Join(unseen, " "))
	}
	return errs
}

// upload writes a finished file to the output's store.
func (o *output) upload(ctx context.Context, f *tempfile.File, res *OutputResult) error {
	defer o.run.timings.Start("uploading", "main", -1).Stop()
	o.run.at("uploading")
	err := o.run.job.Store.Upload(ctx, o.spec.Path, f.File, res.Bytes,
		objstore.UploadOptions{IfAbsent: o.spec.NoClobber})
	if err == nil {
		err = o.uploadAux(ctx, res)
	}
	if err == nil {
		return f.Abort() // the local copy is not needed any more
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("writing %s was ended: %w", o.spec.label(), context.Cause(ctx))
	}
	return fmt.Errorf("output %s: %w", o.name, err)
}

// UnpublishedError is returned when a run failed after its outputs were finished and before all of
// them had their names. Files are the current paths of those, by the name of the output: its own
// path if no file was there, or a similar one next to it. Old files are unchanged.
type UnpublishedError struct {
	Err   error
	Files map[string]string
}

func (e *UnpublishedError) Error() string {
	var b strings.Builder
	b.WriteString(e.Err.Error())
	for _, name := range sortedKeys(e.Files) {
		fmt.Fprintf(&b, "; the finished file of output %s is kept as %s", name, e.Files[name])
	}
	return b.String()
}

func (e *UnpublishedError) Unwrap() error { return e.Err }

// keep gives finished files local names after an error, so that no work is lost. It replaces
// nothing.
func (r *run) keep(files []*tempfile.File, results []OutputResult, err error) error {
	if slices.ContainsFunc(r.outs, func(o *output) bool { return o.spec.usesGDAL() }) {
		return err // their files refer to each other by name and can't be renamed: the spools are kept instead
	}
	kept := &UnpublishedError{Err: err, Files: map[string]string{}}
	for i, f := range files {
		path, kerr := r.outs[i].keep(f, &results[i])
		switch {
		case errors.Is(kerr, fs.ErrClosed): // it is published or uploaded
		case kerr != nil:
			kept.Err = errors.Join(kept.Err,
				fmt.Errorf("output %s: the finished file can't be kept: %w", r.outs[i].name, kerr))
		default:
			kept.Files[r.outs[i].name] = path
		}
	}
	if len(kept.Files) == 0 {
		return kept.Err
	}
	return kept
}

// keep gives a finished file the output's name, or a similar one if that name or the name of one of
// its sidecars is taken.
func (o *output) keep(f *tempfile.File, res *OutputResult) (string, error) {
	path, err := f.CommitNumbered(func(path string) bool {
		return slices.ContainsFunc(sidecarSuffixes, func(suffix string) bool {
			_, err := os.Lstat(path + suffix)
			return err == nil
		})
	})
	if err == nil {
		if err := o.writeAux(path+".aux.xml", res); err != nil {
			o.run.log.Warn("writing the .aux.xml of a kept file", "error", err)
		}
	}
	return path, err
}

func (o *output) uploadAux(ctx context.Context, res *OutputResult) error {
	text, err := o.auxText(res)
	if err != nil || text == "" {
		return err
	}
	return o.run.job.Store.Upload(ctx, o.spec.Path+".aux.xml", strings.NewReader(text), int64(len(text)),
		objstore.UploadOptions{})
}
