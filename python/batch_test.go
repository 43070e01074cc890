//go:build !nocloud

package python

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"leat/internal/worker/batchtest"
)

// batchScript prints what a class returns from workers: values that it emits, these merged, and
// what its method close returns. Its first argument is a raster, and the second leat.apply's
// options as JSON.
const batchScript = `
import json, sys

class Sums:
    def __init__(self, params):
        self.blocks, self.scale = [], params["scale"]

    def __call__(self, b):
        self.blocks.append(b.number)
        b.emit([b.number, self.scale * int(b.red.sum())])

    def close(self):
        return self.blocks

def add(a, b):
    return [0, a[1] + b[1]]

if __name__ == "__main__":
    import leat
    options = dict(window=256, params={"scale": 3}, **json.loads(sys.argv[2]))
    inputs = dict(red=sys.argv[1])
    each = leat.apply(Sums, inputs, **options)
    merged = leat.apply(Sums, inputs, merge=add, **options)
    print(json.dumps({"values": each.values, "merged": merged.merged[1],
                      "blocks": [sorted(sum(r.worker_values, [])) for r in (each, merged)]}))
`

// Values that a function emits and those of its workers are the same from workers of AWS Batch as
// from the calling thread.
func TestValuesOnBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts jobs of the stand-in for AWS Batch")
	}
	const python = "/usr/bin/python3" // in the $PATH of the stand-in's containers
	if exec.Command(python, "-c", "import numpy").Run() != nil {
		t.Skip("no NumPy for " + python + " (Debian: apt-get install python3-numpy)")
	}
	leat, dir := buildLeat(t), t.TempDir()
	script := filepath.Join(dir, "script.py")
	if err := os.WriteFile(script, []byte(batchScript), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), leat, "demo", "--size=700", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	run := func(options string) []byte {
		t.Helper()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), python, "-B", script, filepath.Join(dir, "B04.tif"), options)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
		cmd.Env = append(os.Environ(), "LEAT_BINARY="+leat, "PYTHONPATH="+here, "LEAT_LISTEN=127.0.0.1")
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", options, err, stdout.Bytes(), stderr.Bytes())
		}
		return stdout.Bytes()
	}
	want := run(`{"workers": 0}`)
	if !bytes.Contains(want, []byte(`"blocks": [[0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5, 6, 7, 8]]`)) {
		t.Fatalf("%s", want)
	}
	s := batchtest.New(t, batchtest.Settings{})
	got := run(`{"workers": 2, "on": "awsbatch", "aws_queue": "` + batchtest.Queue + `", "aws_definition": "` +
		batchtest.Definition + `", "aws_secret": "secretsmanager:` + batchtest.Secret + `", "aws_program": "` + leat +
		`", "aws_endpoint": "` + s.URL + `"}`)
	if !bytes.Equal(got, want) {
		t.Errorf("values of workers\n%s\nof the calling thread\n%s", got, want)
	}
	if left := s.Left(); len(left) > 0 {
		t.Errorf("the jobs %v are left", left)
	}
}
