package stage

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Workers of the cases, and what they and all others are called in the report.
var (
	latencies = []time.Duration{5 * time.Millisecond, 20 * time.Millisecond}
	workers   = []int{8, 32}
)

func speedLine(latency time.Duration, workers int, p place) string {
	return fmt.Sprintf("source of %v, %d workers, %s", latency, workers, p.name)
}

const (
	speedRecycled = "%s, recycled memory"

	againSame = "second epoch in the same pool, %s"
	againNew  = "second epoch in a new pool, which compares them with their source (%v), %s"

	costAll      = "leat: staged and read, %s"
	costRecycled = "leat: staged and read into recycled memory, %s"
	costInto     = "leat: staged and read into the same memory, %s"
	costIntoSame = "leat: second epoch in the same pool, read into the same memory, %s"
	costCopy     = "leat: staged, not read, %s"
	costSame     = "leat: second epoch in the same pool, %s"
	costNew      = "leat: second epoch in a new pool, compared with their source, %s"
	costPlain    = "plain program: read, written, read from the file, removed, %s"
	costReuse    = "one read of a file into the same memory, %s"
	costGet      = "the source alone, read into new memory"
	costWrite    = "one write to a file, %s"
	costAlone    = "one write to one of as many files as processors, one writer each, %s"
	costRead     = "one read of a file into new memory, %s"
	costWire     = "from a server: leat, staged and read"
	costWireInto = "from a server: leat, staged and read into the same memory"
	costObjstore = "from a server: leat's objstore alone, into new memory"
	costPlainNet = "from a server: plain program"
	costBare     = "from a server: a bare GET by net/http, into new memory"
	costBareIn   = "from a server: a bare GET by net/http, each goroutine into the same memory"

	fourReads   = "4 processes want the same %d objects of 100 KiB: reads of the source"
	fourTime    = "the same: time until all have read all, source of 5 ms"
	oneStream   = "one object of %d MiB at 50 MB/s a connection: by one stream"
	eightParts  = "the same by 8 ranges"
	memoryReads = "the same: requests for their bytes, those included that found no space"
	memoryLine  = "memory above the start, MiB: %d objects of 8 MiB, 32 workers, a limit of 16 MiB"
)

// all measures the selected sections. Each round measures all cases in turn, so a slow minute of
// the machine affects all of them.
func (b *bench) all() error {
	rounds := []struct {
		section string
		measure func() error
	}{
		{"speed", func() error { return b.eachPlace(b.speed) }},
		{"cost", func() error { return b.eachPlace(b.cost) }},
		{"server", b.wire},
		{"processes", b.four},
		{"memory", b.memory},
	}
	for round := range b.runs {
		for _, x := range rounds {
			if !b.wanted(x.section) {
				continue
			}
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, b.runs, x.section)
			if err := x.measure(); err != nil {
				return fmt.Errorf("%s: %w", x.section, err)
			}
		}
	}
	if b.wanted("hits") {
		if err := b.allHits(b.runs); err != nil {
			return fmt.Errorf("hits: %w", err)
		}
	}
	if b.wanted("cogs") {
		fmt.Fprintln(os.Stderr, "two COGs")
		if err := b.cogs(2*b.runs - 1); err != nil {
			return fmt.Errorf("two COGs: %w", err)
		}
	}
	for round := range b.bigRuns {
		if !b.wanted("large") {
			break
		}
		fmt.Fprintf(os.Stderr, "round %d of %d of the large object\n", round+1, b.bigRuns)
		if err := b.large1(); err != nil {
			return fmt.Errorf("one large object: %w", err)
		}
	}
	return nil
}

func (b *bench) eachPlace(measure func(place) error) error {
	for _, p := range b.places {
		if err := measure(p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// small is a task with the small objects.
func (b *bench) small(op, dir string) task {
	return task{Op: op, Dir: dir, Objects: b.objects, Size: smallSize, Workers: 32}
}

// in has f run with an empty directory that is going to hold the small objects.
func (b *bench) in(p place, f func(dir string) error) error {
	syscall.Sync() // nothing that was before is to be written back meanwhile
	return p.fresh(int64(b.objects)*smallSize*5/4, f)
}

func (b *bench) perSecond(e epoch) float64 { return float64(b.objects) / e.Took.Seconds() }

// speed measures objects a second.
func (b *bench) speed(p place) error {
	for _, latency := range latencies {
		for _, n := range workers {
			what := speedLine(latency, n, p)
			name := fmt.Sprintf("speed-%v-%d-%s.prof", latency, n, p.name)
			err := b.in(p, func(dir string) error {
				t := b.small(opStage, dir)
				t.Latency, t.Workers, t.Epochs = latency, n, 2
				a, err := b.one(name, t)
				if err != nil {
					return err
				}
				if reads := a.Epochs[0].Reads; reads != int64(b.objects) {
					return fmt.Errorf("%d objects were read %d times", b.objects, reads)
				}
				b.add(speedTable, what, ours, b.perSecond(a.Epochs[0]))
				if latency != latencies[0] || n != workers[len(workers)-1] {
					return nil
				}
				same, again := fmt.Sprintf(againSame, p.name), fmt.Sprintf(againNew, latency, p.name)
				b.add(speedTable, same, ours, b.perSecond(a.Epochs[1]))
				b.add(speedTable, same, sourceReads, float64(a.Epochs[1].Reads))
				b.add(speedTable, same, sourceChecks, float64(a.Epochs[1].Checks))
				t.Epochs = 1
				if err := b.speedRecycled(p, t, what); err != nil {
					return err
				}
				if a, err = b.one("again-"+name, t); err != nil {
					return err
				}
				b.add(speedTable, again, ours, b.perSecond(a.Epochs[0]))
				b.add(speedTable, again, sourceReads, float64(a.Epochs[0].Reads))
				b.add(speedTable, again, sourceChecks, float64(a.Epochs[0].Checks))
				return nil
			})
			if err != nil {
				return err
			}
			err = b.in(p, func(dir string) error {
				t := b.small(opPlain, dir)
				t.Latency, t.Workers = latency, n
				a, err := b.one("plain-"+name, t)
				if err == nil {
					b.add(speedTable, what, plainProgram, b.perSecond(a.Epochs[0]))
				}
				return err
			})
			if err != nil {
				return err
			}
			t := b.small(opGet, p.dir)
			t.Latency, t.Workers = latency, n
			a, err := b.one("source-"+name, t)
			if err != nil {
				return err
			}
			b.add(speedTable, what, sourceAlone, b.perSecond(a.Epochs[0]))
		}
	}
	return nil
}

// speedRecycled measures objects a second of a task whose memory is recycled.
func (b *bench) speedRecycled(p place, t task, what string) error {
	return b.in(p, func(dir string) error {
		t.Op, t.Dir = opRecycled, dir
		a, err := b.one("speed-recycled-"+p.name+".prof", t)
		if err == nil {
			b.add(speedTable, fmt.Sprintf(speedRecycled, what), ours, b.perSecond(a.Epochs[0]))
		}
		return err
	})
}

// served calls f with a server.
func (b *bench) served(t serverTask, f func(s *server) error) error {
	s, err := b.startServer(t)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.end())
}

// expect fails unless so many objects were read.
func (s *server) expect(reads int64) error {
	n, err := s.counts()
	if err == nil && n.Reads != reads {
		err = fmt.Errorf("the server was asked for %d objects, not %d", n.Reads, reads)
	}
	return err
}

// four measures four processes that want the same objects.
func (b *bench) four() error {
	return b.served(serverTask{Latency: 5 * time.Millisecond}, func(s *server) error {
		return b.in(b.places[0], func(dir string) error {
			t := b.small(opStage, dir)
			t.URL, t.Objects, t.Workers = s.url, b.shared, 8
			all, err := b.measure(4, "four", t)
			if err != nil {
				return err
			}
			n, err := s.counts()
			if err != nil {
				return err
			}
			slowest := time.Duration(0)
			for _, a := range all {
				slowest = max(slowest, a.Epochs[0].Took)
			}
			b.add(otherTable, fmt.Sprintf(fourReads, b.shared), ours, float64(n.Reads))
			b.add(otherTable, fourTime, oursTime, slowest.Seconds())
			return nil
		})
	})
}

// memory measures the peak of a process whose objects are half the limit each.
func (b *bench) memory() error {
	return b.served(serverTask{}, func(s *server) error {
		return b.in(b.places[0], func(dir string) error {
			a, err := b.one("memory.prof",
				task{Op: opMemory, Dir: dir, URL: s.url, Objects: b.large, Size: largeSize, Workers: 32,
					MaxBytes: 16 << 20})
			if err != nil {
				return err
			}
			n, err := s.counts()
			if err == nil {
				b.add(otherTable, fmt.Sprintf(memoryLine, b.large), ours, float64(a.Memory)/(1<<20))
				b.add(otherTable, memoryReads, ours, float64(n.Reads))
			}
			return err
		})
	})
}

// large1 measures one large object.
func (b *bench) large1() error {
	for _, x := range []struct {
		ranges int
		line   string
	}{{1, fmt.Sprintf(oneStream, b.big>>20)}, {8, eightParts}} {
		err := b.served(serverTask{Rate: 50e6}, func(s *server) error {
			return b.places[0].fresh(b.big, func(dir string) error {
				a, err := b.one(fmt.Sprintf("ranges-%d.prof", x.ranges),
					task{Op: opCopy, Dir: dir, URL: s.url, Objects: 1, Size: b.big, Workers: 8, Ranges: x.ranges})
				if err == nil {
					b.add(otherTable, x.line, oursTime, a.Epochs[0].Took.Seconds())
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
