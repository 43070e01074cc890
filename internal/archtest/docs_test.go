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

// pathInDocs is a file or directory as Markdown cites it: `apply/job.go`, `worker/pbs/`, `pace.go`.
var pathInDocs = regexp.MustCompile("`([A-Za-z0-9_.]+(?:/[A-Za-z0-9_.-]+)+/?|[A-Za-z0-9_]+\\.(?:go|s|py|txtar)|Makefile)`")

// linkInDocs is a relative link, with an anchor or without.
var linkInDocs = regexp.MustCompile(`\]\(([^):#\s",]*)(?:#([^)\s]*))?\)`)

// TestDocsNameFilesThatExist checks the files that docs/contributing.md and docs/design name. Those
// pages may shorten a path to its last elements.
func TestDocsNameFilesThatExist(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	top, known := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		if d.Name() == ".git" && d.IsDir() {
			return filepath.SkipDir
		}
		rest, _ := filepath.Rel(root, path)
		if !strings.Contains(rest, "/") {
			top[rest] = true
		}
		for more := true; more; _, rest, more = strings.Cut(rest, "/") {
			known[rest] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "design", "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages in docs/design, %v", len(pages), err)
	}
	count := 0
	for _, page := range append(pages, filepath.Join(root, "docs", "contributing.md")) {
		for _, m := range pathInDocs.FindAllStringSubmatch(readText(t, page), -1) {
			name := strings.TrimSuffix(m[1], "/")
			first, _, long := strings.Cut(name, "/")
			if long && !top[first] && filepath.Ext(name) == "" {
				continue // a package from elsewhere, such as compress/flate
			}
			count++
			if !known[name] {
				t.Errorf("%s: there is no %s", filepath.Base(page), name)
			}
		}
	}
	if count < 200 {
		t.Errorf("%d names of files, expected at least 200", count)
	}
}

// TestDocsNameTestsThatExist checks the tests that docs/design names as evidence.
func TestDocsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "design", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := testsBelow(t, root)
	testInDocs := regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	for _, page := range pages {
		for _, m := range testInDocs.FindAllStringSubmatch(readText(t, page), -1) {
			if !all[m[1]] {
				t.Errorf("%s: there is no %s", filepath.Base(page), m[1])
			}
		}
	}
}

// TestLinksInDocs checks that relative links lead to a file, and to a heading if they name one.
func TestLinksInDocs(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, "docs", pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	count := 0
	for _, page := range pages {
		for _, m := range linkInDocs.FindAllStringSubmatch(withoutCode(readText(t, page)), -1) {
			target, anchor := filepath.Join(filepath.Dir(page), m[1]), m[2]
			if m[1] == "" {
				target = page
			}
			count++
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && !slices.Contains(anchors(readText(t, target)), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
	if count < 200 {
		t.Errorf("%d links, expected at least 200", count)
	}
}

// anchors returns the anchors that GitHub makes of the headings of a page.
func anchors(text string) (list []string) {
	dropped := regexp.MustCompile(`[^\pL\pN _-]`)
	for line := range strings.Lines(withoutCode(text)) {
		if hashes, heading, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Trim(hashes, "#") == "" {
			list = append(list, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-"))
		}
	}
	return list
}

// withoutCode returns a text without its blocks of code.
func withoutCode(text string) string {
	return regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
}

// TestDesignListsAllPackages checks that docs/design/README.md says which page is about a package,
// or what the package contains.
func TestDesignListsAllPackages(t *testing.T) {
	t.Parallel()
	text := readText(t, filepath.Join("..", "..", "docs", "design", "README.md"))
	listed := regexp.MustCompile("`([a-z/*]+)`").FindAllStringSubmatch(text, -1)
	for _, layer := range layers {
		for _, p := range layer {
			p = strings.TrimPrefix(p, "leat/")
			if !slices.ContainsFunc(listed, func(m []string) bool {
				above, all := strings.CutSuffix(m[1], "*")
				return m[1] == p || all && strings.HasPrefix(p, above)
			}) {
				t.Errorf("docs/design/README.md does not list %s", p)
			}
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
