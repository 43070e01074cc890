package main

import (
	"cmp"
	"errors"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// leftOut returns the arguments of go test that run every test below root that depends on -short,
// or whose file is not built with the tag nocloud: -run with their names, and their packages.
// Directories with a go.mod of their own are left out.
func leftOut(root string) (string, error) {
	var dirs []*directory
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
		parsed, err := parseDirectory(path)
		dirs = append(dirs, parsed)
		return err
	})
	if err != nil {
		return "", err
	}
	markShort(dirs)
	var names, packages []string
	for _, d := range dirs {
		if tests := d.shortTests(); len(tests) > 0 {
			names = append(names, tests...)
			packages = append(packages, "./"+filepath.ToSlash(d.path))
		}
	}
	if len(names) == 0 {
		return "", errors.New("no test depends on -short")
	}
	slices.Sort(names)
	slices.SortStableFunc(packages, func(a, b string) int { return cmp.Compare(startOrder(a), startOrder(b)) })
	return "-run=^(" + strings.Join(slices.Compact(names), "|") + ")$ " + strings.Join(packages, " "), nil
}

// longest lists the packages whose tests take longest, mostly waiting: go test starts packages in
// the order of its arguments, and the last ones would run alone.
var longest = []string{"./python", "./apply", "./cmd/leat", "./stage", "./worker/slurm", "./namespace", "./worker/pbs",
	"./worker/awsbatch", "./internal/inflate"}

// startOrder returns the place of a package among the longest, or the place behind them.
func startOrder(pkg string) int {
	if i := slices.Index(longest, pkg); i >= 0 {
		return i
	}
	return len(longest)
}

// directory has the functions of a directory by name, f, and its methods, as .m.
type directory struct {
	path   string
	calls  map[string][]string // what a function refers to: f, pkg.f, or .m
	short  map[string]bool     // functions that depend on -short
	clouds map[string]bool     // functions of test files that are not built with the tag nocloud
	// exported holds, as pkg.f, the functions that other directories may call.
	exported map[string]string
}

func parseDirectory(path string) (*directory, error) {
	d := &directory{path: path, calls: map[string][]string{}, short: map[string]bool{}, clouds: map[string]bool{},
		exported: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(path, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			d.addCalls(fn)
			if strings.HasSuffix(name, "_test.go") && !withNoCloud(f) {
				d.clouds[nameOf(fn)] = true
			}
			if fn.Recv == nil && fn.Name.IsExported() && !strings.HasSuffix(name, "_test.go") {
				d.exported[fn.Name.Name] = f.Name.Name + "." + fn.Name.Name
			}
		}
	}
	return d, nil
}

// withNoCloud reports whether the tag nocloud, with which make test runs, leaves a file as it is.
func withNoCloud(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if x, err := constraint.Parse(c.Text); err == nil && c.Pos() < f.Package {
				eval := func(nocloud bool) bool {
					return x.Eval(func(tag string) bool { return tag == "nocloud" && nocloud || tag == runtime.GOOS })
				}
				return eval(true) || !eval(false)
			}
		}
	}
	return true
}

// nameOf returns the name of a function, or that of a method after a dot, so that a call means one
// of them.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv != nil {
		return "." + fn.Name.Name
	}
	return fn.Name.Name
}

func (d *directory) addCalls(fn *ast.FuncDecl) {
	name := nameOf(fn)
	d.calls[name] = append(d.calls[name], "")
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			d.calls[name] = append(d.calls[name], "."+n.Sel.Name)
			if x, ok := n.X.(*ast.Ident); ok {
				d.calls[name] = append(d.calls[name], x.Name+"."+n.Sel.Name)
			}
			ast.Inspect(n.X, visit)
			return false
		case *ast.Ident:
			d.calls[name] = append(d.calls[name], n.Name)
		}
		return true
	}
	ast.Inspect(fn.Body, visit)
}

// markShort marks the functions that call testing.Short, or a function that does: of their own
// directory, or an exported one, such as slurmtest.Start.
func markShort(dirs []*directory) {
	helpers := map[string]bool{"testing.Short": true}
	for grown := true; grown; {
		grown = false
		for _, d := range dirs {
			for name, calls := range d.calls {
				depends := func(c string) bool { return helpers[c] || d.short[c] }
				if d.short[name] || !slices.ContainsFunc(calls, depends) {
					continue
				}
				d.short[name], grown = true, true
				if e, ok := d.exported[name]; ok {
					helpers[e] = true
				}
			}
		}
	}
}

// shortTests returns the names of the tests, examples and fuzz targets that make test leaves out.
func (d *directory) shortTests() []string {
	var tests []string
	for name := range d.calls {
		isTest := strings.HasPrefix(name, "Test") && name != "TestMain" || strings.HasPrefix(name, "Fuzz")
		if isTest && d.short[name] || (isTest || strings.HasPrefix(name, "Example")) && d.clouds[name] {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests
}
