package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"leat/internal/config"
	"leat/internal/expr"
	"leat/internal/gdal"
	"leat/namespace"
)

// completer completes the value of an option. typed is its beginning, as the user typed it.
type completer func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeValues registers the completers of those options that a command has.
func completeValues(c *cobra.Command, completers map[string]completer) {
	for name, f := range completers {
		if c.Flags().Lookup(name) == nil {
			continue
		}
		if err := c.RegisterFlagCompletionFunc(name, cobra.CompletionFunc(f)); err != nil {
			panic(err)
		}
	}
}

// words completes a value that is one of a list.
func words(list ...string) completer {
	return named(func() []string { return nil }, func() []string { return list })
}

// named completes [NAME=]VALUE. With names alone, VALUE is free.
func named(names func() []string, values func() []string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list []string
		if name, _, ok := strings.Cut(typed, "="); ok && slices.Contains(names(), name) {
			for _, v := range values() {
				list = append(list, name+"="+v)
			}
		} else {
			list = slices.Clone(values())
			for _, n := range names() {
				list = append(list, n+"=")
			}
		}
		return offered(list, typed)
	}
}

// offered returns those of a list that begin with what is typed. After a character such as = or /
// the word goes on.
func offered(list []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	list = slices.DeleteFunc(list, func(s string) bool { return !strings.HasPrefix(s, typed) })
	if slices.ContainsFunc(list, func(s string) bool { return strings.ContainsRune("=/(,:", rune(s[len(s)-1])) }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return list, directive
}

// fileNames completes a name of a list, or a file.
func fileNames(names func() []string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offered(append(filesLike(typed), names()...), typed)
	}
}

// namedFiles completes NAME=FILE, whose name is new.
func namedFiles(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	name, path, ok := strings.Cut(typed, "=")
	if !ok {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var list []string
	for _, file := range filesLike(path) {
		list = append(list, name+"="+file)
	}
	return offered(list, typed)
}

// filesLike returns the files and directories whose path begins with a text. Shells do not complete
// a path after NAME=.
func filesLike(path string) []string {
	dir, start := filepath.Split(path)
	from := dir
	if from == "" {
		from = "."
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, start) || strings.HasPrefix(name, ".") && !strings.HasPrefix(start, ".") {
			continue
		}
		if st, err := os.Stat(filepath.Join(from, name)); err == nil && st.IsDir() {
			name += "/"
		}
		list = append(list, dir+name)
	}
	return list
}

// nameParts returns the names of options of the form NAME=VALUE, each once.
func nameParts(texts []string) []string {
	var names []string
	for _, s := range texts {
		if name, _, ok := strings.Cut(s, "="); ok && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// completeExpression completes the name that an expression ends with: that of an input, a constant
// or a function.
func completeExpression(names func() []string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if path, ok := strings.CutPrefix(typed, "@"); ok {
			var list []string
			for _, file := range filesLike(path) {
				list = append(list, "@"+file)
			}
			return offered(list, typed)
		}
		before := strings.TrimRightFunc(typed, isNameRune)
		var list []string
		for _, n := range slices.Concat(names(), expr.Constants()) {
			list = append(list, before+n)
		}
		for _, f := range expr.Functions() {
			list = append(list, before+f.Name+"(")
		}
		return offered(list, typed)
	}
}

func isNameRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// formatNames returns GDAL's names of the formats of rasters that write selects; without GDAL that
// of leat's own format.
func formatNames(write bool) []string {
	all, err := gdal.Drivers()
	if err != nil {
		return []string{"GTiff"}
	}
	var names []string
	for _, d := range all {
		if d.Raster && (d.Write && d.Name != "VRT" || !write) {
			names = append(names, d.Name)
		}
	}
	return names
}

// completeProfile completes the profiles of the configuration file.
func completeProfile(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	path, _ := config.Path(os.Getenv)
	file, err := config.Read(path)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return offered(file.Profiles(), typed)
}

// completeDirectory completes directories.
func completeDirectory(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeCreation completes [NAME=]KEY=VALUE of leat's own GeoTIFF.
func completeCreation(names func() []string) completer {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		of, option := "", typed
		if name, rest, ok := strings.Cut(typed, "="); ok && slices.Contains(names(), name) {
			of, option = name+"=", rest
		}
		var list []string
		if key, _, ok := strings.Cut(option, "="); ok {
			for _, v := range creationWords[key] {
				list = append(list, of+key+"="+v)
			}
			return offered(list, typed)
		}
		for _, key := range creationKeys {
			list = append(list, of+key+"=")
		}
		if of == "" {
			for _, n := range names() {
				list = append(list, n+"=")
			}
		}
		return offered(list, typed)
	}
}

// creationWords are the values of creation options that are words.
var creationWords = map[string][]string{"COMPRESS": compressions, "PREDICTOR": {"1", "2", "3"}, "INTERLEAVE": {"BAND", "PIXEL"},
	"BIGTIFF": {"YES", "IF_NEEDED"}}

// completeCommon registers the completers that do not depend on the rest of the command line, for a
// command and its subcommands.
func completeCommon(c *cobra.Command) {
	for name, f := range map[string]completer{"evict": words(evictions...), "durability": words(durabilities...),
		profileOption: completeProfile, "dir": completeDirectory} {
		if c.Flags().Lookup(name) != nil {
			completeValues(c, map[string]completer{name: f})
		}
	}
	switch c.CommandPath() {
	case "leat info":
		c.ValidArgsFunction = cobra.CompletionFunc(completeFormat)
	case "leat jobs show":
		c.ValidArgsFunction = cobra.CompletionFunc(completeJob)
	}
	for _, sub := range c.Commands() {
		completeCommon(sub)
	}
}

// completeFormat completes a format of leat info --formats.
func completeFormat(c *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if formats, err := c.Flags().GetBool("formats"); err != nil || !formats {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return offered(formatNames(false), typed)
}

// completeJob completes the number of a namespace of this machine.
func completeJob(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	jobs, _ := namespace.List()
	for _, j := range jobs {
		names = append(names, fmt.Sprintf("%d\t%s", j.Number, j.Key))
	}
	return offered(names, typed)
}

// completeJobOptions completes the options of leat apply and leat zonal.
func completeJobOptions(c *cobra.Command) {
	given := func(option string) func() []string {
		return func() []string {
			texts, _ := c.Flags().GetStringArray(option)
			return nameParts(texts)
		}
	}
	inputs, vectors, outputs := given("input"), given("vector"), given("output")
	both := func() []string { return append(inputs(), vectors()...) }
	values := func(list ...string) func() []string { return func() []string { return list } }
	completers := map[string]completer{
		"input": namedFiles, "vector": namedFiles, "output": namedFiles, "stac": fileNames(func() []string { return nil }),
		"expression": completeExpression(both),
		"type":       named(outputs, values(outputTypes...)), "vector-type": named(vectors, values(vectorTypes...)),
		"format": named(outputs, func() []string { return formatNames(true) }), "co": completeCreation(outputs),
		"nodata": named(outputs, values("nan", "none")), "color-interp": named(outputs, colorNames),
		"overview-method": words(overviewMethods...), "nodata-collision": words(collisions...), "overviews": words("none"),
		"footprint": words(footprints...), "resample": named(inputs, gdal.Methods), "on": words(kinds...),
		"reference": fileNames(inputs), "use-overviews": named(values(), inputs), "all-touched": named(values(), vectors),
		"input-nodata": named(both, values("none", "nan")),
		"tmpdir":       completeDirectory, "shared-temp": completeDirectory, "stage-dir": completeDirectory,
		"times": named(inputs, values("auto")), "input-scale": named(inputs, values()), "zones": fileNames(values()),
		"weights": words(weightWords...), "outside": words(outsideWords...),
	}
	for _, name := range []string{"scale", "offset", "names"} {
		completers[name] = named(outputs, values())
	}
	for _, name := range []string{"layer", "burn", "where", "sql", "null", "open-option"} {
		completers[name] = named(vectors, values())
	}
	completers["bands"] = named(inputs, values())
	completers["color-table"] = fileNames(func() []string { return nil })
	completeValues(c, completers)
}
