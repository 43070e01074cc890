package archtest

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPeerDefectsHaveTests checks testdata/peers.txt: each test that it names must exist.
func TestPeerDefectsHaveTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/peers.txt")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]map[string]bool{} // by directory
	rows := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 3 {
			t.Errorf("%q: expected peer | defect | package test...", line)
			continue
		}
		rows++
		words := strings.Fields(cells[2])
		dir := words[0]
		if tests[dir] == nil {
			tests[dir] = testsBelow(t, filepath.Join("..", "..", dir))
		}
		if len(words) < 2 {
			t.Errorf("%s: %s: no test", cells[0], cells[1])
		}
		for _, name := range words[1:] {
			if !tests[dir][name] {
				t.Errorf("%s: %s: no %s in %s", cells[0], cells[1], name, dir)
			}
		}
	}
	if rows < 50 {
		t.Errorf("%d defects, expected at least 50", rows)
	}
}

// testsBelow returns the names of the test functions in dir and below.
func testsBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for name := range f.Scope.Objects {
			names[name] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// pathInDocs is a file or directory as Markdown cites it: `apply/job.go`, `worker/pbs/`.
var pathInDocs = regexp.MustCompile("`([a-z0-9_.]+(?:/[A-Za-z0-9_.-]+)+/?|Makefile)`")

// linkInDocs is a relative link.
var linkInDocs = regexp.MustCompile(`\]\(([^):#\s",]+)(?:#[^)]*)?\)`)

// TestDocsNameFilesThatExist checks the paths in docs/contributing.md and the links and tests in
// docs/design.
func TestDocsNameFilesThatExist(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "contributing.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := pathInDocs.FindAllStringSubmatch(string(text), -1)
	for _, m := range found {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("contributing.md: %v", err)
		}
	}
	if len(found) < 20 {
		t.Errorf("contributing.md names %d files, expected at least 20", len(found))
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "design", "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages in docs/design, %v", len(pages), err)
	}
	for _, page := range append(pages, filepath.Join(root, "docs", "contributing.md"), filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range linkInDocs.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", filepath.Base(page), err)
			}
		}
	}
	// Evidence names tests; names in docs/design are checked like those of the peers' table.
	all := testsBelow(t, root)
	testInDocs := regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	for _, page := range slices.Sorted(slices.Values(pages)) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testInDocs.FindAllStringSubmatch(string(text), -1) {
			if !all[m[1]] {
				t.Errorf("%s: there is no %s", filepath.Base(page), m[1])
			}
		}
	}
}
