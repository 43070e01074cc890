package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/expr"
	"leat/internal/suggest"
)

// didYouMean adds a hint to an error about a word that is none of known, if one of them is similar.
func didYouMean(err error, word string, known []string) error {
	if hint := meant(word, known); hint != "" {
		return hintedError{err, hint}
	}
	return err
}

// meant returns a hint about a word that is none of known, "" if none of them is similar.
func meant(word string, known []string) string {
	name := suggest.Closest(word, known)
	// A name of one letter is close to all others.
	if name != "" && suggest.Distance(strings.ToLower(word), strings.ToLower(name)) < max(len(word), len(name)) {
		return fmt.Sprintf("did you mean %s?", name)
	}
	return ""
}

// unknownFunctionHint is the hint about a function that there is none of.
func unknownFunctionHint(e *expr.SyntaxError) string {
	if e.Unknown == "" {
		return ""
	}
	if hint := meant(e.Unknown, e.Known); hint != "" {
		return hint
	}
	return "leat help expressions lists the functions"
}

// unknownWord is the error for the value of an option that takes only some words.
func unknownWord(value string, words []string) error {
	return didYouMean(fmt.Errorf("use %s", orList(words)), value, words)
}

// unknownName is the error for a name that no input or output has.
func unknownName(kind, name string, known []string) error {
	return didYouMean(fmt.Errorf("there is no %s %q; there is %s", kind, name, strings.Join(known, ", ")), name, known)
}

// orList joins words: "a, b or c".
func orList(words []string) string { return wordList(words, " or ") }

// andList joins words: "a, b and c".
func andList(words []string) string { return wordList(words, " and ") }

// wordList joins words by commas, the last one by a word.
func wordList(words []string, by string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + by + words[last]
}

// unknownCommand is the error for an argument that is no command of c.
func unknownCommand(c *cobra.Command, word string) error {
	commands, topics := commandNames(c)
	of := ""
	if c.HasParent() {
		of = " of " + c.Name()
	}
	return usageError{didYouMean(fmt.Errorf("there is no command %q%s; there are %s", word, of, andList(commands)),
		word, append(commands, topics...))}
}

// unknownTopic is the error for an argument of leat help that is no command or topic of c.
func unknownTopic(c *cobra.Command, word string) error {
	commands, topics := commandNames(c)
	if len(topics) == 0 {
		return unknownCommand(c, word)
	}
	return usageError{didYouMean(fmt.Errorf("there is no command or topic %q; there are the commands %s, and the topics %s",
		word, andList(commands), andList(topics)), word, append(commands, topics...))}
}

// commandNames returns the names of the commands and topics below c.
func commandNames(c *cobra.Command) (commands, topics []string) {
	for _, sub := range c.Commands() {
		if sub.IsAdditionalHelpTopicCommand() {
			topics = append(topics, sub.Name())
		}
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			commands = append(commands, sub.Name())
		}
	}
	return commands, topics
}

// unknownOption is the error for an option that the command does not have.
func unknownOption(c *cobra.Command, e *pflag.NotExistError) error {
	name, typed := e.GetSpecifiedName(), "--"+e.GetSpecifiedName()
	if short := e.GetSpecifiedShortnames(); short != "" {
		name, typed = short, "-"+short
	}
	err := fmt.Errorf("there is no option %s", typed)
	if c.Name() == "apply" {
		if hint, ok := otherTools[name]; ok {
			return hintedError{err, hint}
		}
	}
	if !c.HasParent() {
		for _, sub := range c.Commands() {
			if f := sub.Flags(); f.Lookup(name) != nil || len(name) == 1 && f.ShorthandLookup(name) != nil {
				return hintedError{err, fmt.Sprintf("write it behind the command, such as leat %s %s", sub.Name(), typed)}
			}
		}
	}
	if strings.HasPrefix(typed, "--") {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, "--"+f.Name)
			}
		})
		slices.Sort(known)
		return didYouMean(err, typed, known)
	}
	return err
}

// otherTools are options of gdal_calc, gdalwarp, gdal_translate and rio calc, and what leat apply
// has instead. An option with one dash has the letters behind it.
var otherTools = func() map[string]string {
	m := map[string]string{
		"calc":    "use -e 'EXPRESSION'",
		"outfile": "use -o NAME=FILE.tif", "dst_nodata": "use --nodata", "NoDataValue": "use --nodata",
		"hideNoData": "use --no-mask", "allBands": "an input without [N] stands for all its bands: use -e a",
		"debug": "use --verbose", "overwrite": "outputs are replaced unless --no-clobber is given",
		"projectionCheck": "inputs of different CRSs are an error unless --reference or --grid is given",
		"creation-option": "use --co", "output-type": "use --type", "datatype": "use --type", "dtype": "use --type",
		"output-format": "use --format", "driver": "use --format", "name": "use -i NAME=FILE",
		"masked": "pixels that are nodata are invalid in any case", "mem-limit": "use --memory SIZE",
		"threads": "use -j", "num-threads": "use -j", "chunks": "use --window for the size of blocks",
		"dst-crs": "use --grid or --reference", "resampling": "use --resample", "bounds": "use --bbox",
		"compress": "use --co COMPRESS=NAME", "progress": "it is shown unless --quiet is given",

		"co": "use --co", "dstnodata": "use --nodata", "a_nodata": "use --nodata", "srcnodata": "use --input-nodata",
		"r": "use --resample", "te": "use --bbox or --grid", "tr": "use --grid", "t_srs": "use --grid or --reference",
		"tap": "use --grid", "ts": "use --grid", "projwin": "use --bbox", "srcwin": "use --srcwin", "wm": "use --memory SIZE",
		"multi": "leat computes on all cores in any case", "b": "use --bands NAME=N", "scale": "use --scale or an expression",
		"ovr": "use --use-overviews", "cutline": "use -v NAME=FILE",
	}
	for c := 'A'; c <= 'Z'; c++ {
		use := fmt.Sprintf("use -i %c=FILE", c)
		m[string(c)] = use
		m[string(c)+"_band"] = fmt.Sprintf("use %c[N] in the expression, or --bands %c=N", c, c)
	}
	return m
}()

// swallowed are options of GDAL's programs with one dash that are read as -o with a value.
var swallowed = map[string]string{"t": "-ot: use --type", "f": "-of: use --format", "verwrite": "-overwrite: outputs are replaced unless --no-clobber is given",
	"vr": "-ovr: use --use-overviews", "utsize": "-outsize: use --grid"}
