package apply

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestBoolInput computes with a mask that NumPy saved, whose bytes are not all 0 or 1.
func TestBoolInput(t *testing.T) {
	dir := t.TempDir()
	mask, out := filepath.Join(dir, "m.npy"), filepath.Join(dir, "o.tif")
	header := fmt.Sprintf("%-117s\n", "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }")
	b := append([]byte("\x93NUMPY\x01\x00\x76\x00"+header), 0, 1, 2, 255, 0, 128)
	if err := os.WriteFile(mask, b, 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), Job{Inputs: map[string]Input{"m": File(mask)},
		Outputs: map[string]Output{"o": {Path: out}}, Expressions: map[string]string{"o": "m * 10"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := pixels[int16](t, out); !slices.Equal(got, []int16{0, 10, 10, 10, 0, 10}) {
		t.Errorf("the pixels are %v", got)
	}
}
