package apply

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"leat/bench/runner"
)

// bench is one run of the benchmark.
type bench struct {
	*runner.Options
	data     string // directory of inputs, absolute
	out      string // directory of outputs, absolute; removed at the end
	leat     string // the program
	self     string // this program
	peers    string // directory of scripts, absolute
	inputs   *inputs
	python   string // "": none that has what the peers need
	gdalCalc string
	versions string
	notes    []string
	targets  []string // rows of the table of targets
}

// all runs the cases and prints the report, case by case.
func (b *bench) all(ctx context.Context) error {
	b.inputs.say = b.say
	b.findPeers(ctx)
	b.print("%s\n", b.machine(ctx))
	b.print("Medians of %d alternating runs after one to warm up, of whole processes; in brackets the lowest and highest. \"Without start\" leaves out the start of Python and its imports. "+
		"Ratios are leat's time divided by the peer's: below 1 leat is quicker. Memory is the peak of resident pages.\n", b.Runs)
	if b.Quick {
		b.print("%s", strings.TrimSuffix(runner.QuickNote, "\n"))
	}
	for _, c := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"ndvi", b.ndvi}, {"memory", b.memory}, {"extras", b.extras}, {"focal", b.focal}, {"terrain", b.terrain},
		{"median", b.median}, {"cloudfree", b.cloudFree},
		{"polynomial", b.polynomial}, {"compute", b.compute}, {"small", b.small},
	} {
		if !b.Only.MatchString(c.name) {
			continue
		}
		b.say("%s", c.name)
		if err := c.run(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if len(b.targets) > 0 {
		b.print("## Targets\n\n| target | measured | met |\n| --- | --- | --- |\n%s\n", strings.Join(b.targets, "\n"))
	}
	for _, n := range b.notes {
		b.print("%s\n", n)
	}
	return nil
}

// say prints progress.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// print adds to the report.
func (b *bench) print(format string, args ...any) { fmt.Fprintf(b.Out, format+"\n", args...) }

func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
	b.say(format, args...)
}

// target reports whether a value is at most what is aimed at. An unmeasured value is not a target.
func (b *bench) target(what string, value, limit float64, format string) {
	switch {
	case value != value: // a NaN: the peer is not there
		b.targets = append(b.targets, fmt.Sprintf("| %s | not measured | |", what))
	case value <= limit:
		b.targets = append(b.targets, fmt.Sprintf("| %s | "+format+" | yes |", what, value))
	default:
		b.targets = append(b.targets, fmt.Sprintf("| %s | "+format+" | **no** |", what, value))
	}
}

func (b *bench) script(name string) string { return filepath.Join(b.peers, name) }

func (b *bench) outFile(name string) string { return filepath.Join(b.out, name) }

// size is the side of the scene of most cases.
func (b *bench) size() int {
	if b.Quick {
		return 1100
	}
	return 5490
}

// sizes are those of the memory case.
func (b *bench) sizes() []int {
	if b.Quick {
		return []int{1100, 1600}
	}
	return []int{5490, 10980, 21960}
}

// apply is a variant that runs leat apply; inputs are NAME=FILE.
func (b *bench) apply(name, expression string, inputs []string, more ...string) variant {
	out := b.outFile("leat.tif")
	args := []string{b.leat, "apply", "-q", "-o", "out=" + out, "-e", expression}
	for _, i := range inputs {
		args = append(args, "-i", i)
	}
	return variant{name: name, args: append(args, more...), out: out}
}

// peer is a variant that runs a script, none where there is no Python for it.
func (b *bench) peer(name, script, out string, args ...string) []variant {
	if b.python == "" {
		return nil
	}
	return []variant{{name: name, peer: true, out: out, args: append([]string{b.python, b.script(script)}, args...)}}
}
