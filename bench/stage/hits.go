package stage

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"leat/bench/measured"
	"leat/stage"
)

// Hit rates of epochs whose objects take more than fit.
const (
	hitsTable  = "hits"
	hitsSize   = 4 << 10
	hitsEpochs = 12 // measured ones; two come before them
	hitsWarm   = 2

	sequential, shuffled = "same order", "another order each time"
)

// hitsSizes are numbers of objects that fit into the stage, and of objects that an epoch reads.
var hitsSizes = []struct{ fitting, objects int }{{10, 12}, {1000, 1050}, {1000, 1200}, {1000, 1500}, {1000, 2000},
	{1000, 4000}}

func hitsLine(fitting, objects int) string { return fmt.Sprintf("%d in %d", objects, fitting) }

func hitsColumn(keep stage.Keep, order string) string {
	return map[stage.Keep]string{stage.LRU: "LRU", stage.Epochs: "Epochs"}[keep] + ", " + order
}

// hitsOrders are the columns of the table.
var hitsOrders = []struct {
	keep  stage.Keep
	order string
}{{stage.Epochs, sequential}, {stage.Epochs, shuffled}, {stage.LRU, sequential}, {stage.LRU, shuffled}}

// hits measures the hit rates once.
func (b *bench) hits(round int) error {
	for _, r := range hitsSizes[:b.epochs] {
		for _, c := range hitsOrders {
			err := b.places[0].fresh(int64(r.fitting)*hitsSize, func(dir string) error {
				a, err := b.one(fmt.Sprintf("hits-%d-%d-%d.prof", r.fitting, r.objects, c.keep),
					task{Op: opHits, Dir: dir, Objects: r.objects, Size: hitsSize, Workers: 1,
						MaxFiles: r.fitting, Keep: c.keep, Shuffle: c.order == shuffled, Seed: round,
						Epochs: hitsWarm + hitsEpochs})
				if err != nil {
					return err
				}
				reads := int64(0)
				for _, e := range a.Epochs[hitsWarm:] {
					reads += e.Reads
				}
				b.add(hitsTable, hitsLine(r.fitting, r.objects), hitsColumn(c.keep, c.order),
					100-100*float64(reads)/float64(hitsEpochs*r.objects))
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) allHits(runs int) error {
	for round := range runs {
		fmt.Fprintf(os.Stderr, "round %d of %d of the hit rates\n", round+1, runs)
		if err := b.hits(round); err != nil {
			return fmt.Errorf("hit rates: %w", err)
		}
	}
	return nil
}

func (b *bench) printHits(w io.Writer) {
	head := []string{"objects of an epoch, in space for"}
	for _, c := range hitsOrders {
		head = append(head, hitsColumn(c.keep, c.order))
	}
	rows := [][]string{append(head, "most possible without foresight")}
	for _, r := range hitsSizes[:b.epochs] {
		l := b.results.find(hitsTable, hitsLine(r.fitting, r.objects))
		row := []string{l.what}
		for _, c := range hitsOrders {
			row = append(row, l.values[hitsColumn(c.keep, c.order)].String())
		}
		rows = append(rows, append(row, digits(100*float64(r.fitting)/float64(r.objects))))
	}
	fmt.Fprintf(w, "Objects of an epoch that were staged already, in per cent, in %d epochs after the first %d; medians of the runs, in brackets the lowest and highest:\n\n", hitsEpochs, hitsWarm)
	measured.Table(w, rows)
}

// readEpoch reads all objects one after the other, each in use for as long as it is read.
func (w *worker) readEpoch() error {
	order := make([]int, w.Objects)
	for i := range order {
		order[i] = i
	}
	if w.Shuffle {
		if w.random == nil {
			w.random = rand.New(rand.NewPCG(1, uint64(w.Seed)))
		}
		w.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, i := range order {
		l := w.pool.Prefetch(w.source, w.object(i).name())
		b, err := l.Bytes(w.ctx)
		if err == nil {
			err = w.object(i).check(b)
		}
		if err != nil {
			return err
		}
		l.Release()
	}
	return nil
}
