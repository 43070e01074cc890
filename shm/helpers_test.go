//go:build unix

package shm

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/npy"
	"leat/internal/proctest"
	"leat/ndarray"
)

// isolate gives a test directories of its own for named arrays, which its children find too.
func isolate(t testing.TB) (run, temp string) {
	t.Helper()
	run, temp = filepath.Join(t.TempDir(), "run"), t.TempDir()
	setenv(t, "LEAT_RUNTIME_DIR", run)
	setenv(t, "TMPDIR", temp)
	setenv(t, "LEAT_TEMP_FOLDER", "")
	return run, temp
}

// npyFile returns the start of a .npy file of version 1 with the given dictionary.
func npyFile(dict string) string {
	return "\x93NUMPY\x01\x00" + string([]byte{byte(len(dict)), byte(len(dict) >> 8)}) + dict
}

// wideRecord returns a record of n fields with names of 202 characters.
func wideRecord(t testing.TB, n int) npy.Elem {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "('%0202d', '|u1'), ", i)
	}
	return must(npy.ParseElem("[" + b.String() + "]"))(t)
}

func setenv(t testing.TB, key, value string) {
	old, had := os.LookupEnv(key)
	os.Setenv(key, value)
	t.Cleanup(func() {
		if had {
			os.Setenv(key, old)
		} else {
			os.Unsetenv(key)
		}
	})
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// numbers returns n bytes that look random, always the same for one seed.
func numbers(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 7})
	_, _ = r.Read(b)
	return b
}

// writable returns a new array of these bytes.
func writable(s *Pool, b []byte) (*Array, error) {
	a, err := s.New(ndarray.Uint8, len(b))
	if err != nil {
		return nil, err
	}
	mem, err := Slice[byte](a)
	copy(mem, b)
	return a, err
}

// digest is a sum over the elements of a view in C order, found one by one by their indices.
func digest(v view, mem []byte) uint64 {
	sum := fnv.New64a()
	size := int64(v.elem.Size())
	var walk func(dim int, at int64)
	walk = func(dim int, at int64) {
		if dim == len(v.shape) {
			_, _ = sum.Write(mem[at : at+size])
			return
		}
		if dim == len(v.shape)-1 && int64(v.strides[dim]) == size && v.shape[dim] > 0 {
			_, _ = sum.Write(mem[at : at+size*int64(v.shape[dim])])
			return
		}
		for i := range v.shape[dim] {
			walk(dim+1, at+int64(i)*int64(v.strides[dim]))
		}
	}
	walk(0, v.offset)
	return sum.Sum64()
}

func digestOf(a *ndarray.Array) uint64 {
	return digest(view{npy.ElemOfDType(a.Type), int64(a.Offset), a.Shape, a.Strides}, a.Data)
}

// digest of an Array.
func (a *Array) digest() uint64 { return digest(a.view, a.obj.bytes()) }

func init() {
	children["digests"] = childDigests
	children["wait"] = childWait
}

// childDigests attaches the handles that stand in a file, a line each, and writes their digests to
// another.
func childDigests(args []string) error {
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	s, err := Open(&Options{Roots: filepath.SplitList(os.Getenv("TEST_ROOTS"))})
	if err != nil {
		return err
	}
	defer s.Close()
	var out bytes.Buffer
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		a, err := s.Attach(Handle(line), Mode(args[2]))
		if err != nil {
			fmt.Fprintf(&out, "%v\n", err)
			continue
		}
		fmt.Fprintf(&out, "%x\n", a.digest())
		if err := a.Close(); err != nil {
			return err
		}
	}
	return os.WriteFile(args[1], out.Bytes(), 0o600)
}

// elsewhere attaches handles in another process and returns the digests, or errors, that it found.
func elsewhere(t testing.TB, mode Mode, handles ...Handle) []string {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	var b strings.Builder
	for _, h := range handles {
		b.WriteString(string(h) + "\n")
	}
	check(t, os.WriteFile(in, []byte(b.String()), 0o600))
	if _, output, err := proctest.New("digests", in, out, string(mode)).Start(t).Wait(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	got := must(os.ReadFile(out))(t)
	return strings.Split(strings.TrimSpace(string(got)), "\n")
}

// childWait attaches a handle, makes a file to tell so, and waits for another.
func childWait(args []string) error {
	s, err := Open(nil)
	if err != nil {
		return err
	}
	defer s.Close()
	a, err := s.Attach(Handle(args[0]), Mode(args[1]))
	if err != nil {
		return err
	}
	before := a.digest()
	if a.Mode() == ReadWrite {
		v := a.View()
		v.Data[v.Offset]++
	}
	if err := os.WriteFile(args[2]+".in", []byte(fmt.Sprint(before)), 0o600); err != nil {
		return err
	}
	if !waitFor(args[2] + ".go") {
		return fmt.Errorf("nobody said go")
	}
	if after := a.digest(); after != before && a.Mode() != ReadWrite {
		return fmt.Errorf("the array changed under its reader")
	}
	return a.Close()
}

// waitFor waits for a file to appear.
func waitFor(name string) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return true
		}
	}
	return false
}

// holder is another process that has an array attached.
type holder struct {
	cmd  *proctest.Command
	base string
}

func hold(t testing.TB, h Handle, mode Mode) *holder {
	t.Helper()
	base := filepath.Join(t.TempDir(), "holder")
	p := &holder{proctest.New("wait", string(h), string(mode), base).Start(t), base}
	if !waitFor(base + ".in") {
		p.cmd.Kill()
		_, output, err := p.cmd.Wait()
		t.Fatalf("the other process did not attach: %v\n%s", err, output)
	}
	return p
}

// leave has it close the array and end.
func (p *holder) leave(t testing.TB) {
	t.Helper()
	check(t, os.WriteFile(p.base+".go", nil, 0o600))
	if _, output, err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

// descriptors is how many this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	return len(must(os.ReadDir("/proc/self/fd"))(t))
}

// userFiles makes a .npy file of 6 by 1000 float32 and a symbolic link to it in another directory.
func userFiles(t testing.TB, dir string) (name, link string) {
	t.Helper()
	check(t, os.Mkdir(dir, 0o755))
	name, link = filepath.Join(dir, "a b:@%.npy"), filepath.Join(t.TempDir(), "link.npy")
	data := make([]float32, 6000)
	for i := range data {
		data[i] = float32(i)
	}
	header := must(npy.Header{Elem: npy.ElemOfDType(ndarray.Float32), Shape: []int{6, 1000}}.Append(nil, 64))(t)
	check(t, os.WriteFile(name, append(header, ndarray.BytesOf(data)...), 0o600))
	check(t, os.Symlink(name, link))
	return name, link
}

func touch(name string) error {
	now := time.Now().Add(time.Hour)
	return os.Chtimes(name, now, now)
}

// fifo makes a pipe with a name.
func fifo(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe")
	check(t, unix.Mkfifo(name, 0o600))
	return name
}

var placeNames = [...]string{"auto", "memfd", "named", "temp"}

// String returns the place's name.
func (p Place) String() string {
	if p < 0 || int(p) >= len(placeNames) {
		return fmt.Sprintf("Place(%d)", int(p))
	}
	return placeNames[p]
}
