package resolve

import (
	"context"
	"errors"
	"fmt"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/storeurl"
	"leat/internal/vectorcopy"
)

// copyVectors copies the vectors of a job that are in stores, and returns the copies by URL.
// Closing the inputs removes them.
func (in *Inputs) copyVectors(ctx context.Context, job *jobspec.Job, store any) (map[string]*vectorcopy.Copy, error) {
	copies := map[string]*vectorcopy.Copy{}
	var errs []error
	for name, v := range job.Vectors {
		if !storeurl.Is(v.Path) || copies[v.Path] != nil {
			continue
		}
		c, err := copyVector(ctx, store, v.Path)
		if err != nil {
			errs = append(errs, fmt.Errorf("vector %s: %w", name, err))
			continue
		}
		copies[v.Path] = c
		before := in.closeStore
		in.closeStore = func() error {
			err := c.Close()
			if before != nil {
				err = errors.Join(err, before())
			}
			return err
		}
	}
	return copies, errors.Join(errs...)
}

func copyVector(ctx context.Context, store any, url string) (*vectorcopy.Copy, error) {
	f, ok := store.(vectorcopy.Fetcher)
	if !ok {
		return nil, &outcome.JobError{Err: jobspec.Errorf("Vector.Path",
			"%s is in a store, expected a file on the local disk or a name of GDAL's", storeurl.Redact(url))}
	}
	return vectorcopy.Make(ctx, f, url)
}
