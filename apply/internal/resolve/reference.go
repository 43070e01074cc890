package resolve

import (
	"context"
	"fmt"
	"os"

	"leat/apply/internal/jobspec"
	"leat/internal/storeurl"
	"leat/raster"
)

// GridOf returns the grid of a raster without its ground control points and RPC.
func GridOf(ctx context.Context, open Opener, path string) (raster.Grid, error) {
	src, err := open(ctx, path)
	if err != nil {
		return raster.Grid{}, err
	}
	g := src.Info().Grid
	g.GCPs, g.RPC = nil, nil
	return g, src.Close()
}

// withReferenceFile returns the job with the Grid of the raster that its Controls.Reference names,
// if that is the path or URL of one and not the name of an input; else the job itself.
func withReferenceFile(ctx context.Context, job *jobspec.Job, open Opener) (*jobspec.Job, error) {
	c := &job.Controls
	_, named := job.Inputs[c.Reference]
	_, vector := job.Vectors[c.Reference]
	if c.Reference == "" || named || vector || c.Grid != nil || !storeurl.Is(c.Reference) && !exists(c.Reference) {
		return job, nil
	}
	g, err := GridOf(ctx, open, c.Reference)
	if err != nil {
		return job, fmt.Errorf("reference: %w", err)
	}
	with := *job
	with.Controls.Reference, with.Controls.Grid = "", &g
	return &with, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || IsGDALName(path)
}
