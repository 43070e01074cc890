package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"

	"golang.org/x/sync/errgroup"

	"leat/objstore"
)

// Store writes outputs whose path is a URL: see apply.Store.
type Store interface {
	Check(ctx context.Context, url string) error
	Exists(ctx context.Context, url string) (bool, error)
	Upload(ctx context.Context, url string, r io.ReaderAt, size int64, o objstore.UploadOptions) error
}

// parallelChecks bounds the concurrent requests to stores: each takes long and little of a machine.
const parallelChecks = 16

// CheckStore returns errors for outputs that can't be written to their stores, which it
// finds without writing.
func CheckStore(ctx context.Context, outs []*Output, store Store, log *slog.Logger) error {
	var g errgroup.Group
	g.SetLimit(parallelChecks)
	var all []*[]error
	for _, o := range outs {
		if !o.Spec.InStore() {
			continue
		}
		errs := new([]error)
		all = append(all, errs)
		g.Go(func() error {
			*errs = o.Spec.checkStore(ctx, o.Name, store, log)
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

func (s *Spec) checkStore(ctx context.Context, name string, store Store, log *slog.Logger) []error {
	if store == nil {
		return []error{fmt.Errorf("output %s: %s: the job has no way to write to stores (Job.Store)", name,
			s.Label())}
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
			bad("whether %s exists can't be found out, and it is not to be replaced (--no-clobber): allow looking it up and listing the bucket, or leave out --no-clobber: %w", s.Label(), err)
		case err != nil:
			bad("%w", err)
		case there:
			bad("%s exists and is not to be replaced (--no-clobber): give another name, or remove it first", s.Label())
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
			bad("%s belongs to an older file of the same name, and would be taken for a part of the new one: remove it first, or give another name", s.Label()+suffix)
		}
	}
	if len(unseen) > 0 && log != nil {
		log.Warn("the store does not tell whether files of an older output lie there, which would be taken for parts of the new one", "output", s.Label(), "files", strings.Join(unseen, " "))
	}
	return errs
}
