package sysmem

// DefaultLimit returns the memory limit of a run that sets none: a quarter of the memory of the
// machine, or of its control group if that is less; 1 GiB if neither is known.
func DefaultLimit() int64 {
	n := RAM()
	if n <= 0 {
		return 1 << 30
	}
	return n / 4
}
