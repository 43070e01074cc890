package cache

import (
	"fmt"
	"io"
	"time"

	"leat/bench/measured"
)

// results are the samples, by row and system.
type results struct {
	rates map[string]map[string]rates
	open  map[string]measured.Times
}

func newResults() *results {
	return &results{rates: map[string]map[string]rates{}, open: map[string]measured.Times{}}
}

func (r *results) add(key, system string, v float64) {
	if r.rates[key] == nil {
		r.rates[key] = map[string]rates{}
	}
	r.rates[key][system] = append(r.rates[key][system], v)
}

const (
	keyPuts  = "mixed puts"
	keyReads = "mixed reads"
)

// print prints the table.
func (r *results) print(w io.Writer, s sizes, systems []system) {
	head := []string{"a second, all processes together"}
	for _, y := range systems {
		head = append(head, y.name())
	}
	others := systems[1:]
	for _, y := range others {
		head = append(head, "leat ÷ "+y.name())
	}
	table := [][]string{head}
	line := func(key, what string) {
		cells := []string{what}
		for _, y := range systems {
			cells = append(cells, r.rates[key][y.name()].String())
		}
		for _, y := range others {
			cells = append(cells, ratioText(r.rates[key][leatName].ratio(r.rates[key][y.name()])))
		}
		table = append(table, cells)
	}
	for _, x := range s.rows() {
		line(x.key, x.what)
	}
	if s.wanted(mixedWhat()) {
		line(keyPuts, mixedWhat())
		line(keyReads, "the gets of these")
	}
	if !s.wanted(s.openWhat()) {
		measured.Table(w, table)
		return
	}
	cells := []string{s.openWhat()}
	for _, y := range systems {
		cells = append(cells, r.open[y.name()].String())
	}
	for _, y := range others {
		cells = append(cells, r.open[leatName].Ratio(r.open[y.name()]))
	}
	measured.Table(w, append(table, cells))
}

// target is a number that cache.md asks for.
type target struct {
	what string
	got  string
	met  bool
}

// targets compares with what the design asks for.
func (r *results) targets(s sizes) (all []target) {
	const noData = "not measured"
	least := func(what string, got, want float64) {
		t := target{fmt.Sprintf("%s > %s", what, count(want)), count(got), got > want}
		if got == 0 {
			t.got = noData
		}
		all = append(all, t)
	}
	ratio := func(key string) float64 { return r.rates[key][leatName].ratio(r.rates[key][lockedName]) }
	open := r.open[leatName]
	all = append(all, target{fmt.Sprintf("open %s slots < 2 ms", count(float64(s.openSlots))), open.String(),
		len(open) > 0 && open.Median() < 2*time.Millisecond})
	least("get 110 KiB by view, a second, 1 process", r.rates["view large 1"][leatName].median(), 5e6)
	for _, n := range s.processes {
		want := 1.7
		if n > 2 {
			want = 1.1
		}
		least(fmt.Sprintf("get 110 KiB by copy into the same memory ÷ %s, %s", lockedName, processes(n)),
			ratio(fmt.Sprintf("into large %d", n)), want)
		least(fmt.Sprintf("get 110 KiB by copy into new memory ÷ %s, %s", lockedName, processes(n)),
			ratio(fmt.Sprintf("copy large %d", n)), want)
	}
	if _, ok := r.rates["recycled large 1"][lmdbName]; ok {
		for _, n := range s.processes {
			key := fmt.Sprintf("recycled large %d", n)
			least(fmt.Sprintf("get 110 KiB by copy into recycled memory ÷ %s, %s", lmdbName, processes(n)),
				r.rates[key][leatName].ratio(r.rates[key][lmdbName]), 0.8)
		}
	}
	for _, n := range s.processes {
		least(fmt.Sprintf("put 110 KiB ÷ %s, %s", lockedName, processes(n)), ratio(fmt.Sprintf("put large %d", n)), 10)
	}
	least("get 1 KiB by view, a second, 1 process", r.rates["view small 1"][leatName].median(), 2e6)
	least("get 1 KiB by copy into new memory, a second, 1 process", r.rates["copy small 1"][leatName].median(), 2e6)
	least(fmt.Sprintf("one writer against %d busy readers, puts a second", mixedReaders),
		r.rates[keyPuts][leatName].median(), 5e3)
	return all
}

func printTargets(w io.Writer, all []target) {
	table := [][]string{{"target", "measured", ""}}
	for _, t := range all {
		verdict := "missed"
		if t.met {
			verdict = "met"
		}
		table = append(table, []string{t.what, t.got, verdict})
	}
	measured.Table(w, table)
}
