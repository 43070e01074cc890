package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// flagText matches what only the command may write: its flags and its command lines.
var flagText = regexp.MustCompile(`(^|[^-\w])--[a-z]|` +
	`\bleat (apply|stage|cache|jobs|info|zonal|worker|demo) [a-z-]`)

// flagPackages may name flags: the command and programs, and what tests start.
var flagPackages = []string{"bench", "cmd", "examples", "internal/browsertest", "internal/demo", "internal/worker/slurmtest", "scripts"}

// launchers may have flags of the programs that they start as arguments, but not in texts, which
// have spaces.
var launchers = []string{"worker/awsbatch", "worker/slurm"}

// Libraries return facts; the command maps the field of an error to a flag (docs/design).
func TestLibrariesNameNoFlags(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case d.IsDir() && (d.Name() == "testdata" || slices.Contains(flagPackages, name)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				argument := slices.Contains(launchers, filepath.ToSlash(filepath.Dir(name))) && !strings.Contains(text, " ")
				if err == nil && !argument && flagText.MatchString(text) {
					t.Errorf("%v: a library names a flag or a command: %s", fset.Position(lit.Pos()), lit.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Errorf("only %d files were read", files)
	}
	for text, want := range map[string]bool{"use --nodata": true, "(--nodata)": true, "leat stage get URL": true,
		"a -- b": false, "leat writes GeoTIFF": false} {
		if flagText.MatchString(text) != want {
			t.Errorf("%q: expected %v", text, want)
		}
	}
}
