package apply

import (
	"context"
	"fmt"
	"os"

	"leat/apply/internal/resolve"

	"leat/objstore"
	"leat/raster"
)

// GridOf returns the grid of a raster that [Open] can open, for Controls.Grid. Its ground control
// points and RPC are not part of it.
func GridOf(path string) (raster.Grid, error) {
	return openGrid(context.Background(), resolve.OpenLocal, path)
}

func openGrid(ctx context.Context, open func(ctx context.Context, path string) (raster.Source, error),
	path string) (raster.Grid, error) {
	src, err := open(ctx, path)
	if err != nil {
		return raster.Grid{}, err
	}
	g := src.Info().Grid
	g.GCPs, g.RPC = nil, nil
	return g, src.Close()
}

// withReferenceFile returns the job's controls. If their Reference is the path or URL of a raster,
// and not the name of an input, they have that raster's Grid instead.
func withReferenceFile(ctx context.Context, job *Job) (Controls, error) {
	c := job.Controls
	_, named := job.Inputs[c.Reference]
	_, vector := job.Vectors[c.Reference]
	if c.Reference == "" || named || vector || c.Grid != nil || !objstore.IsURL(c.Reference) && !exists(c.Reference) {
		return c, nil
	}
	open := job.Open
	if open == nil {
		open = resolve.OpenLocal
	}
	g, err := openGrid(ctx, open, c.Reference)
	if err != nil {
		return c, fmt.Errorf("reference: %w", err)
	}
	c.Reference, c.Grid = "", &g
	return c, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || resolve.IsGDALName(path)
}
