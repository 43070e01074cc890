package resolve

import (
	"fmt"

	"leat/apply/outcome"
)

// averaging are the resampling methods that compute values between those of pixels, which are not
// classes.
var averaging = map[string]bool{"bilinear": true, "cubic": true, "cubicspline": true, "lanczos": true, "average": true,
	"rms": true}

// paletteNotes returns notes on classes that are resampled as if they were quantities.
func paletteNotes(in *Inputs) (notes []outcome.Note) {
	for _, f := range in.Files {
		if f.Warp == nil || !averaging[f.Warp.Method] {
			continue
		}
		for _, l := range f.Layers {
			if f.Info.Bands[l-1].Colors != nil {
				notes = append(notes, outcome.Note{Field: "Input.Resample", Value: f.Name + "=mode",
					Text: fmt.Sprintf("%s (%s) has a colour table, so its pixels are classes, and resampling by %s makes others between them: near and mode do not",
						f.Name, f.Path, f.Warp.Method)})
				break
			}
		}
	}
	return notes
}
