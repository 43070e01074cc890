package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"leat/stage"
)

var updateReference = flag.Bool("update-reference", false,
	"write the generated pages and the schema below docs instead of comparing with them")

// jsonDocs are the values that commands print with --json.
var jsonDocs = []struct {
	name, command string
	value         any
	constant      [2]string // a property and its only value
}{
	{"raster", "leat info", infoDoc{}, [2]string{}},
	{"container", "leat info", infoContainer{}, [2]string{}},
	{"vectors", "leat info", vectorDoc{}, [2]string{}},
	{"failure", "leat info", infoFailure{}, [2]string{}},
	{"format", "leat info --formats", formatDoc{}, [2]string{}},
	{"plan", "leat apply --plan", planDoc{}, [2]string{}},
	{"started", "leat apply", startedEvent{}, [2]string{"event", "started"}},
	{"progress", "leat apply", progressEvent{}, [2]string{"event", "progress"}},
	{"done", "leat apply", doneEvent{}, [2]string{"event", "done"}},
	{"error", "leat apply", errorEvent{}, [2]string{"event", "error"}},
	{"unfinished", "leat apply --unfinished", unfinishedEvent{}, [2]string{"event", "unfinished"}},
	{"discarded", "leat apply discard", discardedEvent{}, [2]string{"event", "discarded"}},
	{"stage_object", "leat stage ls", objectDoc{}, [2]string{}},
	{"stage_usage", "leat stage stat", stage.Usage{}, [2]string{}},
	{"stage_got", "leat stage get", gotDoc{}, [2]string{}},
	{"stage_failure", "leat stage prefetch, leat stage pin", stageFailure{}, [2]string{}},
	{"stage_filled", "leat stage prefetch, leat stage pin", fillDoc{}, [2]string{}},
	{"stage_collected", "leat stage gc", collectDoc{}, [2]string{}},
	{"cache", "leat cache stat, leat cache create, leat cache ls DIR", cacheDoc{}, [2]string{}},
	{"cache_check", "leat cache check", checkDoc{}, [2]string{}},
	{"cache_entry", "leat cache ls", entryDoc{}, [2]string{}},
	{"cache_data", "leat cache get", entryDataDoc{}, [2]string{}},
	{"cache_put", "leat cache put", putDoc{}, [2]string{}},
	{"cache_written", "leat cache export, leat cache import, leat cache preserve, leat cache upgrade", writtenDoc{}, [2]string{}},
	{"removed", "leat cache gc, leat jobs gc", removedDoc{}, [2]string{"event", "removed"}},
	{"leftover", "leat cache gc --plan, leat jobs gc --plan", leftoverDoc{}, [2]string{"event", "leftover"}},
	{"namespace", "leat jobs ls, leat jobs show", jobDoc{}, [2]string{"kind", "namespace"}},
	{"array", "leat jobs ls", arrayDoc{}, [2]string{"kind", "array"}},
	{"configuration", "leat config show", shownConfig{}, [2]string{}},
	{"version", "leat version", versionDoc{}, [2]string{}},
}

// jsonProperty is a field of an object in --json.
type jsonProperty struct {
	name, text string
	required   bool
	schema     map[string]any
}

// jsonSchema collects the objects of a schema, by name, with their properties in order.
type jsonSchema struct {
	comments   map[string]string // of TYPE and TYPE.FIELD, with the package's path
	objects    map[string][]jsonProperty
	texts      map[string]string // of objects
	references []string          // objects in the order in which they are met
}

// numberReference is the definition of a number that may be NaN or infinite.
const numberReference = "#/$defs/number"

// newJSONSchema derives the schema from the Go types and their comments.
func newJSONSchema(t *testing.T) *jsonSchema {
	t.Helper()
	s := &jsonSchema{comments: map[string]string{}, objects: map[string][]jsonProperty{}, texts: map[string]string{}}
	for path, dir := range map[string]string{reflect.TypeFor[infoDoc]().PkgPath(): ".", "leat/namespace": "../../namespace", "leat/stage": "../../stage"} {
		s.readComments(t, path, dir)
	}
	for _, d := range jsonDocs {
		list := s.properties(reflect.TypeOf(d.value), true)
		for i := range list {
			if list[i].name == d.constant[0] {
				list[i].schema, list[i].text = map[string]any{"const": d.constant[1]}, ""
			}
		}
		s.objects[d.name], s.texts[d.name] = list, s.typeText(reflect.TypeOf(d.value))
	}
	return s
}

// readComments reads the comments of the structs of a package.
func (s *jsonSchema) readComments(t *testing.T, path, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			typ := g.Specs[0].(*ast.TypeSpec)
			s.comments[path+"."+typ.Name.Name] = strings.Join(strings.Fields(g.Doc.Text()), " ")
			fields, ok := typ.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, n := range f.Names {
					s.comments[path+"."+typ.Name.Name+"."+n.Name] = strings.TrimSpace(f.Comment.Text())
				}
				if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 {
					s.comments[path+"."+typ.Name.Name+"."+id.Name] = strings.TrimSpace(f.Comment.Text())
				}
			}
		}
	}
}

// typeText is the comment of a type without its first words.
func (s *jsonSchema) typeText(t reflect.Type) string {
	text := regexp.MustCompile(`^\w+ (is|are|describes|counts) `).ReplaceAllString(s.comments[t.PkgPath()+"."+t.Name()], "")
	text = strings.NewReplacer(", in --json", "", " in --json", "").Replace(text)
	if r := []rune(text); len(r) > 0 {
		r[0] = unicode.ToUpper(r[0])
		text = string(r)
	}
	return text
}

// properties returns the fields of a struct as encoding/json writes them.
func (s *jsonSchema) properties(t reflect.Type, required bool) []jsonProperty {
	var list []jsonProperty
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous && !tagged {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			list = append(list, s.properties(inner, required && f.Type.Kind() != reflect.Pointer)...)
			continue
		}
		if !tagged || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		optional := strings.Contains(options, "omitempty")
		schema := s.schemaOf(f.Type)
		if f.Type.Kind() == reflect.Pointer && !optional {
			schema = map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
		}
		list = append(list, jsonProperty{name, s.comments[t.PkgPath()+"."+t.Name()+"."+f.Name], required && !optional, schema})
	}
	return list
}

// schemaOf returns the schema of the values of a type.
func (s *jsonSchema) schemaOf(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time", "pattern": "Z$"}
	case reflect.TypeFor[jsonFloat](), reflect.TypeFor[pixelValue]():
		return map[string]any{"$ref": numberReference}
	case reflect.TypeFor[[]byte]():
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schemaOf(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Int32:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Interface: // the cells of an attribute table
		return map[string]any{"type": "array", "items": map[string]any{
			"anyOf": []any{map[string]any{"$ref": numberReference}, map[string]any{"type": "string"}}}}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.schemaOf(t.Elem())}
	case reflect.Array:
		return map[string]any{"type": "array", "items": s.schemaOf(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.schemaOf(t.Elem())}
	case reflect.Struct:
		name := objectName(t)
		if _, known := s.objects[name]; !known {
			s.objects[name] = nil
			s.references = append(s.references, name)
			s.objects[name], s.texts[name] = s.properties(t, true), s.typeText(t)
		}
		return map[string]any{"$ref": "#/$defs/" + name}
	}
	panic("no schema of " + t.String())
}

// objectName returns the name of a struct in the schema, such as plan_input for planInputDoc.
func objectName(t reflect.Type) string {
	name := strings.TrimSuffix(t.Name(), "Doc")
	name = strings.NewReplacer("CRS", "Crs", "GCPs", "Gcps", "GCP", "Gcp").Replace(name)
	name = strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
	for _, d := range jsonDocs {
		if d.name == name {
			return name + "_object"
		}
	}
	return name
}

// document returns the schema as draft 2020-12 has it.
func (s *jsonSchema) document() map[string]any {
	definitions := map[string]any{"number": map[string]any{
		"description": `A number; "nan", "inf" and "-inf" where JSON has none.`,
		"anyOf":       []any{map[string]any{"type": "number"}, map[string]any{"enum": []any{"nan", "inf", "-inf"}}}}}
	for name, list := range s.objects {
		properties, required := map[string]any{}, []any{}
		for _, p := range list {
			schema := map[string]any{}
			for k, v := range p.schema {
				schema[k] = v
			}
			if p.text != "" {
				schema["description"] = p.text
			}
			if properties[p.name] = schema; p.required {
				required = append(required, p.name)
			}
		}
		definitions[name] = map[string]any{"description": s.texts[name], "type": "object", "properties": properties,
			"required": required, "additionalProperties": false}
	}
	var roots []any
	for _, d := range jsonDocs {
		roots = append(roots, map[string]any{"$ref": "#/$defs/" + d.name})
	}
	return map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title": "What leat prints with --json", "anyOf": roots, "$defs": definitions}
}

// tables returns the objects as Markdown.
func (s *jsonSchema) tables() string {
	var b strings.Builder
	table := func(title, intro, name string) {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n| field | type | meaning |\n| --- | --- | --- |\n", title, intro)
		for _, p := range s.objects[name] {
			text := p.text
			if !p.required {
				text = strings.TrimSuffix("optional; "+text, "; ")
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.name, typeWords(p.schema), strings.ReplaceAll(text, "|", `\|`))
		}
	}
	b.WriteString("\n## What commands print\n")
	for _, d := range jsonDocs {
		table(d.name, s.texts[d.name]+" Printed by `"+strings.ReplaceAll(d.command, ", ", "`, `")+"`.", d.name)
	}
	b.WriteString("\n## Objects in these\n")
	for _, name := range s.references {
		table(name, s.texts[name], name)
	}
	return b.String()
}

// typeWords describes a schema in a word or two.
func typeWords(schema map[string]any) string {
	if list, ok := schema["anyOf"].([]any); ok {
		var words []string
		for _, one := range list {
			words = append(words, typeWords(one.(map[string]any)))
		}
		return strings.Join(words, " or ")
	}
	if constant, ok := schema["const"]; ok {
		return fmt.Sprintf("`%q`", constant)
	}
	if name, ok := strings.CutPrefix(fmt.Sprint(schema["$ref"]), "#/$defs/"); ok {
		if name == "number" {
			return "number"
		}
		return fmt.Sprintf("[%s](#%s)", name, name)
	}
	switch schema["type"] {
	case "array":
		items := typeWords(schema["items"].(map[string]any))
		if n, ok := schema["minItems"]; ok {
			return fmt.Sprintf("array of %d: %s", n, items)
		}
		return "array of " + items
	case "object":
		return "object of " + typeWords(schema["additionalProperties"].(map[string]any))
	case "string":
		if schema["format"] == "date-time" {
			return "time"
		}
	}
	return fmt.Sprint(schema["type"])
}

// checkGenerated compares a file below docs with what it is generated from, or writes it.
func checkGenerated(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", filepath.FromSlash(name))
	if *updateReference {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(text, string(got)); d != "" {
		t.Errorf("docs/%s is stale: make reference writes it\n%s", name, d)
	}
}

// generatedFrom is the line from which on a page is generated.
const generatedFrom = "<!-- generated by make reference from here on -->\n"

func TestJSONPagesFollowTypes(t *testing.T) {
	t.Parallel()
	s := newJSONSchema(t)
	text, err := json.MarshalIndent(s.document(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	checkGenerated(t, "format/json.schema.json", string(text)+"\n")
	page, err := os.ReadFile("../../docs/format/json.md")
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(page), generatedFrom)
	if !ok {
		t.Fatal("docs/format/json.md has no generated part")
	}
	checkGenerated(t, "format/json.md", head+generatedFrom+s.tables())
}

// TestJSONNamesHaveOneType checks that a name of a field means values of one type in all objects.
func TestJSONNamesHaveOneType(t *testing.T) {
	t.Parallel()
	s := newJSONSchema(t)
	seen := map[string]map[string][]string{}
	for object, list := range s.objects {
		for _, p := range list {
			for _, word := range simpleTypes(p.schema) {
				if seen[p.name] == nil {
					seen[p.name] = map[string][]string{}
				}
				seen[p.name][word] = append(seen[p.name][word], object)
			}
		}
	}
	for name, types := range seen {
		if len(types) > 1 {
			t.Errorf("%s has several types: %v", name, types)
		}
		unit := map[string]string{"_bytes": "number", "_seconds": "number", "_blocks": "number", "_pixels": "number"}
		for suffix, want := range unit {
			if strings.HasSuffix(name, suffix) && types[want] == nil {
				t.Errorf("%s is no %s: %v", name, want, types)
			}
		}
	}
}

// simpleTypes returns the types of a schema, integers and numbers being one, without null.
func simpleTypes(schema map[string]any) []string {
	switch {
	case schema["anyOf"] != nil:
		var words []string
		for _, one := range schema["anyOf"].([]any) {
			words = append(words, simpleTypes(one.(map[string]any))...)
		}
		return slices.Compact(words)
	case schema["const"] != nil:
		return []string{"string"}
	case schema["$ref"] == numberReference, schema["type"] == "integer", schema["type"] == "number":
		return []string{"number"}
	case schema["$ref"] != nil:
		return []string{"object"}
	case schema["type"] == "null":
		return nil
	case schema["type"] == "array":
		var words []string
		for _, word := range simpleTypes(schema["items"].(map[string]any)) {
			words = append(words, "array of "+word)
		}
		if len(words) > 1 { // cells of a table
			return []string{"array"}
		}
		return words
	case schema["format"] != nil:
		return []string{"time"}
	}
	return []string{fmt.Sprint(schema["type"])}
}
