package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// Columns allowed in a line; a tab counts as four.
const (
	commentColumns = 100
	codeColumns    = 120
)

// neverWords must not be in identifiers, comments, messages or docs: docs/glossary.md has the words to
// use instead. Words that GDAL and the expression language own (near, floor) are not listed.
var neverWords = []string{
	"room", "rooms", "house", "books", "ledger", "shelf", "errand", "workshop", "meeting", "tame", "tamed",
	"settle", "settled", "settles", "heed", "heeds", "judge", "judges", "judged", "survey", "surveyed", "beside", "far",
	"farewell", "stranger", "strangers", "barren", "culprit", "culprits", "nudge", "nudged", "tells", "told",
}

var (
	neverWord   = regexp.MustCompile(`(?i)\b(` + strings.Join(neverWords, "|") + `)\b`)
	neverPhrase = regexp.MustCompile(`(?i)\b(so that nobody|lets nobody|(?:is|are|was|were|be) told|has \w+ be)\b`)
	// idioms have one of neverWords in an ordinary sense.
	idioms = regexp.MustCompile(`(?i)\b(as|so|by|how|too) far\b|\bfar (more|less|from)\b`)
)

// commandedOperation is a message, or one with its cause, that names its operation as a command
// would ("open x: no such file") and not as the others do ("opening x: no such file").
var commandedOperation = regexp.MustCompile("^[\"`](accept|bind|cancel|close|connect|copy|create|decode|delete|deregister|" +
	"describe|dial|encode|export|fetch|find|import|join|list|listen|load|lock|map|open|parse|query|raise|read|register|" +
	"remove|rename|resolve|run|send|start|store|submit|terminate|truncate|verify|write) [^\"`]*: %w[\"`]$")

// lintFinding is one place that breaks a rule.
type lintFinding struct {
	rule, place string
}

// TestLint counts what breaks the style rules, per rule, and compares with testdata/lint.txt: a count may
// only fall. LEAT_LINT=list prints every place, LEAT_LINT=RULE those of one rule, LEAT_LINT=record writes
// the counts.
func TestLint(t *testing.T) {
	findings := lintTree(t, filepath.Join("..", ".."))
	counts := map[string]int{}
	for _, rule := range lintRules {
		counts[rule] = 0
	}
	mode := os.Getenv("LEAT_LINT")
	for _, f := range findings {
		counts[f.rule]++
		if mode == "list" || mode == f.rule {
			t.Logf("%s: %s", f.rule, f.place)
		}
	}
	const file = "testdata/lint.txt"
	if mode == "record" {
		var b strings.Builder
		for _, rule := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "%s %d\n", rule, counts[rule])
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	allowed := map[string]int{}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		rule, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		if allowed[rule], err = strconv.Atoi(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(counts)) {
		switch n := counts[rule]; {
		case n > allowed[rule]:
			t.Errorf("%s: %d places, allowed are %d; LEAT_LINT=%s go test -v ./internal/archtest lists them",
				rule, n, allowed[rule], rule)
		case n < allowed[rule]:
			t.Logf("%s: %d places, %d are recorded; LEAT_LINT=record lowers the limit", rule, n, allowed[rule])
		}
	}
}

var lintRules = []string{
	"words-in-identifiers", "words-in-comments", "words-in-strings", "words-in-docs",
	"comment-columns", "code-columns", "doc-comment-name", "check-assigns", "error-operation",
}

// lintTree applies all rules to the Go files and the Markdown files below root.
func lintTree(t *testing.T, root string) []lintFinding {
	t.Helper()
	var findings []lintFinding
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "demo" || name == "node_modules") {
			return fs.SkipDir
		}
		place, err := filepath.Rel(root, path)
		if err != nil || d.IsDir() {
			return err
		}
		switch filepath.Ext(name) {
		case ".go":
			files++
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found, err := lintGo(place, text)
			findings = append(findings, found...)
			return err
		case ".md":
			text, err := os.ReadFile(path)
			if name != "glossary.md" && name != "CHANGELOG.md" {
				findings = append(findings, lintText("words-in-docs", place, string(text))...)
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Fatalf("%d Go files were read, expected the whole tree", files)
	}
	return findings
}

// lintText finds the words and phrases of the never-list, line by line.
func lintText(rule, place, text string) []lintFinding {
	var findings []lintFinding
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = idioms.ReplaceAllString(s, "")
		for _, m := range append(neverWord.FindAllString(s, -1), neverPhrase.FindAllString(s, -1)...) {
			findings = append(findings, lintFinding{rule, fmt.Sprintf("%s:%d: %q", place, line, m)})
		}
	}
	return findings
}

// lintGo applies the rules for Go to one file.
func lintGo(place string, text []byte) ([]lintFinding, error) {
	var findings []lintFinding
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, place, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	add := func(rule string, pos token.Pos, what string) {
		findings = append(findings, lintFinding{rule, fmt.Sprintf("%s: %s", set.Position(pos), what)})
	}
	if place == filepath.Join("internal", "archtest", "lint_test.go") { // it lists the words
		return nil, nil
	}
	commented := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			first := set.Position(c.Pos()).Line
			for i := range strings.Count(c.Text, "\n") + 1 {
				commented[first+i] = true
			}
			if strings.HasPrefix(c.Text, "//go:") {
				continue
			}
			for _, f := range lintText("words-in-comments", place, c.Text) {
				add(f.rule, c.Pos(), f.place[strings.LastIndexByte(f.place, ' ')+1:])
			}
		}
	}
	line := 0
	for s := range strings.Lines(string(text)) {
		line++
		columns := len([]rune(strings.ReplaceAll(strings.TrimRight(s, "\n"), "\t", "    ")))
		code, _, trailing := strings.Cut(s, "//")
		isComment := commented[line] && trailing && strings.TrimSpace(code) == ""
		switch {
		case isComment && columns > commentColumns && strings.Contains(strings.TrimSpace(s)[2:], " "):
			findings = append(findings, lintFinding{"comment-columns", fmt.Sprintf("%s:%d: %d", place, line, columns)})
		case !isComment && columns > codeColumns && !strings.ContainsAny(s, "`\""): // long literals stay whole
			findings = append(findings, lintFinding{"code-columns", fmt.Sprintf("%s:%d: %d", place, line, columns)})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Ident:
			for _, word := range identifierWords(n.Name) {
				if slices.Contains(neverWords, word) {
					add("words-in-identifiers", n.Pos(), n.Name)
				}
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				if commandedOperation.MatchString(n.Value) {
					add("error-operation", n.Pos(), n.Value)
				}
				for _, f := range lintText("words-in-strings", place, n.Value) {
					add(f.rule, n.Pos(), f.place[strings.LastIndexByte(f.place, ' ')+1:])
				}
			}
		}
		return true
	})
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			lintDoc(d.Doc, d.Name, add)
			lintCheck(d, add)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					doc := s.Doc
					if doc == nil && len(d.Specs) == 1 {
						doc = d.Doc
					}
					lintDoc(doc, s.Name, add)
				}
			}
		}
	}
	return findings, nil
}

// identifierWords splits an identifier at capitals, digits and underscores, in lower case.
func identifierWords(name string) []string {
	var words []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || !unicode.IsLetter(runes[i]) || unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) {
			words = append(words, strings.ToLower(strings.Trim(string(runes[start:i]), "_0123456789")))
			start = i
		}
	}
	return words
}

// lintDoc requires that a doc comment begins with the name of what it documents.
func lintDoc(doc *ast.CommentGroup, name *ast.Ident, add func(string, token.Pos, string)) {
	if doc == nil || strings.HasPrefix(name.Name, "Test") || strings.HasPrefix(name.Name, "Fuzz") {
		return
	}
	words := strings.Fields(doc.Text())
	if len(words) == 0 {
		return // a directive
	}
	first := words[0]
	if (first == "A" || first == "An" || first == "The") && len(words) > 1 {
		first = words[1]
	}
	if strings.TrimRight(first, ",.:;'s") != strings.TrimRight(name.Name, "s") {
		add("doc-comment-name", doc.Pos(), name.Name)
	}
}

var checkName = regexp.MustCompile(`^(check|is|has|validate)([A-Z_]|$)`)

// lintCheck finds functions whose name promises that they change nothing and that assign to a field or an
// element of a parameter or of the receiver.
func lintCheck(d *ast.FuncDecl, add func(string, token.Pos, string)) {
	if !checkName.MatchString(d.Name.Name) || d.Body == nil {
		return
	}
	params := map[string]bool{}
	for _, list := range []*ast.FieldList{d.Recv, d.Type.Params} {
		if list == nil {
			continue
		}
		for _, f := range list.List {
			for _, n := range f.Names {
				params[n.Name] = true
			}
		}
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for _, left := range a.Lhs {
			if root, deep := rootOf(left); deep && params[root] {
				add("check-assigns", a.Pos(), d.Name.Name)
			}
		}
		return true
	})
}

// rootOf returns the variable that an expression such as a.b[i].c starts with, and whether the expression
// goes through a selector, an index or a pointer.
func rootOf(e ast.Expr) (name string, deep bool) {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name, deep
		case *ast.SelectorExpr:
			e, deep = x.X, true
		case *ast.IndexExpr:
			e, deep = x.X, true
		case *ast.StarExpr:
			e, deep = x.X, true
		case *ast.ParenExpr:
			e = x.X
		default:
			return "", false
		}
	}
}

// TestLintFinds holds every rule against a text that breaks it.
func TestLintFinds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30)
	text := `package x

// tells more.
func Named() {}

// checkIt changes what it checks.
func checkIt(a *struct{ n int }) { a.n = 1 }

// ` + long + `
var shelfRoom = "is told"
var errOpen = fmt.Errorf("open %s: %w", "x", nil)
` + "var a = []int{" + strings.Repeat("1, ", 50) + "}\n"
	findings, err := lintGo("x.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, f := range findings {
		found[f.rule]++
	}
	for _, rule := range lintRules {
		if rule != "words-in-docs" && found[rule] == 0 {
			t.Errorf("%s: nothing was found", rule)
		}
	}
	for _, word := range []string{"as far as", "near", "floor(a)", "a mushroom"} {
		if found := lintText("words-in-docs", "x.md", word); len(found) > 0 {
			t.Errorf("%q: found %v", word, found)
		}
	}
}
