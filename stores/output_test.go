package stores

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"leat/apply"
	"leat/apply/outcome"
	"leat/objstore"
)

// vault is a store in memory.
type vault struct {
	mu      sync.Mutex
	objects map[string][]byte
	refuse  map[string]error // by name: Upload's error
	hidden  map[string]bool  // by name: objects that Stat refuses
	during  func()           // called by Upload
}

func (v *vault) ID(name string) string { return "vault://box/" + name }

func (v *vault) Stat(_ context.Context, name string) (objstore.Info, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b, ok := v.objects[name]
	switch {
	case v.hidden[name]:
		return objstore.Info{}, &objstore.Error{Op: "looking up", URL: v.ID(name), Status: 403}
	case !ok:
		return objstore.Info{}, &objstore.Error{Op: "looking up", URL: v.ID(name), Status: 404}
	}
	return objstore.Info{Name: name, Size: int64(len(b))}, nil
}

func (v *vault) Read(ctx context.Context, name string, offset, length int64, _ *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
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

func (v *vault) Upload(ctx context.Context, name string, r io.ReaderAt, size int64, o objstore.UploadOptions) error {
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
	if _, there := v.objects[name]; there && o.IfAbsent {
		return &objstore.Error{Op: "writing", URL: v.ID(name), Err: fs.ErrExist}
	}
	v.objects[name] = b
	return nil
}

// newVault returns a vault and Stores that reach it as vault://box/NAME.
func newVault(t *testing.T) (*vault, *Stores) {
	v := &vault{objects: map[string][]byte{}, refuse: map[string]error{}}
	s := New(&Options{NoStage: true, Store: objstore.Options{Drivers: map[string]objstore.Opener{
		"vault": func(context.Context, *url.URL, *objstore.Options) (objstore.Source, error) { return v, nil },
	}}})
	t.Cleanup(func() { s.Close() })
	return v, s
}

// outputs returns a job that writes to the given paths.
func outputs(t *testing.T, stores *Stores, tmp string, paths map[string]string) apply.Job {
	a := filepath.Join(t.TempDir(), "a.tif")
	scene(t, a, testGrid, 1, 1, nil)
	job := apply.Job{Inputs: map[string]apply.Input{"a": apply.File(a)}, Outputs: map[string]apply.Output{},
		Expressions: map[string]string{}, Store: stores, Open: stores.Open}
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

func TestRemoteOutputEqualsLocal(t *testing.T) {
	v, stores := newVault(t)
	tmp, dir := t.TempDir(), t.TempDir()
	res := mustRun(t, outputs(t, stores, tmp,
		map[string]string{"remote": "vault://box/x/out.tif", "local": filepath.Join(dir, "out.tif")}))
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
	if got := res.Outputs[1].Path; got != "vault://box/x/out.tif" {
		t.Errorf("the result says %s", got)
	}
	src, err := stores.Open(t.Context(), "vault://box/x/out.tif")
	if err != nil {
		t.Fatal(err)
	}
	src.Close()
}

func TestRefusedUploadKeepsOutputs(t *testing.T) {
	v, stores := newVault(t)
	tmp, dir := t.TempDir(), t.TempDir()
	v.refuse["b.tif"] = fs.ErrPermission
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"old.tif", "stale.tif.ovr"} {
		if err := os.WriteFile(at(name), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	job := outputs(t, stores, tmp, map[string]string{"a": "vault://box/a.tif", "b": "vault://box/b.tif",
		"c": "vault://box/c.tif", "old": at("old.tif"), "new": at("new.tif"), "stale": at("stale.tif")})
	for round := range 2 {
		_, err := apply.Run(t.Context(), job)
		var kept *outcome.UnpublishedError
		if !errors.As(err, &kept) || !errors.Is(err, fs.ErrPermission) {
			t.Fatalf("the error is %v", err)
		}
		number := []string{"", "-2"}[round] // the first run kept its file
		want := map[string]string{"old": at("old-" + []string{"2", "3"}[round] + ".tif"),
			"stale": at("stale-" + []string{"2", "3"}[round] + ".tif"), "new": at("new" + number + ".tif")}
		for _, name := range []string{"b", "c"} {
			path := kept.Files[name]
			if base := filepath.Base(path); filepath.Dir(path) != tmp || !strings.HasPrefix(base,
				name+"-") || strings.HasSuffix(base, "-2.tif") != (round == 1) {
				t.Errorf("%s is kept as %s", name, path)
			}
			want[name] = path
		}
		if diff := cmp.Diff(want, kept.Files); diff != "" {
			t.Error(diff)
		}
		wantStoreError(t, err, "vault://box/b.tif", 403)
		for _, path := range want {
			got, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, v.objects["a.tif"]) { // all are equal
				t.Errorf("%s is not the output: %v", path, err)
			}
			if _, err := os.Stat(path + ".aux.xml"); err != nil {
				t.Error(err)
			}
		}
		for _, name := range []string{"old.tif", "stale.tif.ovr"} {
			if b, _ := os.ReadFile(at(name)); string(b) != "old" {
				t.Errorf("%s was replaced", name)
			}
		}
	}
	if got := len(names(t, tmp)); got != 2*2*2 { // b and c with their histograms, two runs
		t.Errorf("there is %q", names(t, tmp))
	}
}

func TestInterruptedUploadKeepsOutputs(t *testing.T) {
	v, stores := newVault(t)
	tmp, dir := t.TempDir(), t.TempDir()
	old := filepath.Join(dir, "old.tif")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	v.during = cancel
	_, err := apply.Run(ctx, outputs(t, stores, tmp,
		map[string]string{"a": "vault://box/a.tif", "b": "vault://box/b.tif", "old": old}))
	var kept *outcome.UnpublishedError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &kept) || len(kept.Files) != 3 || len(v.objects) > 0 {
		t.Fatalf("the error is %v; %d objects", err, len(v.objects))
	}
	for name, path := range kept.Files {
		src, err := apply.Open(path)
		if err != nil {
			t.Fatal(name, err)
		}
		src.Close()
	}
	if b, _ := os.ReadFile(old); string(b) != "old" {
		t.Error("the local output was replaced")
	}
}

func TestNoClobberDuringRun(t *testing.T) {
	v, stores := newVault(t)
	tmp, dir := t.TempDir(), t.TempDir()
	local := filepath.Join(dir, "local.tif")
	job := outputs(t, stores, tmp, map[string]string{"remote": "vault://box/remote.tif", "local": local})
	for name, o := range job.Outputs {
		o.NoClobber = true
		job.Outputs[name] = o
	}
	v.during = sync.OnceFunc(func() { v.objects["remote.tif"] = []byte("other") })
	_, err := apply.Run(t.Context(), job)
	kept := new(outcome.UnpublishedError)
	if !errors.As(err, &kept) || filepath.Dir(kept.Files["remote"]) != tmp || kept.Files["local"] != local {
		t.Errorf("kept are %v after %v", kept.Files, err)
	}
	if !errors.Is(err, fs.ErrExist) || string(v.objects["remote.tif"]) != "other" {
		t.Errorf("the error is %v", err)
	}
	if err := os.RemoveAll(local); err != nil {
		t.Fatal(err)
	}
	delete(v.objects, "remote.tif")
	v.during = sync.OnceFunc(func() {
		if err := os.WriteFile(local, []byte("other"), 0o600); err != nil {
			t.Error(err)
		}
	})
	_, err = apply.Run(t.Context(), job)
	wantError(t, err, "output local: "+local)
	if !errors.As(err, &kept) || !strings.HasPrefix(kept.Files["local"], filepath.Join(dir, "local-")) {
		t.Errorf("kept are %v after %v", kept.Files, err)
	}
	if b, _ := os.ReadFile(local); string(b) != "other" {
		t.Error("the local output was replaced")
	}
}

func TestNoClobberNeedsLookup(t *testing.T) {
	v, stores := newVault(t)
	v.hidden = map[string]bool{"a.tif": true, "a.tif.ovr": true, "a.tif.msk": true, "a.tif.msk.ovr": true}
	job := outputs(t, stores, t.TempDir(), map[string]string{"a": "vault://box/a.tif"})
	var log bytes.Buffer
	job.Logger = slog.New(slog.NewTextHandler(&log, nil))
	mustRun(t, job)
	if text := log.String(); !strings.Contains(text, "vault://box/a.tif") || !strings.Contains(text,
		".ovr .msk .msk.ovr") {
		t.Errorf("log: %s", text)
	}
	o := job.Outputs["a"]
	o.NoClobber = true
	job.Outputs["a"] = o
	_, err := apply.Run(t.Context(), job)
	wantStoreError(t, err, "vault://box/a.tif", 403)
	if f := (*outcome.FieldError)(nil); !errors.As(err, &f) || f.Field != "Output.NoClobber" {
		t.Errorf("the field is not Output.NoClobber: %v", err)
	}
}

func TestInvalidOutputsAreRefusedFirst(t *testing.T) {
	v, stores := newVault(t)
	v.objects["there.tif"] = []byte("x")
	v.objects["stale.tif.ovr"] = []byte("x")
	s := newShop(t)
	for name, c := range map[string]struct {
		path  string
		set   func(*apply.Job, *apply.Output)
		field string // "": of no field
	}{
		"one that exists, with NoClobber": {"vault://box/there.tif",
			func(_ *apply.Job, o *apply.Output) { o.NoClobber = true }, "Output.NoClobber"},
		"stale sidecar":      {"vault://box/stale.tif", nil, "Output.Path"},
		"HTTP server":        {s.url("out.tif"), nil, ""},
		"a URL with a query": {"vault://box/out.tif?sig=hunter2", nil, "Output.Path"},
		"unknown store":      {"ftp://h/out.tif", nil, ""},
		"not a raster":       {"vault://box/out.png", nil, "Output.Path"},
		"job without stores": {"vault://box/out.tif",
			func(j *apply.Job, _ *apply.Output) { j.Store = nil }, ""},
		"no directory for temporary files": {"vault://box/out.tif",
			func(_ *apply.Job, o *apply.Output) { o.TempDir = "/none" }, "Output.TempDir"},
		"also an input": {"vault://box/in.tif",
			func(j *apply.Job, _ *apply.Output) { j.Inputs["a"] = apply.File("vault://box/in.tif") },
			"Output.Path"},
	} {
		t.Run(name, func(t *testing.T) {
			job := outputs(t, stores, "", map[string]string{"out": c.path})
			if o := job.Outputs["out"]; c.set != nil {
				c.set(&job, &o)
				job.Outputs["out"] = o
			}
			before := len(v.objects)
			_, err := apply.Run(t.Context(), job)
			f := new(outcome.FieldError)
			if errors.As(err, &f); err == nil || f.Field != c.field {
				t.Errorf("%v, which should be about the field %q, not %q", err, c.field, f.Field)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the secret: %v", err)
			}
			if len(v.objects) != before {
				t.Error("something was written")
			}
		})
	}
}

// listed is a vault that can list its objects.
type listed struct {
	*vault
	err error
}

func (l listed) List(context.Context, string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) { yield(objstore.Info{}, l.err) }
}

func TestMissingBucketIsRefusedFirst(t *testing.T) {
	for status, refused := range map[int]bool{404: true, 403: false, 501: false} {
		v := &vault{objects: map[string][]byte{}}
		stores := New(&Options{NoStage: true,
			Store: objstore.Options{Retry: objstore.Retry{MaxAttempts: 5, MinPause: time.Millisecond},
				Drivers: map[string]objstore.Opener{
					"vault": func(context.Context, *url.URL, *objstore.Options) (objstore.Source, error) {
						return listed{v, &objstore.Error{Op: "listing", URL: "vault://box", Status: status,
							Code: "NoSuchBucket"}}, nil
					},
				}}})
		job := outputs(t, stores, t.TempDir(), map[string]string{"out": "vault://box/out.tif"})
		_, err := apply.Run(t.Context(), job)
		if refused {
			if e := new(objstore.Error); !errors.As(err, &e) || e.Code != "NoSuchBucket" {
				t.Errorf("%d: %v", status, err)
			}
		} else if err != nil {
			t.Error(status, err)
		}
		if (len(v.objects) == 0) != refused {
			t.Errorf("%d: %d objects were written", status, len(v.objects))
		}
		if err := stores.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTwoRunsOneOutput(t *testing.T) {
	v, stores := newVault(t)
	one := outputs(t, stores, t.TempDir(), map[string]string{"out": "vault://box/out.tif"})
	two := outputs(t, stores, t.TempDir(), map[string]string{"out": "vault://box/out.tif"})
	var second error
	v.during = sync.OnceFunc(func() { _, second = apply.Run(t.Context(), two) })
	if _, err := apply.Run(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(second, outcome.ErrInUse) || !strings.Contains(second.Error(), "vault://box/out.tif") {
		t.Errorf("the second run: %v", second)
	}
	if _, err := apply.Run(t.Context(), two); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
