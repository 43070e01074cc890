package apply

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"leat/internal/proctest"
)

// sidecarJob returns a job whose output, of pixels that depend on the seed, has an .aux.xml.
func sidecarJob(dir string, seed int) Job {
	grid := mapGrid(64, 64, 0, 0)
	px := terrain[uint16](64, 64, uint64(seed)+1)
	return Job{Resume: true, Controls: Controls{Grid: &grid},
		Outputs: map[string]Output{"a": {Path: filepath.Join(dir, "a.tif"), HistAux: true}},
		Func: func(_ context.Context, b *Block) error {
			b.SetOut("a", cut(px, grid.Width, grid.Height, b.Window))
			return nil
		}}
}

// outputWithSidecar is a child that runs sidecarJob.
func outputWithSidecar(args []string) error {
	seed, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	_, err = Run(context.Background(), sidecarJob(args[0], seed))
	return err
}

func TestKillNeverLeavesForeignSidecar(t *testing.T) {
	sidecarOf := map[string]string{} // by the bytes of the file
	var whole [2][]byte
	for i := range whole {
		dir := t.TempDir()
		mustRun(t, sidecarJob(dir, i))
		whole[i] = fileBytes(t, filepath.Join(dir, "a.tif"))
		sidecarOf[string(whole[i])] = string(fileBytes(t, filepath.Join(dir, "a.tif.aux.xml")))
	}
	if len(sidecarOf) != 2 || sidecarOf[string(whole[0])] == sidecarOf[string(whole[1])] {
		t.Fatal("the two outputs are equal")
	}
	for point, wantNew := range map[string]bool{"apply.laid-out": false, "apply.unaccompanied": false, "apply.renamed": true,
		"apply.published": true} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			mustRun(t, sidecarJob(dir, 0))
			if killed, out, err := proctest.New("output with sidecar", dir, "1").KillAt(point, 1).Start(t).Wait(); !killed {
				t.Fatalf("the child was not killed: %v\n%s", err, out)
			}
			path := filepath.Join(dir, "a.tif")
			pixels := fileBytes(t, path)
			if (string(pixels) == string(whole[1])) != wantNew || !wantNew && string(pixels) != string(whole[0]) {
				t.Errorf("the new file is there: %v; expected %v", !wantNew, wantNew)
			}
			sidecar, err := os.ReadFile(path + ".aux.xml")
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err == nil && string(sidecar) != sidecarOf[string(pixels)] {
				t.Error("the .aux.xml belongs to another file")
			}
			if kept := point == "apply.laid-out" || point == "apply.published"; kept != (err == nil) {
				t.Errorf("there is an .aux.xml: %v; expected %v", !kept, kept)
			}
			mustRun(t, sidecarJob(dir, 1))
			sameFileBytes(t, "resumed", path, whole[1])
			sameFileBytes(t, "sidecar of the resumed run", path+".aux.xml", []byte(sidecarOf[string(whole[1])]))
			noTraces(t, dir)
		})
	}
}
