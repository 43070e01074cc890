package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/internal/config"
	"leat/internal/suggest"
	"leat/internal/terminal"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration and where each value comes from",
		Long: `Values of common options may come from the environment and from a configuration file. An option on the
command line wins over a variable, a variable over the file, a profile over the other lines of the file.

The variable of an option is LEAT_ and its name in capitals, with _ for -: LEAT_STAGE_DIR is --stage-dir.

The file is $LEAT_CONFIG, else leat/config below $XDG_CONFIG_HOME or ~/.config. Its keys are the names of options. Lines
above the first [NAME] hold for all runs, those below it for runs with --profile NAME or LEAT_PROFILE=NAME:

  memory = 8G

  [minio]
  endpoint = http://127.0.0.1:9000
  region = us-east-1

Secrets have no place in the file. Credentials come from the provider's own variables, files and services.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(configShowCommand(), configPathCommand())
	return c
}

func configPathCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "path",
		DisableFlagsInUseLine: true,
		Short:                 "Print the path of the configuration file",
		Long:                  `Path prints the path of the configuration file, whether it exists or not.`,
		Args:                  noArguments("leat config path"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, _ := config.Path(os.Getenv)
			if path == "" {
				return errors.New("there is no configuration file, as there is no home directory")
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), path)
			return stdoutError(err)
		},
	}
}

// shownConfig is what leat config show --json prints.
type shownConfig struct {
	File      string          `json:"file,omitempty"` // without a home directory there is none
	Exists    bool            `json:"exists"`
	Profile   string          `json:"profile,omitempty"`
	ProfileBy string          `json:"profile_by,omitempty"` // the option or variable that selects it
	Settings  []shownSetting  `json:"settings"`
	Variables []shownVariable `json:"variables"`
}

// shownSetting is the value of a setting.
type shownSetting struct {
	Name     string `json:"name"`            // of the option
	Variable string `json:"variable"`        // of the environment
	Value    string `json:"value"`           // empty: leat chooses
	Source   string `json:"source"`          // option, environment, file or default
	Where    string `json:"where,omitempty"` // an option, a variable or FILE:LINE
}

// shownVariable is a variable that is set and has no option.
type shownVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func configShowCommand() *cobra.Command {
	asJSON, profile := false, ""
	c := &cobra.Command{
		Use:                   "show [options]",
		DisableFlagsInUseLine: true,
		Short:                 "Print each value and where it comes from",
		Long: `Show prints the value of each setting and its source: an option, a variable, a line of the configuration file,
or the default (- where leat chooses one itself). It takes the options of leat apply that have settings.`,
		Example: `  leat config show
  leat config show --profile minio --memory 4G`,
		Args: noArguments("leat config show"),
	}
	fl := c.Flags()
	fl.SortFlags = false
	fl.BoolVar(&asJSON, "json", false, "one JSON object")
	fl.StringVar(&profile, profileOption, "", "`NAME`: profile of the configuration file")
	from := applyCommand().Flags()
	for i, s := range settings {
		fl.AddFlag(from.Lookup(s.name))
		if i == 0 {
			group(fl, s.name, "Settings")
		} else {
			delete(fl.Lookup(s.name).Annotations, flagGroup)
		}
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := readConfiguration(profile, os.Getenv)
		if err != nil {
			return err
		}
		doc, err := cfg.shown(cmd)
		if err != nil {
			return err
		}
		for _, name := range unknownVariables(os.Environ()) {
			printLine(cmd.ErrOrStderr(), warningPrefix, name)
		}
		if asJSON {
			return stdoutError(writeJSON(cmd.OutOrStdout(), doc))
		}
		return stdoutError(doc.print(cmd.OutOrStdout()))
	}
	return c
}

// shown returns what leat config show prints. The error joins all wrong values.
func (c *configuration) shown(cmd *cobra.Command) (*shownConfig, error) {
	doc := &shownConfig{File: c.path, Exists: c.file != nil, Profile: c.profile, ProfileBy: c.by,
		Variables: []shownVariable{}}
	var errs []error
	for i := range settings {
		s := &settings[i]
		one := shownSetting{Name: s.name, Variable: variable(s.name)}
		f := cmd.Flags().Lookup(s.name)
		if f.Changed {
			one.Value, one.Source, one.Where = givenText(f), fromOption, "--"+s.name
			if s.check != nil {
				if err := s.check(one.Value); err != nil {
					errs = append(errs, usagef("--%s: %w", s.name, err))
				}
			}
		} else {
			var err error
			one.Value, one.Source, one.Where, err = c.lookup(s)
			errs = append(errs, err)
			if one.Source == fromDefault && f.DefValue != "0" && f.DefValue != "[]" {
				one.Value = f.DefValue
			}
		}
		one.Value = redact(one.Value)
		doc.Settings = append(doc.Settings, one)
	}
	for _, name := range plainVariables {
		if value := c.getenv(name); value != "" {
			doc.Variables = append(doc.Variables, shownVariable{name, value})
		}
	}
	return doc, errors.Join(errs...)
}

// givenText returns the value of an option as it was given.
func givenText(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), "; ")
	}
	return f.Value.String()
}

// print writes a table for people.
func (d *shownConfig) print(out io.Writer) error {
	file, profile := terminal.Name(d.File), "-"
	switch {
	case d.File == "":
		file = "-"
	case !d.Exists:
		file += " (does not exist)"
	}
	if d.Profile != "" {
		profile = d.Profile + " (" + d.ProfileBy + ")"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "file\t%s\nprofile\t%s\n\n", file, profile)
	for _, s := range d.Settings {
		where := s.Where
		if where == "" {
			where = s.Source
		}
		value := s.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, terminal.Text(value), terminal.Text(where))
	}
	for _, v := range d.Variables {
		fmt.Fprintf(w, "%s\t%s\tenvironment\n", v.Name, terminal.Text(v.Value))
	}
	return w.Flush()
}

// plainVariables are variables of leat that have no option and hold no secret.
var plainVariables = []string{"LEAT_CACHE_DIR", "LEAT_RUNTIME_DIR", "LEAT_TEMP_FOLDER", "LEAT_GDAL_LIBRARY", "LEAT_JOB"}

// unknownVariables returns a warning for each variable LEAT_... that leat does not read.
func unknownVariables(environ []string) []string {
	known := append([]string{"LEAT_CONFIG", "LEAT_PROFILE", "LEAT_SERVE_TOKEN"}, plainVariables...)
	for _, s := range settings {
		known = append(known, variable(s.name))
	}
	var warnings []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "LEAT_") || slices.Contains(known, name) || name == "LEAT_WORKER" ||
			strings.HasPrefix(name, "LEAT_WORKER_") {
			continue
		}
		text := terminal.Text(name) + " is set, and leat does not read it"
		if meant := suggest.Closest(name, known); meant != "" {
			text += "; did you mean " + meant + "?"
		}
		warnings = append(warnings, text)
	}
	slices.Sort(warnings)
	return warnings
}
