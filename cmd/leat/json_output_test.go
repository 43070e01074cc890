package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"leat/internal/gdal"
	"leat/namespace"
	"leat/shm"
)

// jsonChecker compares what commands print with docs/format/json.schema.json.
type jsonChecker struct {
	*jsonSchema
	compiled map[string]*jsonschema.Schema

	mu   sync.Mutex
	seen map[string]bool // OBJECT.PROPERTY
}

func newJSONChecker(t *testing.T) *jsonChecker {
	t.Helper()
	c := &jsonChecker{newJSONSchema(t), map[string]*jsonschema.Schema{}, sync.Mutex{}, map[string]bool{}}
	path, err := filepath.Abs("../../docs/format/json.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	for _, d := range jsonDocs {
		if c.compiled[d.name], err = compiler.Compile(path + "#/$defs/" + d.name); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// check returns an error unless a line is one of the named objects.
func (c *jsonChecker) check(line string, names []string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	if err != nil {
		return err
	}
	var first error
	for _, name := range names {
		if c.compiled[name] == nil {
			return fmt.Errorf("there is no object %s", name)
		}
		err := c.compiled[name].Validate(value)
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.mark(map[string]any{"$ref": "#/$defs/" + name}, value)
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf("%w\n%s", first, line)
}

// mark notes which properties a valid value has.
func (c *jsonChecker) mark(schema map[string]any, value any) {
	if list, ok := schema["anyOf"].([]any); ok {
		if value != nil {
			c.mark(list[0].(map[string]any), value)
		}
		return
	}
	object, ok := strings.CutPrefix(fmt.Sprint(schema["$ref"]), "#/$defs/")
	switch value := value.(type) {
	case map[string]any:
		if !ok || object == "number" {
			return
		}
		for _, p := range c.objects[object] {
			if v, has := value[p.name]; has {
				c.seen[object+"."+p.name] = true
				c.mark(p.schema, v)
			}
		}
	case []any:
		for _, v := range value {
			c.mark(schema["items"].(map[string]any), v)
		}
	}
}

// TestJSONMatchesSchema runs testdata/json, as TestScripts does its own. There is besides
//
//	valid FILE NAME...   each line of FILE (or stdout) is one of these objects of the schema
//	share                keeps a namespace that shares a counter, and a shared array
//
// A run waits in its fourth block where the script sets holdVariable.
// Together the scripts print every field of every object.
func TestJSONMatchesSchema(t *testing.T) {
	c := newJSONChecker(t)
	ogr, _ := exec.LookPath("ogr2ogr")
	jobs := filepath.Join(t.TempDir(), "jobs")
	t.Setenv("LEAT_RUNTIME_DIR", jobs)
	commit = "5f35ba2"
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs([]string{"version", "--json"})
	if err := errors.Join(root.Execute(), c.check(out.String(), []string{"version"})); err != nil {
		t.Error(err)
	}
	commit = ""
	whole := gdal.Available() == nil && ogr != "" && sharedDir() != ""
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir:                 "testdata/json",
			RequireExplicitExec: true,
			Setup: func(e *testscript.Env) error {
				m := newMirror(t, e.WorkDir)
				e.Setenv("WEB", m.files.URL)
				e.Setenv("SHARED", sharedDir())
				e.Setenv("LEAT_CACHE_DIR", filepath.Join(e.WorkDir, "home"))
				e.Setenv("LEAT_RUNTIME_DIR", jobs)
				return nil
			},
			Condition: func(string) (bool, error) { return whole, nil }, // [whole]
			Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
				"raster": makeRaster, "await": await, "share": share,
				"valid": func(ts *testscript.TestScript, neg bool, args []string) {
					if neg || len(args) < 2 {
						ts.Fatalf("usage: valid FILE NAME...")
					}
					text := strings.TrimSpace(ts.ReadFile(args[0]))
					if text == "" {
						ts.Fatalf("no JSON")
					}
					for line := range strings.Lines(text) {
						ts.Check(c.check(line, args[1:]))
					}
				},
			},
		})
	})
	if t.Failed() || !whole {
		return
	}
	var missing []string
	for object, list := range c.objects {
		for _, p := range list {
			if name := object + "." + p.name; !c.seen[name] {
				missing = append(missing, name)
			}
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		t.Errorf("%s is documented and was not printed", name)
	}
}

// share keeps a namespace and a shared array until the script ends.
func share(ts *testscript.TestScript, _ bool, _ []string) {
	job, err := namespace.Join(context.Background(), namespace.Spec{Key: namespace.RandomKey(),
		Dirs: []namespace.Dir{{Path: ts.MkAbs("train"), Remote: "s3://bucket/train"}}})
	ts.Check(err)
	ts.Defer(func() { job.Close() })
	_, err = job.Counter("done")
	ts.Check(err)
	pool, err := shm.Open(nil)
	ts.Check(err)
	ts.Defer(func() { pool.Close() })
	_, err = pool.Put(make([]float32, 1<<20), 1<<20)
	ts.Check(err)
}

func TestJSONNumbersWithoutDigits(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	huge := pixelValue("18446744073709551615")
	in := struct {
		A []jsonFloat   `json:"a"`
		B []*pixelValue `json:"b"`
	}{[]jsonFloat{jsonFloat(math.NaN()), jsonFloat(math.Inf(1)), jsonFloat(math.Inf(-1)), 0.1, 1e300}, []*pixelValue{&huge, newPixelValue("nan"), newPixelValue("none"), newPixelValue("-inf")}}
	if err := writeJSON(&b, in); err != nil {
		t.Fatal(err)
	}
	want := `{"a":["nan","inf","-inf",0.1,1e+300],"b":[18446744073709551615,"nan",null,"-inf"]}` + "\n"
	if b.String() != want {
		t.Errorf("%s, expected %s", &b, want)
	}
}
