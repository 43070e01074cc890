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
// URL, as a file that nobody makes. So is one that is a folder, as those of some formats are.
func (s *Output) claimPath() string {
	path := s.identity()
	if s.inStore() {
		sum := sha256.Sum256([]byte(path))
		return fmt.Sprintf("/leat-output-%x", sum[:16])
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+folderClaim)
	}
	return path
}

const folderClaim = ".leat-folder"

// tempDir is where the unfinished output is kept; "": beside it.
func (s *Output) tempDir() string {
	if s.TempDir == "" && s.inStore() {
		return os.TempDir()
	}
	return s.TempDir
}

// localPath is the name that the finished file gets here. An object's file gets it, or one beside it, only if it can't be written to its store.
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
		return []error{fmt.Errorf("output %s: %s: the job has nothing that writes to stores (Job.Store)", name, s.label())}
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
			bad("whether %s exists can't be told, and it is not to be replaced (--no-clobber): allow looking it up and listing the bucket, or leave out --no-clobber: %w", s.label(), err)
		case err != nil:
			bad("%w", err)
		case there:
			bad("%s exists and is not to be replaced (--no-clobber): give another name, or remove it first", s.label())
		}
	}
	var unseen []string
	for _, suffix := range sideSuffixes {
		if suffix == ".aux.xml" && s.HistAux {
			continue // it is replaced
		}
		switch there, err := store.Exists(ctx, s.Path+suffix); {
		case errors.Is(err, fs.ErrPermission): // so say stores about what is not there to those who may not list
			unseen = append(unseen, suffix)
		case err != nil:
			bad("%w", err)
		case there:
			// It would be read as the new file's statistics, overviews or mask, and stores are not asked to remove anything.
			bad("%s belongs to an older file of the same name, and would be taken for a part of the new one: remove it first, or give another name", s.label()+suffix)
		}
	}
	if len(unseen) > 0 && log != nil {
		log.Warn("the store does not tell whether files of an older output lie there, which would be taken for parts of the new one", "output", s.label(), "files", strings.Join(unseen, " "))
	}
	return errs
}

// openSpool makes the output's spool, or takes over what another run left: its content where keep says so.
func (o *output) openSpool(keep bool) (err error) {
	if o.spec.inStore() {
		o.spool, err = openSpoolIn(o.spec.identity(), o.spec.tempDir(), keep)
	} else {
		o.spool, err = openSpool(o.spec.identity(), o.spec.TempDir, keep)
	}
	return err
}

// upload writes a finished file to the output's store.
func (o *output) upload(ctx context.Context, f *publish.File, res *OutputResult) error {
	defer o.run.timings.Start("uploading", "main", -1).Stop()
	o.run.at("uploading")
	defer o.run.tell("uploading")()
	err := o.run.job.Store.Upload(ctx, o.spec.Path, f.File, res.Bytes, objstore.UploadOptions{IfAbsent: o.spec.NoClobber})
	if err == nil && o.spec.HistAux {
		err = o.uploadAux(ctx, res)
	}
	if err == nil {
		return f.Abort() // the copy here is not needed any more
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("writing %s was ended: %w", o.spec.label(), context.Cause(ctx))
	}
	return fmt.Errorf("output %s: %w", o.name, err)
}

// KeptError tells that a run failed when its outputs were finished and not all of them had their names. Files is where those are now, by the name of the
// output: its own name, where nothing had it, or one beside it. Old files are as they were.
type KeptError struct {
	Err   error
	Files map[string]string
}

func (e *KeptError) Error() string {
	var b strings.Builder
	b.WriteString(e.Err.Error())
	for _, name := range sortedKeys(e.Files) {
		fmt.Fprintf(&b, "; the finished file of output %s is kept as %s", name, e.Files[name])
	}
	return b.String()
}

func (e *KeptError) Unwrap() error { return e.Err }

// keep gives finished files names here after an error, so that no work is lost. Nothing is replaced.
func (r *run) keep(files []*publish.File, results []OutputResult, err error) error {
	if slices.ContainsFunc(r.outs, func(o *output) bool { return o.spec.foreign() }) {
		return err // their files name each other and can't get other names: the unfinished outputs are kept instead
	}
	kept := &KeptError{Err: err, Files: map[string]string{}}
	for i, f := range files {
		path, kerr := r.outs[i].keep(f, &results[i])
		switch {
		case errors.Is(kerr, fs.ErrClosed): // it has its name, or was uploaded
		case kerr != nil:
			kept.Err = errors.Join(kept.Err, fmt.Errorf("output %s: the finished file can't be kept: %w", r.outs[i].name, kerr))
		default:
			kept.Files[r.outs[i].name] = path
		}
	}
	if len(kept.Files) == 0 {
		return kept.Err
	}
	return kept
}

// keep gives a finished file the output's name, or one beside it where that or a file that would be taken for a part of it is there.
func (o *output) keep(f *publish.File, res *OutputResult) (string, error) {
	path, err := f.CommitBeside(func(path string) bool {
		return slices.ContainsFunc(sideSuffixes, func(suffix string) bool {
			_, err := os.Lstat(path + suffix)
			return err == nil
		})
	})
	if err == nil && o.spec.HistAux {
		if err := writeAux(path+".aux.xml", res); err != nil {
			o.run.log.Warn("writing the histogram of a file that is kept", "error", err)
		}
	}
	return path, err
}

func (o *output) uploadAux(ctx context.Context, res *OutputResult) error {
	text, err := auxText(res)
	if err != nil || text == "" {
		return err
	}
	return o.run.job.Store.Upload(ctx, o.spec.Path+".aux.xml", strings.NewReader(text), int64(len(text)), objstore.UploadOptions{})
}
