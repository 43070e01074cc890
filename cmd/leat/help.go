package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/internal/expr"
)

// commandGroups are the groups of commands in leat help, and the commands of each.
var commandGroups = []struct {
	title    string
	commands []string
}{
	{"Rasters", []string{"apply", "zonal", "info", "demo"}},
	{"Data loaders", []string{"stage", "cache"}},
	{"Jobs", []string{"jobs", "worker"}},
}

// addTopics adds the topics of leat help, with options of leat apply. A topic is a command without
// a function.
func addTopics(root *cobra.Command, options *pflag.FlagSet) {
	for _, topic := range []struct{ name, short, text, group string }{
		{"expressions", "What expressions may contain", expressionsTopic(), ""},
		{"grid", "Which pixels outputs have, and how inputs are warped onto them", gridTopic, "Grid"},
		{"outputs", "Types, nodata, compression and formats of outputs", outputsTopic, "Outputs"},
		{"workers", "Computing in other processes and on other machines", workersTopic, "Workers in other processes"},
		{"environment", "The environment variables that leat reads", environmentTopic(), ""},
	} {
		text := topic.text
		if topic.group != "" {
			text += "\nOptions of leat apply:\n" + strings.TrimRight(groupText(options, topic.group), "\n")
		}
		c := &cobra.Command{Use: topic.name, Short: topic.short, Long: text}
		c.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), c.Long) })
		root.AddCommand(c)
	}
}

// groupText returns the options of a group.
func groupText(fl *pflag.FlagSet, heading string) string {
	var b strings.Builder
	in := false
	fl.VisitAll(func(f *pflag.Flag) {
		if g := f.Annotations[flagGroup]; len(g) > 0 {
			in = g[0] == heading
		}
		if in && !f.Hidden {
			optionText(&b, f)
		}
	})
	return b.String()
}

// helpCommand returns leat help.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND|TOPIC]",
		DisableFlagsInUseLine: true,
		Short:                 "Describe a command or a topic",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, sub := range at.Commands() {
				if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at := c.Root()
			for _, word := range args {
				i := slices.IndexFunc(at.Commands(), func(sub *cobra.Command) bool {
					return sub.Name() == word || sub.HasAlias(word)
				})
				if i < 0 {
					return unknownTopic(at, word)
				}
				at = at.Commands()[i]
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// commonOptions are the options of leat apply that -h shows, with the headings before them.
var commonOptions = []struct{ heading, option, text string }{
	{"Inputs", "input", "an input or its URL; again for a list of files; a pattern such as t='2020*.tif'"},
	{"", "vector", "an input made of vectors, burned onto the grid"},
	{"Outputs", "output", "an output, or the URL of an object to write"},
	{"", "expression", "how an output is computed"},
	{"", "type", "element type, such as uint8 or float32"},
	{"", "nodata", "nodata value, a number, nan or none"},
	{"", "cog", "a cloud-optimized GeoTIFF"},
	{"", "co", "creation option, such as COMPRESS=ZSTD"},
	{"", "format", "another format than GeoTIFF, through GDAL"},
	{"Grid", "reference", "the input or raster onto whose grid others are warped"},
	{"", "grid", "that grid by numbers: CRS,MINX,MINY,MAXX,MAXY,SIZE"},
	{"", "resample", "how inputs are warped: near (default), bilinear, cubic, average, mode, ..."},
	{"", "bbox", "cover only pixels in a box, in the grid's coordinates"},
	{"Running", "jobs", "workers (default: one per core)"},
	{"", "memory", "ceiling for the memory (default: a quarter of the machine's)"},
	{"", "on", "compute in other processes: subprocess, slurm, pbs or awsbatch"},
	{"", "resume", "go on from what the same command left when it failed"},
	{"Seeing it", "plan", "show what would be done, and do nothing"},
	{"", "preview", "write a quicklook of the first output"},
	{"", "quiet", "show only warnings and errors"},
}

// shortHelp prints the options of leat apply that people use.
func shortHelp(c *cobra.Command) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n\nExamples:\n", c.Short+", on all cores.", c.UseLine())
	for i, line := range strings.Split(c.Example, "\n") {
		if i < 5 {
			fmt.Fprintln(&b, line)
		}
	}
	for _, o := range commonOptions {
		f := *c.Flags().Lookup(o.option)
		value, _ := pflag.UnquoteUsage(&f)
		if f.Usage = o.text; f.Value.Type() != "bool" {
			f.Usage = "`" + value + "`: " + o.text
		}
		if o.heading != "" {
			fmt.Fprintf(&b, "\n%s:\n", o.heading)
		}
		optionText(&b, &f)
	}
	fmt.Fprintf(&b, "\n%s --help shows all options. leat help grid, outputs, workers, environment or expressions\nexplains a topic.\n",
		c.CommandPath())
	fmt.Fprint(c.OutOrStdout(), b.String())
}

// briefHelp prints what a command without options gets, before the error that says what is missing.
func briefHelp(w io.Writer, c *cobra.Command) {
	example, _, _ := strings.Cut(c.Example, "\n")
	more := c.CommandPath() + " --help shows all options."
	if hasShortHelp(c) {
		more = c.CommandPath() + " -h shows the options that people use, --help all of them."
	}
	fmt.Fprintf(w, "%s.\n\nUsage:\n  %s\n\nExample:\n%s\n\n%s\n\n", c.Short, c.UseLine(), example, more)
}

// hasShortHelp reports whether -h and --help of a command differ.
func hasShortHelp(c *cobra.Command) bool { return c.Name() == "apply" }

// setShortHelp lets -h, unlike --help, show the options that people use.
func setShortHelp(c *cobra.Command) {
	all := c.HelpFunc()
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		if slices.Contains(args, "-h") && !slices.Contains(args, "--help") && hasShortHelp(c) {
			shortHelp(c)
			return
		}
		all(c, args)
	})
}

// expressionsTopic is the text of leat help expressions: the syntax, the functions as expr lists
// them, and examples.
func expressionsTopic() string {
	var b strings.Builder
	b.WriteString(syntaxText)
	group := ""
	for _, f := range expr.Functions() {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		optionLine(&b, "  "+f.Usage, f.Meaning)
	}
	b.WriteString("\n" + examplesText)
	return b.String()
}

const syntaxText = `An expression computes a pixel of an output from the pixels of the inputs at the same place.

  a              all bands of the input a, or its only one
  a[2]           the second band; of a list of files, the second file
  [a, b[1]]      an output of several bands
  12, 0.5        numbers; nodata is the invalid value
  + - * / % **   arithmetic; / gives a float
  & | ~ << >>    bits of integers
  < <= > >=      comparisons, also == and !=; and, or, not join them
  x, y           coordinates of the pixel's centre; col, row: its column and row, from 0
  lon, lat       longitude and latitude of the pixel's centre in EPSG:4326; pixel_area: its area in m2
  a in [3, 8]    whether a is one of the numbers; also not in
  c ? a : b      a where c holds, else b
  v = a * 2; v   a name for an intermediate result
  # ...          a comment, to the end of the line

Pixels that are nodata, NaN, masked or outside a file are invalid, and so is what is computed from them, unless the
expression says otherwise. Integers never wrap: an expression whose values could exceed 2^53 is an error.
`

const examplesText = `Examples:
  -e '(nir - red) / (nir + red)'
  -e 'bit(qa, 3) ? nodata : red'
  -e 'median(where(scl in [4, 5, 6], t, nodata))'
  -e @ndvi.txt                             reads the expression from a file; @- from standard input

The guide docs/guide/expressions.md has the rules of types and of nodata.`

const gridTopic = `Inputs must lie on one grid: the same CRS, the same size of pixels, pixels on pixels. Then nothing is resampled, and
outputs cover the intersection of the inputs, or what --footprint, --bbox, --extent and --srcwin say.

With --reference NAME (an input, or another raster) or --grid, inputs on other grids are warped onto that grid
as they are read, to the pixel what gdalwarp -et 0 gives. That needs GDAL. --resample says how.

  leat apply -i red=B4.tif -i pan=B8.tif -o x=x.tif -e 'pan / red' --reference red --resample pan=average
  leat apply -i a=a.tif -o x=x.tif -e a --grid EPSG:32631,500000,5190000,509990,5200000,10
`

const outputsTopic = `Outputs are tiled GeoTIFFs with statistics, histogram and overviews, in the order of a cloud-optimized one. They get
their name only when they are whole. --format writes another format through GDAL; leat info --formats lists them.

Values marked [NAME=] hold for all outputs, or for the one that is named; such options can be repeated. Types are also
understood as GDAL and C spell them: Byte, Float32, float, double.

  leat apply -i s=scene.tif -o m=mean.tif -e '(s[1] + s[2]) / 2' --type uint16 --co COMPRESS=ZSTD
  leat apply -i a=a.tif -o x=x.tif -o y=y.tif -e 'x=a > 3' -e 'y=a / 2' --nodata y=-9999
`

const workersTopic = `Blocks are computed by workers: goroutines of the process (-j), or other processes (--on): subprocesses of this machine, or
jobs of Slurm, PBS and AWS Batch. The outputs are the same bytes. A worker that is lost costs time only.

  leat apply -i a=a.tif -o x=x.tif -e 'sqrt(a)' --on slurm --workers 16 --batch-options '-p short -t 1:00:00'
`
