//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"leat/internal/proctest"
)

func TestEnergonMemoryUnderSmallLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: reads 1.5 GiB of made-up objects")
	}
	if raced() {
		t.Skip("the race detector takes memory of its own")
	}
	killed, out, err := proctest.New("memory", inMemory(t)).Start(t).Wait()
	if err != nil || killed {
		t.Fatalf("%v\n%s", err, out)
	}
	grown := ok(strconv.ParseInt(strings.TrimSpace(out), 10, 64))(t)
	t.Logf("resident memory: %d MiB above the start", grown/kib)
	if grown > 64*kib {
		t.Errorf("resident memory grew by %d KiB", grown)
	}
}

// memoryChild stages objects of 8 MiB with 32 workers under a limit of 16 MiB, and prints by how
// many KiB its resident memory grew.
func memoryChild(args []string) error {
	start, err := residentMost()
	if err != nil {
		return err
	}
	s := small("memory", 8*mib)
	p, err := Open(context.Background(), args[0], quick(Options{MaxBytes: 16 * mib, Workers: 32}))
	if err != nil {
		return err
	}
	const n = 200
	all := make([]*Ref, n)
	for i := range all {
		all[i] = p.Prefetch(s, fmt.Sprint(i))
	}
	buf := make([]byte, 64*kib)
	want := make([]byte, 64*kib)
	for i, l := range all {
		r, err := l.Open(context.Background())
		if err != nil {
			return err
		}
		for at := int64(0); at < r.Size(); at += int64(len(buf)) {
			fill(want, seedOf(fmt.Sprint(i), 0), at)
			if k, err := r.ReadAt(buf, at); k != len(buf) || !bytes.Equal(buf, want) {
				return fmt.Errorf("object %d at %d: %d bytes, %w", i, at, k, err)
			}
		}
		r.Close()
		l.Release()
	}
	most, err := residentMost()
	if err != nil {
		return err
	}
	fmt.Println(most - start)
	return p.Close()
}

// residentMost is VmHWM in KiB.
func residentMost() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	return strconv.ParseInt(strings.Fields(after)[0], 10, 64)
}

func TestEnergonProcessesShareCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	results := together(t, dir, 4, "same files", dir)
	total := 0
	for _, r := range results {
		n := ok(strconv.Atoi(r))(t)
		total += n
	}
	t.Logf("reads of each process: %v", results)
	if total != 300 {
		t.Errorf("300 files were read %d times", total)
	}
}

// sameFilesChild gets the same files as others, and prints how many its source was asked for.
func sameFilesChild(args []string) error {
	s := small("same", 20*kib)
	s.delay = 2 * time.Millisecond
	p, err := Open(context.Background(), filepath.Join(args[0], "pool"), quick(Options{}))
	if err != nil {
		return err
	}
	if err := ready(args); err != nil {
		return err
	}
	var all []*Ref
	for i := range 300 {
		all = append(all, p.Prefetch(s, fmt.Sprint(i)))
	}
	for i, l := range all {
		b, err := l.Bytes(context.Background())
		if err != nil || !bytes.Equal(b, content(fmt.Sprint(i), 0, 20*kib)) {
			return fmt.Errorf("file %d: %d bytes, %w", i, len(b), err)
		}
		l.Release()
	}
	reads, stats, _ := s.all()
	if stats > 300 {
		return fmt.Errorf("%d files were compared with the source", stats)
	}
	fmt.Println(reads)
	return p.Close()
}

func TestEnergonCloseAndKillLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := small("left", 100*kib)
	p := ok(Open(context.Background(), dir, quick(Options{Keep: Drop})))(t)
	var all []*Ref
	for i := range 20 {
		all = append(all, p.Prefetch(s, fmt.Sprint(i)))
	}
	for i, l := range all[:10] {
		wantBytes(t, l, s, 0)
		if i%2 == 0 {
			l.Release()
		}
	}
	must(t, p.Close())
	if n, files, err := onDisk(dir); n != 0 || files != 0 || err != nil {
		t.Errorf("after Close %d bytes in %d files stay: %v", n, files, err)
	}
	child := proctest.New("left", dir).Start(t)
	soon(t, "the child copying", func() bool { n, _, err := onDisk(dir); return err == nil && n > 0 })
	child.Kill()
	child.Wait()
	p = pool(t, dir, Options{Keep: Drop})
	u := wantDisk(t, p)
	if names := ok(os.ReadDir(filepath.Join(dir, "stage", "procs")))(t); len(names) != 1 {
		t.Errorf("%d processes have a file", len(names))
	}
	t.Logf("%d objects were there at the kill", u.Objects)
}

func leftChild(args []string) error {
	s := small("left", 2*mib)
	p, err := Open(context.Background(), args[0], quick(Options{Keep: Drop}))
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		b, err := p.Prefetch(s, fmt.Sprint(i%100)).Bytes(context.Background())
		if err != nil || len(b) != 2*mib {
			return errors.Join(err, fmt.Errorf("%d bytes", len(b)))
		}
	}
}
