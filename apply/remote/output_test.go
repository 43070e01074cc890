package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"leat/apply"
	"leat/objstore"
)

// vault is a store in memory that takes objects.
type vault struct {
	mu      sync.Mutex
	objects map[string][]byte
	refuse  map[string]error // by name: what Upload answers
	during  func()           // called by Upload
}

func (v *vault) ID(name string) string { return "vault://box/" + name }

func (v *vault) Stat(_ context.Context, name string) (objstore.Info, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b, ok := v.objects[name]
	if !ok {
		return objstore.Info{}, &objstore.Error{Op: "looking up", URL: v.ID(name), Status: 404}
	}
	return objstore.Info{Name: name, Size: int64(len(b))}, nil
}

func (v *vault) Read(ctx context.Context, name string, offset, length int64, _ *objstore.Info) (objstore.Info, io.ReadCloser, error) {
	i, err := v.Stat(ctx, name)
	if err != nil {
		return i, nil, err
	}
	end := i.Size
	if length >= 0 {
		end = min(end, offset+length)
	}
	return i, io.NopCloser(bytes.NewReader(v.objects[name][min(offset, end):end])), nil
}

func (v *vault) Upload(ctx context.Context, name string, r io.ReaderAt, size int64) error {
	if v.during != nil {
		v.during()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := io.ReadAll(io.NewSectionReader(r, 0, size))
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.refuse[name]; err != nil {
		return &objstore.Error{Op: "writing", URL: v.ID(name), Status: 403, Err: err}
	}
	v.objects[name] = b
	return nil
}

// newVault is a vault and Stores that reach it by vault://box/NAME.
func newVault(t *testing.T) (*vault, *Stores) {
	v := &vault{objects: map[string][]byte{}, refuse: map[string]error{}}
	s := New(&Options{NoStage: true, Store: objstore.Options{Drivers: map[string]objstore.Opener{
		"vault": func(context.Context, *url.URL, *objstore.Options) (objstore.Source, error) { return v, nil },
	}}})
	t.Cleanup(func() { s.Close() })
	return v, s
}

// outputs is a job that writes to some places.
func outputs(t *testing.T, stores *Stores, tmp string, paths map[string]string) apply.Job {
	a := filepath.Join(t.TempDir(), "a.tif")
	scene(t, a, testGrid, 1, 1, nil)
	job := apply.Job{Inputs: map[string]apply.Input{"a": apply.File(a)}, Outputs: map[string]apply.Output{}, Expressions: map[string]string{}, Store: stores, Open: stores.Open}
	for name, path := range paths {
		job.Outputs[name] = apply.Output{Path: path, TileSize: 64, TempDir: tmp, HistAux: true}
		job.Expressions[name] = "a / 2"
	}
	return job
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestAnOutputInAStoreIsTheLocalOneByteForByte(t *testing.T) {
	v, stores := newVault(t)
	tmp, dir := t.TempDir(), t.TempDir()
	res := mustRun(t, outputs(t, stores, tmp, map[string]string{"far": "vault://box/x/out.tif", "near": filepath.Join(dir, "out.tif")}))
	for name, local := range map[string]string{"x/out.tif": "out.tif", "x/out.tif.aux.xml": "out.tif.aux.xml"} {
		want, err := os.ReadFile(filepath.Join(dir, local))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(v.objects[name], want) {
			t.Errorf("%s has %d bytes, %s %d", name, len(v.objects[name]), local, len(want))
		}
	}
	if left := names(t, tmp); len(left) > 0 {
		t.Errorf("there is still %q", left)
	}
	if got := res.Outputs[0].Path; got != "vault://box/x/out.tif" {
		t.Errorf("the result says %s", got)
	}
	src, err := stores.Open(t.Context(), "vault://box/x/out.tif")
	if err != nil {
		t.Fatal(err)
	}
	src.Close()
}

func TestAnOutputThatItsStoreRefusesIsKeptHere(t *testing.T) {
	v, stores := newVault(t)
	tmp, dir := t.TempDir(), t.TempDir()
	v.refuse["b.tif"] = fs.ErrPermission
	old := filepath.Join(dir, "near.tif")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := apply.Run(t.Context(), outputs(t, stores, tmp, map[string]string{"a": "vault://box/a.tif", "b": "vault://box/b.tif", "c": "vault://box/c.tif", "near": old}))
	wantError(t, err, "output b: writing vault://box/b.tif", "403", "the finished file is kept as "+filepath.Join(tmp, "b-"), "the finished file is kept as "+filepath.Join(tmp, "c-"))
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("the error is %v", err)
	}
	if b, _ := os.ReadFile(old); string(b) != "old" {
		t.Error("the local output was replaced")
	}
	kept := names(t, tmp)
	if len(kept) != 2 {
		t.Fatalf("there is %q", kept)
	}
	got, err := os.ReadFile(filepath.Join(tmp, kept[0]))
	if err != nil || !bytes.Equal(got, v.objects["a.tif"]) { // all three are the same
		t.Errorf("%s is not the output: %v", kept[0], err)
	}
}

func TestAnInterruptionDuringTheUploadLeavesNothing(t *testing.T) {
	v, stores := newVault(t)
	tmp := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	v.during = cancel
	_, err := apply.Run(ctx, outputs(t, stores, tmp, map[string]string{"a": "vault://box/a.tif", "b": "vault://box/b.tif"}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if left := names(t, tmp); len(left) > 0 || len(v.objects) > 0 {
		t.Errorf("there is %q, and %d objects", left, len(v.objects))
	}
}

func TestOutputsInStoresThatCantBeAreRefusedBeforeAnythingIsRead(t *testing.T) {
	v, stores := newVault(t)
	v.objects["there.tif"] = []byte("x")
	v.objects["stale.tif.ovr"] = []byte("x")
	s := newShop(t)
	for name, c := range map[string]struct {
		path string
		set  func(*apply.Job, *apply.Output)
		want string
	}{
		"one that exists, with NoClobber": {"vault://box/there.tif", func(_ *apply.Job, o *apply.Output) { o.NoClobber = true }, "there.tif exists and is not to be replaced"},
		"one beside a stale file":         {"vault://box/stale.tif", nil, "stale.tif.ovr belongs to an older file"},
		"a server of files":               {s.url("out.tif"), nil, "nothing can be written to such a server"},
		"a URL with a query":              {"vault://box/out.tif?sig=hunter2", nil, ".tif"},
		"a store that is unknown":         {"ftp://h/out.tif", nil, `no store called "ftp"`},
		"no raster":                       {"vault://box/out.png", nil, "ends in .tif"},
		"a job without stores":            {"vault://box/out.tif", func(j *apply.Job, _ *apply.Output) { j.Store = nil }, "Job.Store"},
		"no folder for temporary files":   {"vault://box/out.tif", func(_ *apply.Job, o *apply.Output) { o.TempDir = "/none" }, "/none"},
		"an input":                        {"vault://box/in.tif", func(j *apply.Job, _ *apply.Output) { j.Inputs["a"] = apply.File("vault://box/in.tif") }, "is also the input a"},
	} {
		t.Run(name, func(t *testing.T) {
			job := outputs(t, stores, "", map[string]string{"out": c.path})
			if o := job.Outputs["out"]; c.set != nil {
				c.set(&job, &o)
				job.Outputs["out"] = o
			}
			before := len(v.objects)
			_, err := apply.Run(t.Context(), job)
			wantError(t, err, "output out", c.want)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the secret: %v", err)
			}
			if len(v.objects) != before {
				t.Error("something was written")
			}
		})
	}
}

func TestTwoRunsCantWriteOneObject(t *testing.T) {
	v, stores := newVault(t)
	one := outputs(t, stores, t.TempDir(), map[string]string{"out": "vault://box/out.tif"})
	two := outputs(t, stores, t.TempDir(), map[string]string{"out": "vault://box/out.tif"})
	var second error
	v.during = sync.OnceFunc(func() { _, second = apply.Run(t.Context(), two) })
	if _, err := apply.Run(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	wantError(t, second, "vault://box/out.tif is being written by another run")
	if _, err := apply.Run(t.Context(), two); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
