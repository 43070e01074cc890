//go:build linux

package stage

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
)

func TestErrStoppedNamesProcess(t *testing.T) {
	dir := t.TempDir()
	c := proctest.New("stuck", dir, strconv.Itoa(mib)).Start(t)
	must(t, waitForFile(filepath.Join(dir, "copying")))
	pid := ok(strconv.Atoi(string(ok(os.ReadFile(filepath.Join(dir, "copying")))(t))))(t)
	o := Options{}
	o.Retry.StallTimeout = 50 * time.Millisecond
	p := pool(t, dir, o)
	s := newSource("stuck").put("a", object{size: mib})
	l := p.Prefetch(s, "a")
	defer l.Release()
	become(t, l, copiedElsewhere)
	// A process that runs is waited for, however long it takes.
	wantErr(t, l.WaitStaged(within(t, 200*time.Millisecond)), within(t, 0).Err())
	must(t, unix.Kill(pid, unix.SIGSTOP))
	err := l.WaitStaged(within(t, time.Minute))
	wantErr(t, err, ErrStopped)
	if holder := new(HolderError); !errors.As(err, &holder) || holder.PID != pid ||
		!strings.Contains(err.Error(), s.ID("a")) {
		t.Errorf("%v, which should name process %d and the object", err, pid)
	}
	// Its end is what lets others take over.
	c.Kill()
	must(t, l.WaitStaged(within(t, time.Minute)))
	wantBytes(t, l, s, 0)
}
