package slurmtest

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const child = "LEAT_SLURMTEST_CHILD"

// running returns the processes that have the cluster's configuration in their environment, or its
// directory in their arguments.
func running(t *testing.T, dir string) (found []string) {
	t.Helper()
	for _, pattern := range []string{"/proc/[0-9]*/environ", "/proc/[0-9]*/cmdline"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(dir)) {
				command, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
				found = append(found, name+" "+strings.ReplaceAll(string(command), "\x00", " "))
			}
		}
	}
	return found
}

// The child starts a cluster with a running job, and lives until it is killed or its input ends.
func TestChild(t *testing.T) {
	if os.Getenv(child) == "" {
		t.Skip("is the child of another test")
	}
	c := Start(t)
	c.Run(t, "sbatch", "--wrap", "setsid sleep 1000", "--output=/dev/null")
	for !strings.Contains(c.Jobs(t), "RUNNING") {
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := os.Stdout.WriteString("directory " + c.Dir + "\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
}

func TestCleanup(t *testing.T) {
	skip(t)
	for _, how := range []string{"killed", "ended"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
			cmd.Env = append(os.Environ(), child+"=1")
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			dir, said := "", ""
			for lines := bufio.NewScanner(stdout); dir == "" && lines.Scan(); {
				said += lines.Text() + "\n"
				dir, _ = strings.CutPrefix(lines.Text(), "directory ")
				if !strings.HasPrefix(lines.Text(), "directory ") {
					dir = ""
				}
			}
			if dir == "" {
				_ = cmd.Wait()
				t.Fatalf("the child has no cluster: %s", said)
			}
			if n := len(running(t, dir)); n < 4 {
				t.Errorf("only %d processes are of the cluster", n)
			}
			if how == "killed" {
				err = cmd.Process.Kill()
			} else {
				err = stdin.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for range 300 {
				_, err = os.Stat(dir)
				if os.IsNotExist(err) && len(running(t, dir)) == 0 {
					return
				}
				if how == "ended" {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Errorf("left: %v and\n%s", err, strings.Join(running(t, dir), "\n"))
		})
	}
}
