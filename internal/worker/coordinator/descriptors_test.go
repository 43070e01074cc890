package coordinator

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"leat/worker"
)

func TestCheckDescriptors(t *testing.T) {
	for _, c := range []struct {
		local     bool
		workers   int
		cur, max  uint64
		raised    uint64
		wantError string
	}{
		{workers: 100, cur: 1024, max: 1024},
		{workers: 256, cur: 1024, max: 1024},
		{workers: 257, cur: 1024, max: 1024,
			wantError: "257 workers need 1027 open files (3 each and 256 others), the limit is 1024 (RLIMIT_NOFILE): at most 256 workers"},
		{workers: 257, cur: 1024, max: 4096, raised: 4096},
		{workers: 200, local: true, cur: 1024, max: 1024, wantError: "at most 128 workers"},
		{workers: 1, cur: 16, max: 16, wantError: "at most 0 workers"},
	} {
		var raised uint64
		err := raiseDescriptors(worker.Capabilities{Local: c.local}, c.workers, unix.Rlimit{Cur: c.cur, Max: c.max},
			func(l *unix.Rlimit) error {
				raised = l.Cur
				return nil
			})
		if raised != c.raised || (err == nil) != (c.wantError == "") || err != nil && !strings.Contains(err.Error(),
			c.wantError) {
			t.Errorf("%+v: raised to %d, %v", c, raised, err)
		}
	}
	no := errors.New("no")
	if err := raiseDescriptors(worker.Capabilities{}, 1000, unix.Rlimit{Cur: 1024, Max: 4096},
		func(*unix.Rlimit) error { return no }); !errors.Is(err, no) {
		t.Error(err)
	}
}
