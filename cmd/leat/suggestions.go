package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/internal/expr"
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
	if hint := cmp.Or(otherFunctions[e.Unknown], meant(e.Unknown, e.Known)); hint != "" {
		return hint
	}
	return "leat help expressions lists the functions"
}

// unknownNameHint is the hint about a name in an expression that no input has.
func unknownNameHint(e *expr.TypeError) string {
	if m := otbBand.FindStringSubmatch(e.Unknown); m != nil && !slices.Contains(e.Known, e.Unknown) {
		return fmt.Sprintf("write NAME[%s] for band %[1]s of an input", m[1])
	}
	return cmp.Or(otherConstants[strings.ToLower(e.Unknown)], meant(e.Unknown, e.Known))
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

// unknownCommand is the error for an argument that is not a command of c.
func unknownCommand(c *cobra.Command, word string) error {
	commands, topics := commandNames(c)
	of := ""
	if c.HasParent() {
		of = " of " + c.Name()
	}
	err := fmt.Errorf("there is no command %q%s; there are %s", word, of, andList(commands))
	for _, other := range otherCommands[word] {
		if slices.Contains(commands, other) {
			return usageError{hintedError{err, fmt.Sprintf("did you mean %s?", other)}}
		}
	}
	return usageError{didYouMean(err, word, append(commands, topics...))}
}

// helpOfUnknown returns the error for --help of a command that does not exist. Without it, cobra
// shows the help of the command above, as if all were well.
func helpOfUnknown(root *cobra.Command, args []string) error {
	c, left, err := root.Find(args)
	if err != nil || !c.HasAvailableSubCommands() || alone[c.Name()] != nil {
		return nil // such as leat apply, which has arguments of its own
	}
	word, help := "", false
	for _, arg := range left {
		switch {
		case arg == "--":
			return nil
		case arg == "-h" || arg == "--help":
			help = true
		case word == "" && !strings.HasPrefix(arg, "-"):
			word = arg
		}
	}
	if !help || word == "" || word == "help" || strings.HasPrefix(word, "__") { // cobra adds those when it runs
		return nil
	}
	return unknownCommand(c, word)
}

// unknownTopic is the error for an argument of leat help that is not a command or topic of c.
func unknownTopic(c *cobra.Command, word string) error {
	commands, topics := commandNames(c)
	if len(commands) == 0 {
		return usagef("%s has no command %q", c.CommandPath(), word)
	}
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
func unknownOption(c *cobra.Command, e *pflag.NotExistError, args []string) error {
	name, typed := e.GetSpecifiedName(), "--"+e.GetSpecifiedName()
	if short := e.GetSpecifiedShortnames(); short != "" {
		name, typed = short, "-"+short
	}
	err := fmt.Errorf("there is no option %s", typed)
	if c.Name() == "apply" {
		if hint := otherToolsHint(c.Flags(), name, args); hint != "" {
			return hintedError{err, hint}
		}
	}
	if name == "version" || len(args) == 1 && (typed == "-v" || typed == "-V") {
		return hintedError{err, "leat --version prints the version"}
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
		if hint := meant(typed, known); hint != "" || c.Name() != "apply" {
			return hintedError{err, hint}
		}
		return hintedError{err, otherTools[suggest.Closest(name, slices.Sorted(maps.Keys(otherTools)))]}
	}
	return err
}

// otherToolsHint returns what leat has instead of an option of another tool, and instead of further
// ones among the arguments; "" if the option is none.
func otherToolsHint(fl *pflag.FlagSet, name string, args []string) string {
	if _, ok := otherTools[name]; !ok {
		return ""
	}
	names := []string{name}
	for _, arg := range args {
		other, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		_, ok := otherTools[other]
		known := fl.ShorthandLookup(other[:min(1, len(other))]) != nil
		if strings.HasPrefix(arg, "--") {
			known = fl.Lookup(other) != nil
		}
		if ok && strings.HasPrefix(arg, "-") && !known && !slices.Contains(names, other) {
			names = append(names, other)
		}
	}
	if len(names) == 1 {
		return otherTools[name]
	}
	var hints []string
	for _, n := range names {
		dashes := "-"
		if slices.ContainsFunc(args, func(arg string) bool { return arg == "--"+n || strings.HasPrefix(arg, "--"+n+"=") }) {
			dashes = "--"
		}
		hints = append(hints, dashes+n+": "+otherTools[n])
	}
	return strings.Join(hints, "; ")
}
