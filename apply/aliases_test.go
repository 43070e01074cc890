package apply

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAliasesOfTheInterface holds the aliases among the public types against those that
// docs/design/apply.md gives reasons for.
func TestAliasesOfTheInterface(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok && s.Assign.IsValid() && s.Name.IsExported() {
				got = append(got, s.Name.Name)
			}
			return true
		})
	}
	slices.Sort(got)
	want := []string{"Fetcher", "Footprint", "Reading", "Remote", "Table"}
	if !slices.Equal(got, want) {
		t.Errorf("aliases %v, docs/design/apply.md has reasons for %v", got, want)
	}
}
