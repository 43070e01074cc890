package overview

// DefaultLevels returns the default factors, those of RIOS: 4, 8, 16, ... up to 512 while the
// smaller side stays above 128 pixels.
func DefaultLevels(width, height int) []int {
	var l []int
	for f := 4; f <= 512 && min(width, height)/f > 128; f *= 2 {
		l = append(l, f)
	}
	return l
}

// COGLevels returns the factors 2, 4, 8, ... until the larger side has at most 512 pixels.
func COGLevels(width, height int) []int {
	var l []int
	for f := 1; Reduced(max(width, height), f) > 512; {
		f *= 2
		l = append(l, f)
	}
	return l
}
