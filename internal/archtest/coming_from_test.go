package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exportedNames returns the names of a package: those of its top level, and all, with those of
// methods and fields.
func exportedNames(t *testing.T, dir string) (top, all map[string]bool) {
	t.Helper()
	top, all = map[string]bool{}, map[string]bool{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no Go files: %v", dir, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all[d.Name.Name] = true
				if d.Recv == nil {
					top[d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						top[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							top[n.Name] = true
						}
					}
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				for _, name := range f.Names {
					all[name.Name] = true
				}
			}
			return true
		})
	}
	for name := range top {
		all[name] = true
	}
	return top, all
}

// TestComingFromNamesExist checks the right column of the tables in docs/coming-from.md: options
// are in the reference, names in the packages.
func TestComingFromNamesExist(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "coming-from.md"))
	if err != nil {
		t.Fatal(err)
	}
	references := map[string][]byte{}
	for _, command := range []string{"leat apply", "leat zonal"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", "reference", strings.ReplaceAll(command, " ", "-")+".md"))
		if err != nil {
			t.Fatal(err)
		}
		references[command] = text
	}
	tops, all := map[string]map[string]bool{}, map[string]bool{}
	for _, name := range []string{"apply", "cache", "codec", "stage", "shm", "namespace", "ndarray", "worker"} {
		top, names := exportedNames(t, filepath.Join(root, name))
		tops[name] = top
		for n := range names {
			all[n] = true
		}
	}
	span := regexp.MustCompile("`[^`]+`")
	option := regexp.MustCompile(`(?:^|[\s` + "`" + `])(--?[a-z][a-z-]*)`)
	qualified := regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)`)
	capital := regexp.MustCompile(`\b[A-Z][a-z]\w*`)
	texts := regexp.MustCompile(`"[^"]*"|'[^']*'`)
	inGo, command := false, ""
	options, names := 0, 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, ""), " | ")
		if len(cells) < 2 || !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		right := strings.TrimSpace(strings.TrimSuffix(cells[len(cells)-1], "|"))
		if strings.HasPrefix(right, "leat") {
			inGo, command = strings.Contains(right, "in Go"), right
			if !inGo && references[command] == nil {
				t.Errorf("a table translates to %q, which has no reference", right)
			}
			continue
		}
		for _, s := range span.FindAllString(right, -1) {
			if !inGo {
				for _, m := range option.FindAllStringSubmatch(texts.ReplaceAllString(s, ""), -1) {
					options++
					if o := regexp.MustCompile("[`, ]" + regexp.QuoteMeta(m[1]) + "[`, ]"); !o.Match(references[command]) {
						t.Errorf("%s has no option %s: %s", command, m[1], line)
					}
				}
				continue
			}
			s = texts.ReplaceAllString(s, "")
			for _, m := range qualified.FindAllStringSubmatch(s, -1) {
				if top := tops[m[1]]; top != nil {
					names++
					if !top[m[2]] {
						t.Errorf("package %s has no %s: %s", m[1], m[2], line)
					}
				}
			}
			for _, name := range capital.FindAllString(s, -1) {
				names++
				if !all[name] {
					t.Errorf("no package has a name %s: %s", name, line)
				}
			}
		}
	}
	if options < 30 || names < 40 {
		t.Errorf("%d options and %d names were found", options, names)
	}
}
