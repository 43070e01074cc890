package stage

import (
	"fmt"
	"io"
	"slices"
	"time"

	"leat/bench/measured"
)

// samples are measured values of one thing.
type samples []float64

// median is the middle one, or the mean of the middle two; 0 of none.
func (s samples) median() float64 {
	if len(s) == 0 {
		return 0
	}
	o := slices.Sorted(slices.Values(s))
	return (o[(len(o)-1)/2] + o[len(o)/2]) / 2
}

// String is the median, with the lowest and highest where they differ: "5710 (5520-5800)".
func (s samples) String() string {
	if len(s) == 0 {
		return ""
	}
	low, high := digits(slices.Min(s)), digits(slices.Max(s))
	if low == high {
		return low
	}
	return fmt.Sprintf("%s (%s-%s)", digits(s.median()), low, high)
}

// digits is a number with three digits, or all before its point.
func digits(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// times returns the samples, which are seconds, as times.
func (s samples) times() (t measured.Times) {
	for _, v := range s {
		t = append(t, time.Duration(v*1e9))
	}
	return t
}

// Tables and columns of the report.
const (
	speedTable = "speed"
	costTable  = "cost"
	otherTable = "other"
	cogTable   = "cogs"

	ours         = "leat"
	oursTime     = "seconds"
	plainProgram = "plain program"
	sourceAlone  = "the source alone"
	sourceReads  = "reads of the source"
	sourceChecks = "questions to the source"
	costBoth     = "both"
	costUser     = "user"
	costSystem   = "system"
	costClock    = "clock"
)

// line is one of a table.
type line struct {
	table, what string
	values      map[string]samples // by column
}

// results are the lines in the order in which they were measured first.
type results []*line

func (r *results) find(table, what string) *line {
	for _, l := range *r {
		if l.table == table && l.what == what {
			return l
		}
	}
	return &line{table: table, what: what, values: map[string]samples{}}
}

func (b *bench) add(table, what, column string, v float64) {
	l := b.results.find(table, what)
	if len(l.values) == 0 {
		b.results = append(b.results, l)
	}
	l.values[column] = append(l.values[column], v)
}

// energon are its figures, by line.
func (b *bench) energon() map[string]string {
	all := map[string]string{
		fmt.Sprintf(costAll, "disk"):         "160-415, median 355",
		fmt.Sprintf(againSame, "disk"):       "nothing is kept",
		fmt.Sprintf(fourReads, b.shared):     "1200 of 300 objects",
		fmt.Sprintf(memoryLine, b.large):     "269",
		speedLine(latencies[0], 8, place{}):  "1221",
		speedLine(latencies[0], 32, place{}): "2438",
		speedLine(latencies[1], 8, place{}):  "363",
		speedLine(latencies[1], 32, place{}): "1380",
	}
	for _, l := range latencies {
		for _, n := range workers {
			all[speedLine(l, n, place{name: "disk"})] = all[speedLine(l, n, place{})]
		}
	}
	return all
}

func (b *bench) print(w io.Writer) {
	const elsewhere = "Energon, not in this run"
	theirs := b.energon()
	speed := [][]string{{"objects a second", ours, plainProgram, "leat ÷ plain program", sourceAlone, elsewhere,
		sourceReads, sourceChecks}}
	cost := [][]string{{"µs of processors for an object", "user and system", "user", "system",
		"µs of the clock for an object", elsewhere}}
	other := [][]string{{"", ours, elsewhere}}
	for _, l := range b.results {
		v := l.values
		switch l.table {
		case speedTable:
			ratio := ""
			if p := v[plainProgram].median(); p > 0 {
				ratio = fmt.Sprintf("%.2f", v[ours].median()/p)
			}
			speed = append(speed, []string{l.what, v[ours].String(), v[plainProgram].String(), ratio,
				v[sourceAlone].String(), theirs[l.what], v[sourceReads].String(), v[sourceChecks].String()})
		case costTable:
			cost = append(cost, []string{l.what, v[costBoth].String(), v[costUser].String(), v[costSystem].String(),
				v[costClock].String(), theirs[l.what]})
		case otherTable:
			value := v[ours].String()
			if value == "" {
				value = v[oursTime].times().String()
			}
			other = append(other, []string{l.what, value, theirs[l.what]})
		}
	}
	if len(speed) > 1 {
		fmt.Fprintf(w, "%d objects of 100 KiB, all prefetched, then read in order into new memory and released:\n\n",
			b.objects)
		measured.Table(w, speed)
	}
	if len(cost) > 1 {
		fmt.Fprintf(w, "The same, 32 workers, a source that does not wait:\n\n")
		measured.Table(w, cost)
	}
	if len(other) > 1 {
		measured.Table(w, other)
	}
	if len(speed)+len(cost)+len(other) > 3 {
		fmt.Fprintln(w, notes)
		fmt.Fprintln(w)
	}
	if b.wanted("cogs") {
		b.printCOGs(w)
	}
	if b.wanted("hits") {
		b.printHits(w)
	}
	if all := b.targets(); len(all) > 0 {
		printTargets(w, all)
	}
}

const notes = "Medians; in brackets the lowest and highest. Each line is measured in its own processes; times exclude the opening of a pool. \"Disk\" is the directory of temporary files, where nothing is flushed and all" +
	" stays in the page cache; \"memory\" is /dev/shm. As many pages as a run needs are touched just before it: where the kernel has to get pages from the host of a virtual machine" +
	" first, that alone takes 10 to 200 µs for 100 KiB. All times include reading and checking the objects. Objects are read into new memory, as Energon returns them, unless a line says otherwise: Go's collector, which begins with a heap of 4 MiB, runs for every 40 of them. The kernel estimates the parts user and system;" +
	" their sum is exact. The plain program keeps nothing: it removes each file after reading it. The server shares the processors with its client; the time of the server is not counted. Memory is VmHWM of the process that stages and reads."

// target is a number that the design asks for.
type target struct {
	what, got string
	met       bool
}

// targets compares with what the design asks for.
func (b *bench) targets() (all []target) {
	value := func(table, what, column string) samples { return b.results.find(table, what).values[column] }
	note := func(what string, s samples, met func(v float64) bool) {
		t := target{what: what, got: "not measured"}
		if len(s) > 0 {
			t.got, t.met = s.String(), met(s.median())
		}
		if len(s) > 0 || b.complete {
			all = append(all, t)
		}
	}
	above := func(want float64) func(float64) bool { return func(v float64) bool { return v > want } }
	below := func(want float64) func(float64) bool { return func(v float64) bool { return v < want } }
	same := func(want float64) func(float64) bool { return func(v float64) bool { return v == want } }
	for _, p := range b.places {
		note("objects a second, 32 workers, 5 ms, "+p.name+" > 6000",
			value(speedTable, speedLine(latencies[0], 32, p), ours), above(6000))
		note("the same, recycled memory, "+p.name+" > 6000",
			value(speedTable, fmt.Sprintf(speedRecycled, speedLine(latencies[0], 32, p)), ours), above(6000))
		note("objects a second, 32 workers, 20 ms, "+p.name+" > 1500",
			value(speedTable, speedLine(latencies[1], 32, p), ours), above(1500))
		note("processor time of an object, µs, "+p.name+" < 70",
			value(costTable, fmt.Sprintf(costAll, p.name), costBoth), below(70))
		note("the same, read into recycled memory, "+p.name+" < 70",
			value(costTable, fmt.Sprintf(costRecycled, p.name), costBoth), below(70))
		note("the same, read into the same memory, "+p.name+" < 50",
			value(costTable, fmt.Sprintf(costInto, p.name), costBoth), below(50))
		note("reads of the source in a second epoch in the same pool, "+p.name+": 0",
			value(speedTable, fmt.Sprintf(againSame, p.name), sourceReads), same(0))
		note("in a new pool, "+p.name+": 0",
			value(speedTable, fmt.Sprintf(againNew, latencies[0], p.name), sourceReads), same(0))
	}
	note(fmt.Sprintf("reads of the source by 4 processes that want the same %d objects: %[1]d", b.shared),
		value(otherTable, fmt.Sprintf(fourReads, b.shared), ours), same(float64(b.shared)))
	one, eight := value(otherTable, fmt.Sprintf(oneStream, b.big>>20), oursTime),
		value(otherTable, eightParts, oursTime)
	var times samples
	for i := range min(len(one), len(eight)) {
		times = append(times, one[i]/eight[i])
	}
	note("8 ranges are as many times as fast as one stream: 6 or more", times, func(v float64) bool { return v >= 6 })
	note("memory above the start, MiB < 64", value(otherTable, fmt.Sprintf(memoryLine, b.large), ours), below(64))
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
