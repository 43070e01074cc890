package plan

import (
	"path/filepath"
	"testing"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/worker"
)

func TestVectorsInSharedTemp(t *testing.T) {
	shared, out, temp := t.TempDir(), t.TempDir(), t.TempDir()
	remote := worker.Capabilities{}
	for want, c := range map[string]struct {
		facts  worker.Capabilities
		shared string
		temp   string
	}{out: {remote, "", temp}, shared: {remote, shared, temp}, temp: {worker.Capabilities{Local: true}, "", temp}} {
		outs := []*output.Output{{Spec: output.Spec{Path: filepath.Join(out, "o.tif"), TempDir: c.temp}}}
		got := rasterDir(&jobspec.Concurrency{On: factsOnly{facts: c.facts}, SharedTemp: c.shared}, outs)
		if got != want {
			t.Errorf("%+v: %s, not %s", c, got, want)
		}
	}
}

// factsOnly is a launcher that has only capabilities.
type factsOnly struct {
	worker.Launcher
	facts worker.Capabilities
}

func (f factsOnly) Capabilities() worker.Capabilities { return f.facts }
