package apply

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/apply/internal/output"
	"leat/apply/outcome"
	"leat/internal/units"
	"leat/ndarray"
)

// The plan includes the memory that GDAL takes for a format by itself, and an option that avoids
// it.
func TestPlanFormatMemory(t *testing.T) {
	needFormat(t, "PCIDSK", "COG", "HFA")
	const budget = 192 << 20
	plan := func(path, format string, options ...string) *outcome.Plan {
		o := Output{Path: filepath.Join(t.TempDir(), path), Format: format, Options: options, Type: ndarray.Uint16,
			Bands: 1}
		p, err := MakePlan(t.Context(), Job{Controls: Controls{Grid: gridOf(12000, 12000), MemoryBytes: budget},
			Outputs: map[string]Output{"out": o}, Func: nothing})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	remedy := outcome.Note{Field: "Output.Options", Value: "INTERLEAVING=TILED"}
	if p := plan("x.pix", "PCIDSK"); p.MemoryBytes < 256<<20+output.BaseBytes || !slices.ContainsFunc(p.Notes,
		func(n outcome.Note) bool { return n.Field == remedy.Field && n.Value == remedy.Value }) {
		t.Errorf("PCIDSK takes %s, %q", units.FormatSize(p.MemoryBytes), p.Notes)
	}
	for _, p := range []*outcome.Plan{plan("x.pix", "PCIDSK", "interleaving=tiled"), plan("x.tif", "COG"),
		plan("x.img", "HFA")} {
		if p.MemoryBytes > budget || strings.Contains(strings.Join(noteTexts(p.Notes), "; "), "memory allowed") {
			t.Errorf("%s takes %s, %q", p.Outputs[0].Path, units.FormatSize(p.MemoryBytes), p.Notes)
		}
	}
}
