package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"hidden\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: -short: takes seconds\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    b_test.go:9: no disk\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t2.0s\n"}
{"Action":"pass","Package":"p","Elapsed":2}
{"Action":"output","Package":"q","Test":"TestD","Output":"    d_test.go:1: wrong\n"}
{"Action":"fail","Package":"q","Test":"TestD","Elapsed":0.1}
{"Action":"output","Package":"q","Output":"FAIL\tq\t0.1s\n"}
{"Action":"fail","Package":"q","Elapsed":0.1}
a line that is not JSON
`
	passing, _, _ := strings.Cut(events, `{"Action":"output","Package":"q"`)
	for _, c := range []struct {
		events string
		ok     bool
		want   []string
	}{
		{events, false, []string{"ok  \tp\t2.0s\n", "d_test.go:1: wrong\n", "FAIL\tq", "1.5 s  p TestA\n",
			"a line that is not JSON\n",
			"2 packages, 1 failed; 2 tests skipped: 1 because of -short (make test-all runs them); 1 no disk\n"}},
		{passing, true, []string{"1 packages, 0 failed"}},
		{"", false, []string{"0 packages"}},
	} {
		var b strings.Builder
		ok, err := report(strings.NewReader(c.events), &b, nil)
		if err != nil || ok != c.ok {
			t.Errorf("%v, %v", ok, err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("no %q in\n%s", want, b.String())
			}
		}
		if strings.Contains(b.String(), "hidden") {
			t.Error("the output of a test that passed is shown")
		}
	}
}

func TestLeftOut(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go": `package a
func TestQuick(t *testing.T) {}
func TestSlow(t *testing.T) { if testing.Short() { t.Skip() } }
func TestByPackage(t *testing.T) { browsertest.Start(t) }
func TestByPackages(t *testing.T) { pagetest.Open(t) }
func TestQuickHelper(t *testing.T) { browsertest.Quick(t) }
func TestByHelper(t *testing.T) { helper(t) }
func helper(t *testing.T) { rounds() }
func rounds() int { if testing.Short() { return 1 }; return 2 }
func TestMain(m *testing.M) { rounds() }
func TestMethodOfTheName(t *testing.T) { new(list).rounds() }
func (l *list) rounds() {}
func TestMethod(t *testing.T) { new(list).some() }
func (l *list) some() int { return rounds() }
`,
		"browsertest/start.go": "package browsertest\nfunc Start(t *testing.T) { testing.Short() }\nfunc Quick(t *testing.T) {}\n",
		"a/pagetest/open.go":   "package pagetest\nfunc Open(t *testing.T) { browsertest.Start(t) }\n",
		"a/cloud_test.go":      "//go:build !race && !nocloud\n\npackage a\nfunc TestStore(t *testing.T) {}\nfunc ExampleStore() {}\n",
		"a/nocloud_test.go":    "//go:build nocloud\n\npackage a\nfunc TestWithoutStore(t *testing.T) {}\n",
		"a/race_test.go":       "//go:build !race\n\npackage a\nfunc TestNoRace(t *testing.T) {}\n",
		"b/b_test.go":          "package b\nfunc TestOther(t *testing.T) {}\n",
		"python/p_test.go":     "package python\nfunc TestSlow(t *testing.T) { testing.Short() }\n",
		"module/go.mod":        "module x\n",
		"module/c_test.go":     "package c\nfunc TestElsewhere(t *testing.T) { testing.Short() }\n",
		"testdata/broken.go":   "no Go",
		".hidden/d_test.go":    "package d\nfunc TestHidden(t *testing.T) { testing.Short() }\n",
		"a/testdata/e_test.go": "package e\nfunc TestData(t *testing.T) { testing.Short() }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("in a directory", func(t *testing.T) {
		t.Chdir(dir)
		got, err := leftOut(".")
		if want := "-run=^(ExampleStore|TestByHelper|TestByPackage|TestByPackages|TestMethod|TestSlow|TestStore)$ ./python ./a"; err != nil || got != want {
			t.Errorf("%q, %v, expected %q", got, err, want)
		}
	})
}
