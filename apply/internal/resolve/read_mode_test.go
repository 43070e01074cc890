package resolve

import (
	"context"
	"errors"
	"slices"
	"testing"

	"leat/apply/internal/jobspec"
	"leat/block"
	"leat/objstore"
	"leat/raster"
)

// piecesOnly is a remote file without a version, which can only be read in pieces.
type piecesOnly struct{ Remote }

func (piecesOnly) Version() objstore.Info { return objstore.Info{} }
func (piecesOnly) CheckRanges() error     { return nil }
func (piecesOnly) CheckStaging() error    { return errors.New("no stage") }
func (piecesOnly) HasMask() bool          { return false }
func (piecesOnly) Ranges(_ context.Context, _ []int, w block.Window, _ bool) ([]raster.Range, error) {
	return []raster.Range{{Offset: int64(w.Row), Bytes: 1}}, nil
}

// A plan that skips blocks chooses again.
func TestNoteOnPiecesIsThatOfTheLastChoice(t *testing.T) {
	info := &raster.Info{FileBytes: 1000}
	info.Grid.Width, info.Grid.Height = 100, 100
	f := &File{Name: "a", Path: "https://host/a.tif", Info: info, Layers: []int{1}, Remote: piecesOnly{}}
	in := &Inputs{Files: []*File{f}}
	choose := func(windows ...block.Window) {
		t.Helper()
		if err := f.chooseMode(t.Context(), slices.Values(windows)); err != nil {
			t.Fatal(err)
		}
	}
	choose(block.Window{Width: 100, Height: 50}, block.Window{Row: 50, Width: 100, Height: 50})
	if notes := in.notes(); f.Mode != jobspec.ReadPieces || len(notes) != 1 {
		t.Errorf("mode %v, notes %v", f.Mode, notes)
	}
	choose()
	if notes := in.notes(); f.Mode != jobspec.ReadNone || len(notes) != 0 {
		t.Errorf("no block: mode %v, notes %v", f.Mode, notes)
	}
}
