package apply

import "fmt"

// averaging are the resampling methods that compute values between those of pixels, which are no
// classes.
var averaging = map[string]bool{"bilinear": true, "cubic": true, "cubicspline": true, "lanczos": true, "average": true,
	"rms": true}

// paletteNotes returns notes on classes that are resampled as if they were quantities.
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
