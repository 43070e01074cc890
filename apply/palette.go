package apply

import "fmt"

// averaging are the methods of resampling that make values between those of pixels, which no class has.
var averaging = map[string]bool{"bilinear": true, "cubic": true, "cubicspline": true, "lanczos": true, "average": true, "rms": true}

// paletteNotes tells of classes that are resampled as if they were quantities.
func (in *inputs) paletteNotes() (notes []string) {
	for _, f := range in.files {
		if f.warp == nil || !averaging[f.warp.Method] {
			continue
		}
		for _, l := range f.layers {
			if f.info.Bands[l-1].Colors != nil {
				notes = append(notes, fmt.Sprintf("%s (%s) has a colour table, so its pixels are classes, and resampling by %s makes others between them: near and mode do not (--resample %s=mode)", f.input, f.path, f.warp.Method, f.input))
				break
			}
		}
	}
	return notes
}
