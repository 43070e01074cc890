package namespace

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

// writeLocals packs records as the layout says, by other hands.
const writeLocals = `
import json, mmap, struct, sys
for name, dirs, number, pad in json.load(sys.stdin):
    text = "\0".join(dirs + [str(number)]).encode("utf-8")
    data = struct.pack("<i", 4 + len(text)) + text
    if pad:
        data = data.ljust(mmap.PAGESIZE, b"\0")
    with open(name, "wb") as f:
        f.write(data)
`

func TestReadStreamingJobs(t *testing.T) {
	dir := t.TempDir()
	at := func(n int) string { return filepath.Join(dir, streamingName(n)) }
	pytest.Run(t, []string{"struct"}, writeLocals, [][]any{
		{at(0), []string{"/data/train", "rel/größe"}, 0, true},
		{at(12), []string{"/data/b c"}, 12, false},
		{at(1234567), []string{}, 1234567, true},
		{at(13), []string{"/data/x"}, 14, true},
		{filepath.Join(dir, "000015_barrier"), []string{"/data/x"}, 15, true},
	}, nil)
	write := func(n int, data string) {
		if err := os.WriteFile(at(n), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(1, "\x00\x00\x00\x00and what was there before")
	write(2, "")
	write(3, "\xff\x00\x00\x00/torn")
	write(4, "\x09\x00\x00\x00/a\xfe\x004")
	symlink(t, at(0), at(5))
	if err := unix.Mkfifo(at(6), 0o600); err != nil {
		t.Fatal(err)
	}
	mkdirs(t, at(7))
	jobs, warnings := streamingJobs(dir)
	want := []streamingJob{
		{Number: 0, Dirs: []string{"/data/train", "rel/größe"}, Path: at(0),
			id: mustStat(t, at(0))},
		{Number: 12, Dirs: []string{"/data/b c"}, Path: at(12), id: mustStat(t, at(12))},
		{Number: 1234567, Dirs: []string{}, Path: at(1234567), id: mustStat(t, at(1234567))},
	}
	if diff := cmp.Diff(want, jobs, cmp.AllowUnexported(streamingJob{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-expected +got):\n%s", diff)
	}
	reasons := map[int]string{2: "0 bytes", 3: "given as 255 bytes", 4: "not UTF-8", 5: "symbolic link",
		6: "not a regular file", 7: "not a regular file", 13: "its number is 14"}
	if len(warnings) != len(reasons) {
		t.Errorf("%d warnings: %v", len(warnings), warnings)
	}
	for n, reason := range reasons {
		if !slices.ContainsFunc(warnings, func(err error) bool {
			return strings.Contains(err.Error(), at(n)) && strings.Contains(err.Error(), reason)
		}) {
			t.Errorf("no warning names %s and %q: %v", at(n), reason, warnings)
		}
	}
	for n, want := range map[int]bool{0: true, 1: true, 5: true, 6: true, 12: true, 15: false, 99: false} {
		if got := streamingNumberTaken(dir, n); got != want {
			t.Errorf("number %d taken: %v", n, got)
		}
	}
	if streamingNumberTaken(filepath.Join(dir, "none"), 0) {
		t.Error("a number is taken where there is no directory")
	}
	if jobs, warnings := streamingJobs(filepath.Join(dir, "none")); len(jobs)+len(warnings) > 0 {
		t.Errorf("%v %v in a directory that does not exist", jobs, warnings)
	}
}

func TestUnreadableRecord(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, streamingName(3)), packLocals("/a\x003", 0), 0o600); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, func() {
		jobs, warnings := streamingJobs(dir)
		if len(jobs) != 0 || len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "permission denied") {
			t.Errorf("%v %v", jobs, warnings)
		}
		if !streamingNumberTaken(dir, 3) {
			t.Error("its number is not taken")
		}
	})
}

// mapper starts a Python process that maps a file until its standard input is closed.
func mapper(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(pytest.Python(t, "mmap"), "-c", `
import mmap, sys
f = open(sys.argv[1], "r+b")
m = mmap.mmap(f.fileno(), 0)
f.close()
print("mapped", flush=True)
sys.stdin.read()`, path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mapped\n" {
		t.Fatalf("%q %v", line, err)
	}
	return cmd
}

func TestStreamingJobAliveWhileMapped(t *testing.T) {
	for name, dir := range map[string]string{"where tests are": t.TempDir(), "shared memory": shmTemp(t)} {
		path := filepath.Join(dir, streamingName(12))
		pytest.Run(t, []string{"struct"}, writeLocals, [][]any{{path, []string{"/data"}, 12, true}}, nil)
		jobs, warnings := streamingJobs(dir)
		if len(jobs) != 1 || len(warnings) > 0 {
			t.Fatalf("%v %v", jobs, warnings)
		}
		job := jobs[0]
		open, err := os.Open(path) // keeps the inode from being another file's
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		if pids, _ := job.mappedBy("/proc"); len(pids) > 0 {
			t.Errorf("%s: mapped by %v before anyone did", name, pids)
		}
		cmd := mapper(t, path)
		check := func(when string) {
			t.Helper()
			if pids, _ := job.mappedBy("/proc"); !slices.Equal(pids, []int{cmd.Process.Pid}) {
				t.Errorf("%s, %s: mapped by %v, not %d", name, when, pids, cmd.Process.Pid)
			}
		}
		check("mapped")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		check("removed")
		cmd.Process.Kill()
		cmd.Wait()
		if pids, _ := job.mappedBy("/proc"); len(pids) > 0 {
			t.Errorf("%s: mapped by %v after the process's end", name, pids)
		}
	}
}

// shmTemp returns a new directory in /dev/shm, or one elsewhere if there is none.
func shmTemp(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "leat-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestUnreadableProcesses(t *testing.T) {
	job := streamingJob{Path: "/dev/shm/000012_locals", id: dirID{1, 1}}
	if _, complete := job.mappedBy(filepath.Join(t.TempDir(), "none")); complete {
		t.Error("complete without a /proc")
	}
	hidden := t.TempDir() // a /proc that shows one's own processes only
	mkdirs(t, hidden, "4711")
	if err := os.WriteFile(filepath.Join(hidden, "4711", "maps"), []byte("7f00-7f10 rw-s 0 00:01 1 /x\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if pids, complete := job.mappedBy(hidden); complete || !slices.Equal(pids, []int{4711}) {
		t.Errorf("%v, complete %v", pids, complete)
	}
	mkdirs(t, hidden, "1") // one that ended before it was looked at
	if _, complete := job.mappedBy(hidden); !complete {
		t.Error("not complete although no process could not be read")
	}
	asNobody(t, func() {
		if _, complete := job.mappedBy("/proc"); complete {
			t.Error("complete for a user who may not read the others' processes")
		}
	})
}

// MosaicML streaming counts its jobs from 0, and two users count alike.
func TestUniqueNames(t *testing.T) {
	ownRoot(t)
	n := alone(t)
	mine, err := n.Name("locals")
	if err != nil {
		t.Fatal(err)
	}
	if _, taken := parseStreamingName(mine); taken || n.Number() < 500_000 || len(prefixOf(n.Number())) != 6 {
		t.Errorf("number %d, prefix %s, name %s", n.Number(), prefixOf(n.Number()), mine)
	}
	asNobody(t, func() {
		if theirs, err := n.Name("locals"); err != nil || theirs == mine {
			t.Errorf("another user's name is %s, %v", theirs, err)
		}
	})
}

func TestInvisibleStreamingJob(t *testing.T) {
	ownRoot(t)
	base := t.TempDir()
	t.Chdir(base)
	dir := mkdirs(t, base, "train")
	number := 100_000_000 + rand.IntN(800_000_000)
	path := filepath.Join(shmDir, streamingName(number))
	pytest.Run(t, []string{"struct"}, writeLocals, [][]any{{path, []string{dir, "train"}, number, true}}, nil)
	t.Cleanup(func() { os.Remove(path) })
	join := func(wrap ...string) string {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		if len(wrap) > 0 {
			cmd = exec.Command(wrap[0], append(wrap[1:], os.Args[0])...)
		}
		cmd.Env = append(os.Environ(), "LEAT_PROCTEST=warned", "LEAT_PROCTEST_ARGS="+dir)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	streaming := mapper(t, path)
	if out := join(); !strings.Contains(out, "is in use") || !strings.Contains(out,
		fmt.Sprint("process ", streaming.Process.Pid)) {
		t.Errorf("a live job: %q", out)
	}
	container := []string{"unshare", "-pf", "--mount-proc"}
	if err := exec.Command(container[0], append(container[1:], "true")...).Run(); err != nil {
		t.Skipf("no PID namespace can be made: %v", err)
	}
	out := join(container...)
	for _, part := range []string{path, dir, "may be alive in another PID namespace",
		"below its working directory"} {
		if !strings.Contains(out, part) {
			t.Errorf("from another PID namespace: %q has no %q", out, part)
		}
	}
	streaming.Process.Kill()
	streaming.Wait()
	if _, complete := (streamingJob{Path: path, id: dirID{1, 1}}).mappedBy("/proc"); !complete ||
		!seesAllProcesses("/proc") {
		t.Skip("not all processes can be seen from here")
	}
	if out := join(); !strings.Contains(out, "that job was killed: remove the file") || strings.Contains(out,
		"working directory") {
		t.Errorf("a killed job: %q", out)
	}
}
