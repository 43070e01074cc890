package raster

import "strings"

// Geographic reports whether coordinates are longitudes and latitudes, as far as the geo keys or
// the WKT say so.
func (c CRS) Geographic() bool {
	const modelType, geographic = 1024, 2
	if k := c.Keys; k != nil {
		for i := 4; i+4 <= len(k.Directory); i += 4 {
			if k.Directory[i] == modelType && k.Directory[i+1] == 0 {
				return k.Directory[i+3] == geographic
			}
		}
	}
	text := strings.ToUpper(strings.TrimSpace(c.WKT))
	for _, compound := range []string{"COMPD_CS[", "COMPOUNDCRS[", "BOUNDCRS[SOURCECRS["} {
		if rest, ok := strings.CutPrefix(text, compound); ok {
			text = rest
			if text[:min(1, len(text))] == `"` { // the name
				_, text, _ = strings.Cut(text[1:], `",`)
			}
		}
	}
	text = strings.TrimSpace(text)
	for _, word := range []string{"GEOGCS[", "GEOGCRS[", "GEOGRAPHICCRS["} {
		if strings.HasPrefix(text, word) {
			return true
		}
	}
	return false
}
