package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// publicDirs returns the directories of the packages that programs outside of the module import.
func publicDirs(t *testing.T, root string) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch name := d.Name(); {
		case path != root && strings.HasPrefix(name, "."), name == "internal", name == "testdata", name == "cmd",
			name == "bench", name == "tools", name == "python", name == "examples":
			return fs.SkipDir
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// parseDir returns the files of a package, without tests.
func parseDir(t *testing.T, set *token.FileSet, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// TestPublicDocsStandAlone checks the docs of public packages: they name nothing of internal
// packages, which go doc can't show, and describe what is in an alias of an internal type.
func TestPublicDocsStandAlone(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	dirs := publicDirs(t, root)
	internal := map[string]bool{}
	entries, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		internal[e.Name()] = e.IsDir()
	}
	for _, name := range []string{"jobspec", "resolve", "exec", "index", "store", "plan", "output", "spool"} {
		internal[name] = true
	}
	for _, dir := range dirs {
		delete(internal, filepath.Base(dir)) // a name that both have
	}
	if len(dirs) < 20 || len(internal) < 40 {
		t.Fatalf("%d public packages and %d internal ones", len(dirs), len(internal))
	}
	identifier := regexp.MustCompile(`\b([a-z0-9]+)\.[A-Z]\w*`)
	set := token.NewFileSet()
	aliases := 0
	for _, dir := range dirs {
		for _, f := range parseDir(t, set, dir) {
			imports := map[string]string{}
			for _, i := range f.Imports {
				path, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				imports[filepath.Base(path)] = path
			}
			for _, doc := range exportedDocs(f) {
				for _, m := range identifier.FindAllStringSubmatch(doc.Text(), -1) {
					if internal[m[1]] {
						t.Errorf("%s: %s is internal", set.Position(doc.Pos()), m[0])
					}
				}
			}
			for _, d := range f.Decls {
				d, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, s := range d.Specs {
					s, ok := s.(*ast.TypeSpec)
					if !ok || !s.Assign.IsValid() || !s.Name.IsExported() {
						continue
					}
					of, ok := s.Type.(*ast.SelectorExpr)
					if !ok {
						continue
					}
					path := imports[of.X.(*ast.Ident).Name]
					if !strings.Contains(path, "/internal/") {
						continue
					}
					aliases++
					doc := d.Doc.Text() + s.Doc.Text()
					for _, name := range membersOf(t, filepath.Join(root, strings.TrimPrefix(path, "leat/")), of.Sel.Name) {
						if !regexp.MustCompile(`\b` + name + `\b`).MatchString(doc) {
							t.Errorf("%s: the doc of %s does not mention %s", set.Position(s.Pos()), s.Name.Name, name)
						}
					}
				}
			}
		}
	}
	if aliases < 7 {
		t.Errorf("%d aliases of internal types, expected at least 7", aliases)
	}
}

// exportedDocs returns the comments that go doc shows.
func exportedDocs(f *ast.File) (list []*ast.CommentGroup) {
	add := func(exported bool, doc *ast.CommentGroup) {
		if exported && doc != nil {
			list = append(list, doc)
		}
	}
	add(true, f.Doc)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Name.IsExported(), d.Doc)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				s, ok := s.(*ast.TypeSpec)
				if !ok || !s.Name.IsExported() {
					continue
				}
				add(true, d.Doc)
				add(true, s.Doc)
				ast.Inspect(s.Type, func(n ast.Node) bool {
					if f, ok := n.(*ast.Field); ok {
						exported := len(f.Names) > 0 && f.Names[0].IsExported()
						add(exported, f.Doc)
						add(exported, f.Comment)
					}
					return true
				})
			}
		}
	}
	return list
}

// membersOf returns the exported fields or methods that the declaration of a type lists.
func membersOf(t *testing.T, dir, name string) (list []string) {
	t.Helper()
	for _, f := range parseDir(t, token.NewFileSet(), dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok || s.Name.Name != name {
				return true
			}
			var fields *ast.FieldList
			switch typ := s.Type.(type) {
			case *ast.StructType:
				fields = typ.Fields
			case *ast.InterfaceType:
				fields = typ.Methods
			default:
				return false
			}
			for _, field := range fields.List {
				for _, n := range field.Names {
					if n.IsExported() {
						list = append(list, n.Name)
					}
				}
			}
			return false
		})
	}
	return list
}
