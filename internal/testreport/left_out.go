package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shortCalls are the calls by which a test depends on -short, or helpers in other packages that
// skip their callers then.
var shortCalls = []string{"testing.Short", "slurmtest.Start"}

// leftOut returns the arguments of go test that run every test below root that depends on -short:
// -run with their names, and their packages. Directories with a go.mod of their own are left out.
func leftOut(root string) (string, error) {
	var names, packages []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if path != root {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil ||
				d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
		}
		found, err := shortTests(path)
		if len(found) > 0 {
			names = append(names, found...)
			packages = append(packages, "./"+filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", errors.New("no test depends on -short")
	}
	slices.Sort(names)
	return "-run=^(" + strings.Join(slices.Compact(names), "|") + ")$ " + strings.Join(packages, " "), nil
}

// shortTests returns the names of the tests of one directory that make a call of shortCalls, or
// call a function of the directory's tests that does.
func shortTests(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	calls := map[string][]string{} // by function
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || d.Body == nil {
				continue
			}
			ast.Inspect(d.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok {
						calls[d.Name.Name] = append(calls[d.Name.Name], x.Name+"."+n.Sel.Name)
					}
				case *ast.Ident:
					calls[d.Name.Name] = append(calls[d.Name.Name], n.Name)
				}
				return true
			})
		}
	}
	short := map[string]bool{}
	for grown := true; grown; {
		grown = false
		for name, list := range calls {
			if !short[name] && slices.ContainsFunc(list, func(c string) bool {
				return slices.Contains(shortCalls, c) || short[c]
			}) {
				short[name], grown = true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(short)), func(name string) bool {
		return !strings.HasPrefix(name, "Test") || name == "TestMain"
	}), nil
}
