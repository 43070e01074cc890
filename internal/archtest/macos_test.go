package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestItIsGoForMacOSToo checks types only, and of what comes from elsewhere only the declarations:
// to compile it all for another system takes minutes.
func TestItIsGoForMacOSToo(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: reads the source of all that leat depends on")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	of := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo |
			packages.NeedTypesSizes | packages.NeedModule,
		Dir:   root,
		Env:   append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0"),
		Tests: true,
		ParseFile: func(set *token.FileSet, name string, text []byte) (*ast.File, error) {
			if strings.HasPrefix(name, root+string(filepath.Separator)) {
				return parser.ParseFile(set, name, text, parser.SkipObjectResolution)
			}
			f, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
			if f != nil {
				for _, d := range f.Decls {
					if d, ok := d.(*ast.FuncDecl); ok {
						d.Body = nil
					}
				}
			}
			return f, err
		},
	}
	all, err := packages.Load(of, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if strings.HasSuffix(p.ID, ".test") { // a main that go test makes
			continue
		}
		for _, e := range p.Errors {
			t.Error(e)
		}
	}
	if len(all) < 100 {
		t.Errorf("only %d packages were looked at", len(all))
	}
}
