package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// variant is one way of doing a case's work: a process.
type variant struct {
	name string
	args []string
	// out is the file that it writes, "" for none. It is removed after each run, outside the
	// measured time.
	out string
	// peer says that it is not leat: when it does not run it is left out. tuned and calc mark those
	// that others are compared with: the best that rasterio and NumPy can do, and gdal_calc.py.
	peer, tuned, calc bool
	// computeOnly: only the inner time means something, since the process reads its input first.
	computeOnly bool
	// other says that the output is not the same pixels as that of the case's first variant.
	other bool
	// rounding is how far its pixels may differ from those of the first variant.
	rounding float64
}

// sample is what one run took.
type sample struct {
	wall, inner, cpu time.Duration // inner is 0 for processes that do not report it
	rss              int64         // bytes, peak
	bytes            int64         // of the output
}

// result is a variant with its runs.
type result struct {
	variant
	samples []sample
	compare string // how its pixels compare with those of the first variant
	err     error  // it could not be run
}

// patience is how long a run may take: GDAL with several threads has been seen to hang.
const patience = 3 * time.Minute

// execute runs a variant once.
func (b *bench) execute(ctx context.Context, v *variant) (sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not end within %v", patience))
	defer cancel()
	cmd := exec.CommandContext(ctx, v.args[0], v.args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &stdout, &stderr, b.out
	start := time.Now()
	err := cmd.Run()
	s := sample{wall: time.Since(start)}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", v.name, err, tail(stderr.String()))
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return s, errors.New("the system does not report what a process used")
	}
	s.cpu = cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()
	s.rss = int64(usage.Maxrss) * 1024
	if runtime.GOOS == "darwin" { // bytes there
		s.rss /= 1024
	}
	for line := range strings.Lines(stdout.String()) {
		if text, ok := strings.CutPrefix(line, "inner "); ok {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				return s, fmt.Errorf("%s printed %q", v.name, line)
			}
			s.inner = time.Duration(seconds * float64(time.Second))
		}
	}
	if v.out != "" {
		st, err := os.Stat(v.out)
		if err != nil {
			return s, fmt.Errorf("%s left no output: %w", v.name, err)
		}
		s.bytes = st.Size()
	}
	return s, nil
}

// tail is the end of a long text.
func tail(s string) string {
	if n := len(s) - 2000; n > 0 {
		s = "..." + s[n:]
	}
	return strings.TrimSpace(s)
}

// measure runs the variants in turn: once to warm up, when outputs are compared too, then runs
// times, each round beginning with another variant, so that other work on the machine affects all
// alike.
func (b *bench) measure(ctx context.Context, variants []variant, runs int) ([]*result, error) {
	results := make([]*result, len(variants))
	reference := ""
	for i, v := range variants {
		r := &result{variant: v}
		results[i] = r
		b.say("  warming up: %s", v.name)
		var s sample
		if s, r.err = b.execute(ctx, &v); r.err != nil {
			if ctx.Err() != nil || !v.peer {
				return nil, r.err
			}
			b.say("  left out: %v", r.err)
			continue
		}
		if b.Quick { // this run will do
			r.samples = append(r.samples, s)
		}
		switch {
		case v.out == "" || b.python == "":
		case reference == "":
			reference = v.out + ".reference.tif"
			if err := os.Rename(v.out, reference); err != nil {
				return nil, err
			}
			defer os.Remove(reference)
		case !v.other:
			if r.compare, r.err = b.compare(ctx, reference, v.out, v.rounding); r.err != nil {
				return nil, fmt.Errorf("comparing the output of %s: %w", v.name, r.err)
			}
		}
		if err := removeOutput(&v); err != nil {
			return nil, err
		}
	}
	if b.Quick {
		return results, nil
	}
	for round := range runs {
		for i := range results {
			r := results[(i+round)%len(results)]
			if r.err != nil {
				continue
			}
			s, err := b.execute(ctx, &r.variant)
			if err != nil {
				return nil, err
			}
			if b.Verbose {
				b.say("  %d  %-50s %.3f s wall  %.3f inner  %.3f cpu", round+1, r.name, s.wall.Seconds(),
					s.inner.Seconds(), s.cpu.Seconds())
			}
			r.samples = append(r.samples, s)
			if err := removeOutput(&r.variant); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func removeOutput(v *variant) error {
	if v.out == "" {
		return nil
	}
	if err := os.Remove(v.out); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// compare reports how the pixels of two rasters differ. Differences up to rounding count as such.
func (b *bench) compare(ctx context.Context, x, y string, rounding float64) (string, error) {
	cmd := exec.CommandContext(ctx, b.python, b.script("compare.py"), x, y)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	var different, all int64
	var worst float64
	if _, err := fmt.Sscan(string(out), &different, &all, &worst); err != nil {
		return "", fmt.Errorf("%q: %w", out, err)
	}
	if different == 0 {
		return "equal", nil
	}
	if worst <= rounding {
		return fmt.Sprintf("equal but for rounding: %d of %d, %.2g at most", different, all, worst), nil
	}
	return fmt.Sprintf("%d of %d differ, by %.2g at most", different, all, worst), nil
}

// spread is the median of some values, the lowest and the highest.
type spread struct{ median, low, high float64 }

func spreadOf(samples []sample, value func(sample) float64) spread {
	v := make([]float64, len(samples))
	for i, s := range samples {
		v[i] = value(s)
	}
	return spreadOfValues(v)
}

func spreadOfValues(v []float64) spread {
	if len(v) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}

func wall(s sample) float64    { return s.wall.Seconds() }
func cpu(s sample) float64     { return s.cpu.Seconds() }
func rss(s sample) float64     { return float64(s.rss) }
func bytesOf(s sample) float64 { return float64(s.bytes) }

// inner is the time without the start of the process, the whole of it where that is not known.
func inner(s sample) float64 {
	if s.inner == 0 {
		return s.wall.Seconds()
	}
	return s.inner.Seconds()
}
