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

	"leat/apply/internal/jobspec"
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
			*errs = o.checkStore(ctx, store, log)
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

func (o *Output) checkStore(ctx context.Context, store Store, log *slog.Logger) []error {
	s, name := &o.Spec, o.Name
	if store == nil {
		return []error{fmt.Errorf("output %s: %s: the job has no way to write to stores (Job.Store)", name,
			s.Label())}
	}
	if err := store.Check(ctx, s.Path); err != nil {
		return []error{fmt.Errorf("output %s: %w", name, err)}
	}
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("output %s: %w", name, jobspec.Errorf(field, format, args...)))
	}
	if s.NoClobber {
		switch there, err := store.Exists(ctx, s.Path); {
		case errors.Is(err, fs.ErrPermission):
			bad("Output.NoClobber", "it is unknown whether %s exists, and it must not be replaced: %w", s.Label(), err)
		case err != nil:
			bad("", "%w", err)
		case there:
			bad("Output.NoClobber", "%s exists and must not be replaced", s.Label())
		}
	}
	var unseen []string
	for _, suffix := range sidecarSuffixes {
		if suffix == ".aux.xml" && o.HasSidecar() {
			continue // it is replaced
		}
		switch there, err := store.Exists(ctx, s.Path+suffix); {
		case errors.Is(err, fs.ErrPermission): // stores answer so for missing objects if the user may not list them
			unseen = append(unseen, suffix)
		case err != nil:
			bad("", "%w", err)
		case there:
			// It would be read as the new file's statistics, overviews or mask, and leat removes
			// nothing from stores.
			bad("Output.Path", "%s belongs to an older file of the same name, and would be taken for a part of the new one",
				s.Label()+suffix)
		}
	}
	if len(unseen) > 0 && log != nil {
		log.Warn("unknown whether older sidecars exist", "output", s.Label(), "files", strings.Join(unseen, " "))
	}
	return errs
}
