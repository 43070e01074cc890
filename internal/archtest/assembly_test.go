package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestAssemblyCanBeSwitchedOff checks that make test-portable runs the tests of each package with
// assembly, that GODEBUG switches the assembly off, and that it does so there.
func TestAssemblyCanBeSwitchedOff(t *testing.T) {
	root := filepath.Join("..", "..")
	found := map[string]bool{} // whether a file that is built with the assembly asks x/sys/cpu
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_amd64.s") {
			return err
		}
		dir := filepath.Dir(path)
		files, err := filepath.Glob(filepath.Join(dir, "*_amd64.go"))
		if err != nil {
			return err
		}
		asks := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			asks = asks || strings.Contains(string(text), "cpu.X86.Has")
		}
		place, err := filepath.Rel(root, dir)
		found["./"+filepath.ToSlash(place)] = asks
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ASSEMBLY := (.*)$`).FindStringSubmatch(string(makefile))
	if m == nil {
		t.Fatal("the Makefile has no ASSEMBLY")
	}
	listed := strings.Fields(m[1])
	for place, asks := range found {
		if !slices.Contains(listed, place) {
			t.Errorf("%s has assembly; add it to ASSEMBLY in the Makefile", place)
		}
		if !asks {
			t.Errorf("%s does not ask golang.org/x/sys/cpu, so that GODEBUG does not switch its assembly off", place)
		}
	}
	for _, place := range listed {
		if _, ok := found[place]; !ok {
			t.Errorf("%s has no assembly; remove it from ASSEMBLY in the Makefile", place)
		}
	}
	if os.Getenv("LEAT_TEST_PORTABLE") != "" && (cpu.X86.HasAVX2 || cpu.X86.HasAVX512 || cpu.X86.HasBMI2) {
		t.Error("the processor's features are not switched off")
	}
}
