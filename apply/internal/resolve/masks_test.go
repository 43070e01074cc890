package resolve

import (
	"strings"
	"testing"

	"leat/apply/internal/jobspec"
	"leat/ndarray"
	"leat/raster"
)

func TestNodataThatNoPixelHas(t *testing.T) {
	file := func(text string, kind raster.MaskKind) *File {
		return &File{Name: "a", Path: "a.tif", Layers: []int{1}, Type: ndarray.Uint8, Masks: []jobspec.MaskSource{{Kind: kind}},
			Info: &raster.Info{Bands: []raster.Band{{Type: ndarray.Uint8, NodataText: text}}}}
	}
	job := func(nodata ...string) *jobspec.Job {
		return &jobspec.Job{Inputs: map[string]jobspec.Input{"a": {Nodata: nodata}}}
	}
	one := file("1.5", raster.MaskNone)
	notes := (&Inputs{Files: []*File{one}}).nodataNotes(job())
	if len(notes) != 1 || !strings.Contains(notes[0].Text, "a.tif") || !strings.Contains(notes[0].Text, "1.5") {
		t.Errorf("%v", notes)
	}
	if notes := (&Inputs{Files: []*File{one, one, one, one, one}}).nodataNotes(job()); len(notes) != maxNotes+1 {
		t.Errorf("%d notes of five files", len(notes))
	}
	for name, in := range map[string]*File{"none": file("", raster.MaskNone), "mask": file("256", raster.MaskDataset)} {
		if notes := (&Inputs{Files: []*File{in}}).nodataNotes(job()); len(notes) != 0 {
			t.Errorf("%s: %v", name, notes)
		}
	}
	if notes := (&Inputs{Files: []*File{one}}).nodataNotes(job("0")); len(notes) != 0 {
		t.Errorf("with the job's own nodata: %v", notes)
	}
}
