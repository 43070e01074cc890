//go:build linux

package stage

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
)

func fullDiskOptions(seed uint64) *Options {
	o := crashOptions(seed)
	o.MaxBytes = 1 << 40 // the disk is the limit
	o.Keep = Keep(seed % 3)
	return o
}

// fullDiskChild churns on a disk that is full at times. The only error may be that it can't join.
func fullDiskChild(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	p, err := Open(context.Background(), args[0], fullDiskOptions(seed))
	if errors.Is(err, ErrNoSpace) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := churn(ctx, p, mixed("crash", int(seed%4), 3*mib/2), rand.New(rand.NewPCG(seed, 7)), crashNames,
		400); err != nil {
		return err
	}
	return p.Close()
}

// TestKillOnFullDisk kills and stops processes on a small disk that another program fills at times.
func TestKillOnFullDisk(t *testing.T) {
	dir := smallDisk(t, 10*mib)
	rounds := proctest.Rounds(6, 20, 60)
	seed := uint64(time.Now().UnixNano()) % 1e6
	r := rand.New(rand.NewPCG(seed, 1))
	filler := filepath.Join(dir, "filler")
	kills := 0
	for round := range rounds {
		var all []*proctest.Command
		for range 3 {
			seed++
			all = append(all, proctest.New("full disk", dir, strconv.FormatUint(seed, 10)).Start(t))
		}
		for range 4 {
			f := ok(os.Create(filler))(t)
			_ = unix.Fallocate(int(f.Fd()), 0, 0, r.Int64N(10)*mib) // as far as there is space
			must(t, f.Close())
			time.Sleep(time.Duration(r.IntN(15)) * time.Millisecond)
			if r.IntN(2) == 0 {
				must(t, os.Remove(filler))
			}
			time.Sleep(time.Duration(r.IntN(15)) * time.Millisecond)
		}
		for _, c := range all {
			if r.IntN(3) > 0 {
				c.Kill()
			}
			killed, out, err := c.Wait()
			if killed {
				kills++
			} else if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
		_ = os.Remove(filler)
		if round%3 == 2 {
			swept(t, dir)
		}
		if t.Failed() {
			t.Fatalf("round %d, seed %d", round, seed)
		}
	}
	p := pool(t, dir, Options{})
	_ = ok(p.Trim(t.Context(), 0))(t)
	if u := wantDisk(t, p); u.Bytes != 0 || u.Objects != 0 {
		t.Errorf("%d bytes of %d objects are left", u.Bytes, u.Objects)
	}
	u := ok(p.Usage())(t)
	if u.Since.Errors != 0 || u.Since.Damaged != 0 {
		t.Errorf("counters: %+v", u.Since)
	}
	t.Logf("%d kills, %+v", kills, u.Since)
	if u.Since.DiskFull == 0 && !testing.Short() {
		t.Error("the disk was never full")
	}
}
