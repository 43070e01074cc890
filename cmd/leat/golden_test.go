package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var updateGolden = flag.Bool("update-golden", false, "write testdata/golden/hashes.txt instead of comparing with it")

const goldenHashes = "testdata/golden/hashes.txt"

// goldenJob is a command line whose output files never change. Inputs are those of
// writeGoldenInputs; the outputs are all files that the command writes into its directory.
type goldenJob struct {
	name string
	args string // of leat apply, separated by blanks
	// variants are options that must not change a byte: block sizes, workers, memory.
	variants []string
	gdal     bool // whether GDAL makes part of the bytes
	remote   bool // whether the job needs $WEB and $S3
}

func (j *goldenJob) needsBucket() bool { return strings.Contains(j.args, "s3://") }

// TestGoldenOutputs runs every job of goldenJobs, with each of its variants, and compares the bytes
// of all files written with the recorded hashes.
func TestGoldenOutputs(t *testing.T) {
	t.Parallel()
	inputs := t.TempDir()
	writeGoldenInputs(t, inputs)
	gdal := gdalVersion()
	want := readGoldenHashes(t)
	got := map[string]string{}
	var server *mirror
	if *updateGolden && !clouds {
		t.Fatal("built with the tag nocloud: the hashes of outputs in stores would be lost")
	}
	for _, job := range goldenJobs {
		if job.needsBucket() && !clouds {
			continue
		}
		if job.remote && server == nil {
			server = newMirror(t, inputs)
		}
		key := job.name
		if job.gdal {
			if gdal == "" {
				t.Logf("%s: skipped, GDAL is not installed", job.name)
				continue
			}
			key += "@gdal-" + gdal
		}
		for i, variant := range append([]string{""}, job.variants...) {
			name := strings.TrimSpace(job.name + " " + variant)
			hash := runGoldenJob(t, inputs, server, job, variant)
			switch {
			case i == 0:
				got[key] = hash
			case hash != got[key]:
				t.Errorf("%s: the bytes differ from those of %q\n%s\n%s", name, job.args, hash, got[key])
			}
		}
		if *updateGolden {
			continue
		}
		switch recorded, ok := want[key]; {
		case !ok && job.gdal && hasOtherGDAL(want, job.name):
			t.Logf("%s: not compared, no hash is recorded for GDAL %s", job.name, gdal)
		case !ok:
			t.Errorf("%s: no hash is recorded; run with -update-golden", key)
		case recorded != got[key]:
			t.Errorf("%s: the output changed: sha256 %s, recorded %s", key, got[key], recorded)
		}
	}
	if *updateGolden {
		writeGoldenHashes(t, got)
	}
}

// TestGoldenJobsAreEnough keeps the set from shrinking: at least 40 runs with distinct command
// lines.
func TestGoldenJobsAreEnough(t *testing.T) {
	t.Parallel()
	runs := map[string]bool{}
	for _, job := range goldenJobs {
		for _, variant := range append([]string{""}, job.variants...) {
			runs[job.args+" "+variant] = true
		}
	}
	if len(runs) < 40 {
		t.Errorf("%d distinct runs, expected at least 40", len(runs))
	}
}

// TestGoldenResume kills a run with SIGKILL and compares what --resume makes of it with the
// recorded hash of an uninterrupted run.
func TestGoldenResume(t *testing.T) {
	t.Parallel()
	if *updateGolden {
		t.Skip("hashes are being recorded")
	}
	inputs := t.TempDir()
	writeGoldenInputs(t, inputs)
	job := goldenJobs[slices.IndexFunc(goldenJobs, func(j goldenJob) bool { return j.name == "ndvi" })]
	for range 20 {
		dir := t.TempDir()
		args := goldenArgs(job.args+" --window 128 -j 1", inputs, nil)
		c, _ := process(t, dir, append(args, "--quiet")...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		waitForSpool(dir)
		_ = c.Process.Kill()
		_ = c.Wait()
		said := leat(t, 0, dir, append(args, "--resume", "--json")...)
		if got := hashFiles(t, dir); got != readGoldenHashes(t)[job.name] {
			t.Fatalf("the resumed output has sha256 %s", got)
		}
		if strings.Contains(said, `"resumed_blocks":`) && !strings.Contains(said, `"resumed_blocks":0,`) {
			return
		}
	}
	t.Error("no run was killed between its first and its last block")
}

// waitForSpool waits until a spool in dir has blocks, or for ten seconds.
func waitForSpool(dir string) {
	for range 10_000 {
		entries, _ := filepath.Glob(filepath.Join(dir, ".*leat-part"))
		for _, e := range entries {
			if st, err := os.Stat(e); err == nil && st.Size() > 16<<10 {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// runGoldenJob runs the job with further options in a directory of its own and returns the hash of
// the files that it writes there, or into the bucket.
func runGoldenJob(t *testing.T, inputs string, server *mirror, job goldenJob, variant string) string {
	t.Helper()
	dir := t.TempDir()
	c, out := goldenProcess(t, dir, append(goldenArgs(job.args+" "+variant, inputs, server), "--quiet")...)
	c.Env = append(os.Environ(),
		"LEAT_CACHE_DIR="+filepath.Join(t.TempDir(), "cache"),
		"LEAT_RUNTIME_DIR="+filepath.Join(t.TempDir(), "run"),
		"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret", "AWS_REGION=us-east-1",
		"AWS_CONFIG_FILE="+filepath.Join(dir, "none"), "AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(dir, "none"))
	if err := c.Run(); err != nil {
		t.Fatalf("leat %s: %v\n%s", strings.Join(c.Args[1:], " "), err, out)
	}
	if strings.Contains(job.args, "s3://bucket/") && strings.Contains(job.args, "=s3://bucket/out") {
		fetch, out := goldenProcess(t, dir, "stage", "get", "--endpoint", server.s3.URL, "s3://bucket/out.tif", "-o", "out.tif")
		fetch.Env = c.Env
		if err := fetch.Run(); err != nil {
			t.Fatalf("the object that was written can't be read: %v\n%s", err, out)
		}
	}
	return hashFiles(t, dir)
}

// goldenProcess is process with the copy of the test binary that is called leat, as workers that
// the command starts have to be.
func goldenProcess(t *testing.T, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c, out := process(t, dir, args...)
	path, err := exec.LookPath("leat")
	if err != nil {
		t.Fatal(err)
	}
	c.Path = path
	return c, out
}

// goldenArgs are the arguments of leat for a job: $IN is the directory of the inputs.
func goldenArgs(args, inputs string, server *mirror) []string {
	with := []string{"$IN", inputs}
	if server != nil {
		with = append(with, "$WEB", server.files.URL, "$S3", server.s3.URL)
	}
	return append([]string{"apply"}, strings.Fields(strings.NewReplacer(with...).Replace(args))...)
}

// hashFiles returns the SHA-256 of the names and contents of all files in dir.
func hashFiles(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		fmt.Fprintf(h, "%s %d\n", filepath.Base(path), len(text))
		h.Write(text)
		return err
	})
	if err == nil && files == 0 {
		err = errors.New("no file was written")
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func readGoldenHashes(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(goldenHashes)
	if err != nil && !(*updateGolden && errors.Is(err, fs.ErrNotExist)) {
		t.Fatal(err)
	}
	hashes := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			hashes[name] = hash
		}
	}
	return hashes
}

func writeGoldenHashes(t *testing.T, hashes map[string]string) {
	t.Helper()
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		fmt.Fprintf(&b, "%s  %s\n", hashes[name], name)
	}
	if err := os.MkdirAll(filepath.Dir(goldenHashes), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenHashes, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func hasOtherGDAL(hashes map[string]string, name string) bool {
	for key := range hashes {
		if strings.HasPrefix(key, name+"@gdal-") {
			return true
		}
	}
	return false
}

// gdalVersion returns such as 3.6.2, and "" where GDAL is not installed.
func gdalVersion() string {
	out, err := exec.Command("gdalinfo", "--version").Output()
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "GDAL "), ",")
	return version
}
