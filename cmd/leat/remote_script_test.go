//go:build !nocloud

package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// clouds is whether leat has clients of object stores.
const clouds = true

// TestRemoteScripts runs testdata/remote, as TestScripts does its own. $WEB serves the script's
// files, below /closed/ none; $S3 is the endpoint of a server with an empty bucket called bucket.
// There is besides
//
//	sent PATH MOST   the server sent at most MOST bytes of a file since the last time; prints how
//	                 many
//	no-parts         no unfinished output is left
//	close-bucket     from now on nothing can be written to the bucket
func TestRemoteScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/remote",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			t := e.T().(testing.TB)
			m := newMirror(t, e.WorkDir)
			// Outputs in a bucket are claimed by their URLs, which are those of all who run this
			// test on the machine.
			e.Setenv("LEAT_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
			e.Values["mirror"] = m
			e.Setenv("WEB", m.files.URL)
			e.Setenv("HOST", strings.TrimPrefix(m.files.URL, "http://"))
			e.Setenv("S3", m.s3.URL)
			e.Setenv("LEAT_CACHE_DIR", filepath.Join(e.WorkDir, "home"))
			e.Setenv("AWS_ACCESS_KEY_ID", "id")
			e.Setenv("AWS_SECRET_ACCESS_KEY", "verysecret")
			e.Setenv("AWS_REGION", "us-east-1")
			e.Setenv("AWS_CONFIG_FILE", filepath.Join(e.WorkDir, "none"))
			e.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(e.WorkDir, "none"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "mounts" {
				return canMount(), nil
			}
			return false, fmt.Errorf("there is no condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"refused": refused, "raster": makeRaster, "json": checkJSON, "png": pictureSize, "tmpfs": mountTmpfs,
			"remount": remount,
			"no-parts": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, d fs.DirEntry, err error) error {
					if err == nil && (strings.HasSuffix(path, ".leat-part") || strings.HasSuffix(path, ".leat-new")) {
						err = fmt.Errorf("%s is left", path)
					}
					return err
				}))
			},
			"sent": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 2 {
					ts.Fatalf("usage: sent PATH MOST")
				}
				most, err := strconv.ParseInt(args[1], 10, 64)
				ts.Check(err)
				m := ts.Value("mirror").(*mirror)
				m.mu.Lock()
				defer m.mu.Unlock()
				if n := m.bytes[args[0]]; n > most {
					ts.Fatalf("%d bytes were sent", n)
				}
				fmt.Fprintln(ts.Stdout(), m.bytes[args[0]])
				delete(m.bytes, args[0])
			},
			"close-bucket": func(ts *testscript.TestScript, _ bool, _ []string) {
				m := ts.Value("mirror").(*mirror)
				m.mu.Lock()
				defer m.mu.Unlock()
				m.closed = true
			},
		},
	})
}

// TestGoldenOutputsInStores is TestGoldenOutputs of the jobs that need a bucket.
func TestGoldenOutputsInStores(t *testing.T) {
	t.Parallel()
	inputs := t.TempDir()
	writeGoldenInputs(t, inputs)
	want := readGoldenHashes(t)
	server := newMirror(t, inputs)
	jobs := 0
	for _, job := range goldenJobs {
		if !job.needsBucket() {
			continue
		}
		jobs++
		if got := runGoldenJob(t, inputs, server, job, ""); got != want[job.name] {
			t.Errorf("%s: the output changed: sha256 %s, recorded %s", job.name, got, want[job.name])
		}
	}
	if jobs == 0 {
		t.Error("no job needs a bucket")
	}
}
