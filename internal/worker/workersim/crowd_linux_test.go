package workersim

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVariable holds the role of a child of TestThousandWorkersOnOneBusyCore.
const roleVariable = "WORKERSIM_ROLE"

// joinWithin is how long a thousand workers may take to join a run on one busy core. It takes a
// fraction of that.
const joinWithin = 30 * time.Second

// TestThousandWorkersOnOneBusyCore checks that many connections at once do not end handshakes: if
// handshakes have to begin again, workers give up and others are lost.
func TestThousandWorkersOnOneBusyCore(t *testing.T) {
	switch os.Getenv(roleVariable) {
	case "spin":
		for os.Getppid() > 1 {
		}
		return
	case "simulate":
		f, err := Run(t.Context(), Options{Workers: 1000, Blocks: 4000, BodyBytes: 1000, TLS: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("-short: takes some 20 s of processor time")
	}
	if os.Getenv("LEAT_TEST_DIST") == "" {
		t.Skip("LEAT_TEST_DIST is not set (make test-all sets it): takes some 20 s of processor time")
	}
	// The children inherit the one processor of the thread that starts them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for i := 0; one.Count() == 0; i++ {
		if all.IsSet(i) {
			one.Set(i)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.SchedSetaffinity(0, &all); err != nil {
			t.Error(err)
		}
	}()
	child := func(role string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=5m")
		c.Env = append(os.Environ(), roleVariable+"="+role)
		return c
	}
	spin, sim := child("spin"), child("simulate")
	var out bytes.Buffer
	sim.Stdout, sim.Stderr = &out, &out
	begin := time.Now()
	if err := spin.Start(); err != nil {
		t.Fatal(err)
	}
	err := sim.Run()
	_ = spin.Process.Kill()
	_ = spin.Wait()
	wall := time.Since(begin)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	var f Figures
	if err := json.Unmarshal([]byte(line), &f); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	// Time in which other processes had the core does not count.
	ours := spin.ProcessState.UserTime() + spin.ProcessState.SystemTime() + sim.ProcessState.UserTime() +
		sim.ProcessState.SystemTime()
	joining := time.Duration(float64(f.Joining) * min(1, ours.Seconds()/wall.Seconds()))
	t.Logf("%v; the two processes had %.0f%% of the core", f, 100*ours.Seconds()/wall.Seconds())
	if joining > joinWithin || f.Lost != 0 {
		t.Errorf("%d workers joined in %v, expected %v at most; %d were lost, expected none", f.Workers, joining, joinWithin,
			f.Lost)
	}
}
