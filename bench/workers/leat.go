package workers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"leat/bench/measured"
	"leat/bench/scene"
)

// ndviText is the main job's expression.
const ndviText = "(nir - red) / (nir + red)"

// bands are the inputs of ndviText as options of leat apply.
func (b *bench) bands(side int, more ...string) ([]string, error) {
	red, nir, err := b.leat.Bands(b.ctx, side, more...)
	return []string{"-i", "red=" + red, "-i", "nir=" + nir}, err
}

// bare are the options of a run that writes pixels only.
var bare = []string{"--overviews", "none", "--no-stats"}

// patience is how long a run of leat may take.
const patience = 3 * time.Minute

// sample is what a run of leat took.
type sample struct {
	wall, cpu time.Duration // cpu: with its workers
	out       *digest
	stderr    string
}

// digest identifies the content of a file: its SHA-256 and size in bytes.
type digest struct {
	sum   [sha256.Size]byte
	bytes int64
}

func digestOf(path string) (*digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, d := sha256.New(), &digest{}
	if d.bytes, err = io.Copy(h, f); err != nil {
		return nil, err
	}
	h.Sum(d.sum[:0])
	return d, nil
}

// apply runs leat apply. meanwhile is called with the process and the path of the output once it
// has started; nil: it is not called. The output is examined and removed outside the measured time.
func (b *bench) apply(args []string, meanwhile func(ctx context.Context, pid int, out string) error) (s sample,
	err error) {
	out := filepath.Join(b.dir, "out.tif")
	ctx, cancel := context.WithTimeoutCause(b.ctx, patience, fmt.Errorf("it did not end within %v", patience))
	defer cancel()
	cmd := exec.CommandContext(ctx, b.leat.Program, append([]string{"apply", "-q", "-o", "out=" + out}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	watching, enough := context.WithCancel(ctx)
	defer enough()
	watched := make(chan error, 1)
	go func() {
		if meanwhile == nil {
			watched <- nil
			return
		}
		watched <- meanwhile(watching, cmd.Process.Pid, out)
	}()
	err = cmd.Wait()
	s.wall = time.Since(begin)
	enough()
	werr := <-watched
	s.stderr = stderr.String()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return s, fmt.Errorf("leat apply %s: %w\n%s", strings.Join(args, " "), err, scene.Tail(stderr.Bytes()))
	}
	if werr != nil {
		return s, errors.Join(werr, os.Remove(out))
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if s.out, err = digestOf(out); err != nil {
		return s, err
	}
	return s, os.Remove(out)
}

// variant is one way of running leat on the same job.
type variant struct {
	name string
	args []string
	// losing is the part of the output that is there when a worker is killed; 0: none is.
	losing float64
}

// result is a variant with its runs.
type result struct {
	variant
	wall, cpu measured.Times
	again     []int // blocks that were given out again
}

// compare runs variants of one job in turn, after one round that warms up. All outputs must be the
// same.
func (b *bench) compare(variants []variant) ([]*result, error) {
	var results []*result
	for _, v := range variants {
		results = append(results, &result{variant: v})
	}
	var first *digest
	for round := range b.Runs + 1 {
		for i := range results {
			r := results[(i+round)%len(results)]
			if round == 0 {
				r = results[i] // the first variant's is what others are compared with
				if r.losing > 0 {
					continue
				}
			}
			if err := measured.TouchMemory(b.dir, b.touched); err != nil {
				return nil, err
			}
			s, again, err := b.one(r.variant, first)
			if errors.Is(err, errMissed) {
				b.Say("  %d  %-60s %v", round, r.name, err)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			if first == nil {
				first = s.out
			}
			if *s.out != *first {
				return nil, fmt.Errorf("%s: the output is another one than that of: %s", r.name, results[0].name)
			}
			b.Say("  %d  %-60s %.3f s wall  %.3f s processors", round, r.name, s.wall.Seconds(), s.cpu.Seconds())
			if round > 0 {
				r.wall, r.cpu = append(r.wall, s.wall), append(r.cpu, s.cpu)
				r.again = append(r.again, again...)
			}
		}
	}
	return results, nil
}

// one runs a variant once.
func (b *bench) one(v variant, first *digest) (s sample, again []int, err error) {
	if v.losing > 0 {
		return b.losing(v, first)
	}
	s, err = b.apply(v.args, nil)
	return s, nil, err
}
