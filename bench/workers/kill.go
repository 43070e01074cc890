package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"leat/bench/measured"
)

// kill compares runs one of whose two workers is killed with others.
func (b *bench) kill() error {
	in, err := b.bands(b.large)
	if err != nil {
		return err
	}
	with := func(more ...string) []string {
		args := append(slices.Clone(in), "-e", ndviText)
		if b.Quick { // several blocks
			args = append(args, "--window", "128", "--co", "BLOCKSIZE=128")
		}
		return append(append(args, bare...), more...)
	}
	two, reads := with("--on", "subprocess", "--workers", "2"),
		with("--on", "subprocess", "--workers", "2", "--workers-read")
	variants := []variant{
		{name: "2 workers, undisturbed", args: two},
		{name: "1 worker, undisturbed", args: with("--on", "subprocess", "--workers", "1")},
		{name: "2 workers, one killed at half", args: two, losing: 0.5},
		{name: "2 workers, one killed near the end (at 95 %)", args: two, losing: 0.95},
		{name: "2 workers, which read, undisturbed", args: reads},
		{name: "2 workers, which read, one killed at half", args: reads, losing: 0.5},
		{name: "in one process", args: with()},
	}
	results, err := b.compare(variants)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.Out, "NDVI of %d x %d pixels, one of two workers killed by `kill -9` when so much of the output is there. All outputs are the same bytes.\n\n", b.large, b.large)
	table := [][]string{{"", "wall", "÷ undisturbed", "blocks given out again", "RIOS, not in this run"}}
	for _, r := range results {
		base, again, rios := results[0], "", ""
		if strings.Contains(r.name, "read") {
			base = results[4]
		}
		switch {
		case len(r.wall) == 0:
			b.missing(fmt.Sprintf("%s ÷ undisturbed <= 1.5", r.name), errMissed.Error())
		case r.losing > 0:
			again, rios = fmt.Sprintf("%d-%d", slices.Min(r.again), slices.Max(r.again)),
				"the run fails after 21 s, and a timeout is blamed"
			b.ratioTarget(fmt.Sprintf("%s ÷ undisturbed <= 1.5", r.name), r.wall, base.wall, 1.5)
		}
		table = append(table, []string{r.name, r.wall.String(), r.wall.Ratio(base.wall), again, rios})
	}
	measured.Table(b.Out, table)
	return nil
}

// errMissed: the run was over before its worker could be killed, or the worker had nothing left to
// do.
var errMissed = errors.New("the run was over before a worker could be killed")

// lostWorker is what leat says then.
var lostWorker = regexp.MustCompile(`worker lost.* blocks[= ]"?\[([0-9 ]*)\]`)

// losing runs a variant and kills one of its workers. A run that was over too soon does not count,
// nor one whose worker had nothing to do any more.
func (b *bench) losing(v variant, first *digest) (s sample, again []int, err error) {
	unsaid := 0
	for range 5 {
		s, err = b.apply(v.args, func(ctx context.Context, pid int, out string) error {
			return killOne(ctx, pid, spoolOf(out), int64(v.losing*float64(first.bytes)))
		})
		if errors.Is(err, errMissed) {
			continue
		}
		if err != nil {
			return s, nil, err
		}
		switch m := lostWorker.FindAllStringSubmatch(s.stderr, -1); len(m) {
		case 0:
			unsaid++
		case 1:
			if n := len(strings.Fields(m[0][1])); n > 0 {
				return s, []int{n}, nil
			}
		default:
			return s, nil, fmt.Errorf("one worker was killed, and leat says %q", s.stderr)
		}
	}
	if unsaid > 0 && v.losing < 0.9 { // later than that the last result may have come just before
		return s, nil, fmt.Errorf("a worker was killed, and leat does not say that it lost one: %q", s.stderr)
	}
	return s, nil, errMissed
}

// spoolOf is where leat gathers the blocks of an output.
func spoolOf(out string) string {
	return filepath.Join(filepath.Dir(out), "."+filepath.Base(out)+".leat-part")
}

// killOne kills a child of a process when a file has so many bytes.
func killOne(ctx context.Context, pid int, path string, bytes int64) error {
	for {
		if st, err := os.Stat(path); err == nil && st.Size() >= bytes {
			break
		}
		select {
		case <-ctx.Done():
			return errMissed
		case <-time.After(time.Millisecond):
		}
	}
	all, err := children(pid)
	if err != nil {
		return err
	}
	if len(all) < 2 {
		return errMissed
	}
	if err := syscall.Kill(all[0], syscall.SIGKILL); err != nil {
		return errMissed
	}
	return nil
}

// children are the processes whose parent is a process, as /proc has them.
func children(pid int) (all []int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// 4711 (name, which may have anything in it) S 17 ...
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) || fields[0] == "Z" {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		all = append(all, child)
	}
	return all, nil
}
