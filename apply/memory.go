package apply

// DefaultMemoryBytes is the ceiling that a run without one gets: a quarter of the machine's memory, or of
// its control group's where that is less; 1 GiB where neither is known.
func DefaultMemoryBytes() int64 {
	n := systemMemory()
	if n <= 0 {
		return 1 << 30
	}
	return n / 4
}
