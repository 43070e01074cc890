package workers

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"leat/bench/measured"
	"leat/worker/subprocess"
)

// start measures how soon a worker is there.
func (b *bench) start() error {
	var program, joined, started, first, ended measured.Times
	for i := range b.starts + 1 {
		begin := time.Now()
		if err := exec.CommandContext(b.ctx, b.leat.Program, "--version").Run(); err != nil {
			return err
		}
		whole := time.Since(begin)
		took, err := b.joining()
		if err != nil {
			return err
		}
		s, err := b.firstBlock(subprocess.New(&subprocess.Options{Output: os.Stderr}), "")
		if err != nil {
			return err
		}
		if i > 0 {
			program, joined = append(program, whole), append(joined, took)
			started, first, ended = append(started, s.started), append(first, s.first), append(ended, s.ended)
		}
	}
	fmt.Fprintf(b.Out, "Start of a worker, %d times, from the call that starts it:\n\n", b.starts)
	measured.Table(b.Out, [][]string{
		{"", "time"},
		{"`leat worker` until it has joined the run", joined.String()},
		{"for comparison: `leat --version`, from its start to its end", program.String()},
		{"this program as a worker: its process runs", started.String()},
		{"the same: its first block, without work, is accepted", first.String()},
		{"the same: the run has ended, and the process is gone", ended.String()},
	})
	b.target("start of a worker < 20 ms", joined, 20*time.Millisecond)
	return nil
}

// trivialBlocks measures what a block costs on its way to a worker and back.
func (b *bench) trivialBlocks() error {
	type line struct {
		name  string
		run   func() (time.Duration, error)
		times measured.Times
	}
	var lines []*line
	for _, tls := range []bool{false, true} {
		for _, bytes := range []int{0, 100 << 10, 1 << 20} {
			name := fmt.Sprintf("the channel alone, results of %s, ", size(bytes))
			if tls {
				name += "by TLS over loopback"
			} else {
				name += "over inherited connections"
			}
			lines = append(lines, &line{name: name,
				run: func() (time.Duration, error) { return b.stream(b.trivial, testJob{bytes}, tls) }})
		}
	}
	runs, err := b.tinyRuns()
	if err != nil {
		return err
	}
	for _, r := range runs {
		var first *digest
		lines = append(lines, &line{name: r.name, run: func() (time.Duration, error) {
			s, err := b.apply(r.args, nil)
			if err != nil {
				return 0, err
			}
			if first == nil {
				first = s.out
			}
			if *first != *s.out {
				return 0, fmt.Errorf("the output is another one")
			}
			return s.wall / time.Duration(b.trivial), nil
		}})
	}
	for round := range b.Runs + 1 {
		for i := range lines {
			l := lines[(i+round)%len(lines)]
			took, err := l.run()
			if err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
			if round > 0 {
				l.times = append(l.times, took)
			}
		}
	}
	fmt.Fprintf(b.Out, "%d blocks without work, one worker of one slot: the time of one. \"The channel alone\" is measured when the worker is there, and each result is accepted before the next; the whole runs of leat have their start and end in them, blocks of 16 x 16 pixels, "+
		"and as many processors as there are.\n\n", b.trivial)
	table := [][]string{{"", "a block"}}
	for _, l := range lines {
		table = append(table, []string{l.name, l.times.String()})
	}
	measured.Table(b.Out, table)
	for _, l := range []*line{lines[0], lines[3], lines[len(lines)-2], lines[len(lines)-1]} {
		b.target(fmt.Sprintf("%d trivial blocks, %s < 1 ms each", b.trivial, l.name), l.times, time.Millisecond)
	}
	return nil
}

// tinyRuns are runs of leat apply of many blocks without much work.
func (b *bench) tinyRuns() ([]variant, error) {
	const block, across = 16, 40
	in, err := b.bands(max(600, block*across), "--co", fmt.Sprintf("BLOCKSIZE=%d", block), "--srcwin",
		fmt.Sprintf("0,0,%d,%d", block*across, block*b.trivial/across))
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(in), "-e", ndviText, "--co", fmt.Sprintf("BLOCKSIZE=%d", block), "--window",
		fmt.Sprint(block))
	args = append(args, bare...)
	with := func(more ...string) []string { return append(slices.Clone(args), more...) }
	return []variant{
		{name: "a whole run of `leat apply` in one process", args: args},
		{name: "a whole run of `leat apply` with a subprocess", args: with("--on", "subprocess", "--workers", "1")},
		{name: "a whole run of `leat apply` with a subprocess that reads",
			args: with("--on", "subprocess", "--workers", "1", "--workers-read")},
	}, nil
}

// size names a number of bytes.
func size(bytes int) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 1<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
