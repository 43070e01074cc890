package workers

import (
	"fmt"
	"slices"

	"leat/bench/measured"
)

// ndvi compares runs with workers in other processes with one in a single process.
func (b *bench) ndvi() error {
	in, err := b.bands(b.side)
	if err != nil {
		return err
	}
	plain := append(slices.Clone(in), "-e", ndviText)
	with := func(base []string, more ...string) []string { return append(slices.Clone(base), more...) }
	pixels := with(plain, bare...)
	variants := []variant{
		{name: "in one process", args: pixels},
		{name: "1 subprocess", args: with(pixels, "--on", "subprocess", "--workers", "1")},
		{name: "2 subprocesses", args: with(pixels, "--on", "subprocess", "--workers", "2")},
		{name: "1 subprocess, which reads",
			args: with(pixels, "--on", "subprocess", "--workers", "1", "--workers-read")},
		{name: "2 subprocesses, which read",
			args: with(pixels, "--on", "subprocess", "--workers", "2", "--workers-read")},
	}
	results, err := b.compare(variants)
	if err != nil {
		return err
	}
	whole, err := b.compare([]variant{
		{name: "as it comes (statistics, histogram, overviews), in one process", args: plain},
		{name: "as it comes, 2 subprocesses", args: with(plain, "--on", "subprocess", "--workers", "2")},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(b.Out, "NDVI of two uint16 bands, %d x %d, to float32 (`%s`): `leat apply`, pixels only unless said. The outputs of the first five lines are the same bytes, those of the last two too.\n\n", b.side, b.side, ndviText)
	table := [][]string{{"", "wall", "÷ one process", "processors", "÷ one process", "RIOS, not in this run"}}
	rios := map[string]string{
		variants[0].name: "2.05 s (CW_NONE)",
		variants[2].name: "4.1-4.8 s (CW_SUBPROC): 2.0-2.3 times CW_NONE",
		whole[0].name:    "2.61 s (CW_NONE, with its statistics)",
	}
	for _, group := range [][]*result{results, whole} {
		for i, r := range group {
			table = append(table, []string{r.name, r.wall.String(), r.wall.Ratio(group[0].wall), r.cpu.String(),
				r.cpu.Ratio(group[0].cpu), rios[r.name]})
			if i > 0 {
				b.ratioTarget(fmt.Sprintf("NDVI, %s ÷ one process <= 1.15", r.name), r.wall, group[0].wall, 1.15)
			}
		}
	}
	measured.Table(b.Out, table)
	return nil
}
