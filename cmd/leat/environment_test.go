package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"leat/internal/expr"
)

// TestEnvironmentIsListed looks for calls of os.Getenv and os.LookupEnv with a constant, in all
// packages of the program, and compares them with leat help environment.
func TestEnvironmentIsListed(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for word := range strings.FieldsSeq(environmentTopic()) {
		listed[word] = true
	}
	root := filepath.Join("..", "..")
	found := 0
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := d.Name()
		if dir != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bench" || name == "examples" ||
			name == "testreport" || // of the tests alone
			strings.HasSuffix(name, "test")) {
			return fs.SkipDir
		}
		for _, variable := range variablesRead(t, dir) {
			found++
			if !listed[variable] {
				t.Errorf("%s reads %s, which leat help environment does not list", dir, variable)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("%d variables, expected at least 10", found)
	}
}

func TestHelpListsAllFunctions(t *testing.T) {
	_, err := expr.Parse("nosuchfunction(a)")
	var unknown *expr.SyntaxError
	if !errors.As(err, &unknown) || len(unknown.Known) < 20 {
		t.Fatal(err)
	}
	for _, name := range unknown.Known {
		if !regexp.MustCompile(`(?m)(^|\s)` + name + `\(`).MatchString(expressionsTopic()) {
			t.Errorf("leat help expressions does not list %s", name)
		}
	}
}

// variablesRead returns the variables that the package in dir reads by a constant name.
func variablesRead(t *testing.T, dir string) (list []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	var calls []ast.Expr
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, value := range n.Values {
					if text, ok := literal(value); ok {
						constants[n.Names[i].Name] = text
					}
				}
			case *ast.CallExpr:
				name := ""
				switch f := n.Fun.(type) {
				case *ast.SelectorExpr:
					name = f.Sel.Name
				case *ast.Ident:
					name = f.Name
				}
				if (name == "Getenv" || name == "LookupEnv" || name == "getenv") && len(n.Args) == 1 {
					calls = append(calls, n.Args[0])
				}
			}
			return true
		})
	}
	for _, arg := range calls {
		if text, ok := literal(arg); ok {
			list = append(list, text)
		} else if id, ok := arg.(*ast.Ident); ok && constants[id.Name] != "" {
			list = append(list, constants[id.Name])
		}
	}
	return list
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}
