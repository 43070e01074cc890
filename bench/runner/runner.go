// Package runner is the command line of the benchmark: its parts, the options that they share, and
// the roles in which a part starts this program again.
package runner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Part is one part of the benchmark, such as that of the cache.
type Part struct {
	Name    string
	Summary string
	// Runs is the default of -runs.
	Runs int
	// Sections are what -only selects from; a part without them has no such option.
	Sections []string
	// Flags defines options of this part alone; it may be nil.
	Flags func(fs *flag.FlagSet)
	// Run measures, and prints tables in Markdown to o.Out.
	Run func(ctx context.Context, o *Options) error
	// Roles are what processes do that the part starts by [Command].
	Roles map[string]func(ctx context.Context, args []string) error
}

// Options are those that all parts share.
type Options struct {
	Runs    int
	Only    *regexp.Regexp // matches everything if -only is not given
	OnlyAll bool           // -only is not given
	Data    string         // directory of inputs, "" for the default
	Leat    string         // program to measure, "" to build one
	Dir     string         // where files are made, "" for where temporary files are
	Profile string         // file of a processor profile, "" for none
	Quick   bool
	Verbose bool
	Command string // the command line as reports cite it, without paths
	Out     io.Writer
}

// Say prints progress to standard error.
func (o *Options) Say(format string, args ...any) {
	if !o.Quick || o.Verbose {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

// QuickNote is what the report of a quick run says about its numbers.
const QuickNote = "**Quick: little of everything, once. These numbers show that the benchmark works and nothing else.**\n\n"

// Run measures one part with the options in args.
func Run(ctx context.Context, p *Part, args []string, out io.Writer) error {
	o := &Options{Out: out, Only: regexp.MustCompile("")}
	only := ""
	fs := flag.NewFlagSet("bench "+p.Name, flag.ContinueOnError)
	fs.IntVar(&o.Runs, "runs", p.Runs, "measured runs of each line, after one that warms up")
	fs.StringVar(&o.Data, "data", "", "`directory` of inputs, made when missing (default: bench/data of the sources)")
	fs.StringVar(&o.Leat, "leat", "", "measure this `program` instead of building one")
	fs.StringVar(&o.Dir, "dir", "", "`directory` where files are made (default: that of temporary files)")
	fs.StringVar(&o.Profile, "cpuprofile", "", "write a processor profile of this process to `file`")
	fs.BoolVar(&o.Quick, "quick", false, "little of everything, once: shows that the benchmark works, no more")
	fs.BoolVar(&o.Verbose, "v", false, "print each run")
	if len(p.Sections) > 0 {
		fs.StringVar(&only, "only", "", "only what matches this `regexp` ("+strings.Join(p.Sections, ", ")+")")
	}
	if p.Flags != nil {
		p.Flags(fs)
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: there are only options", fs.Arg(0))
	}
	if o.Runs < 1 {
		return fmt.Errorf("-runs %d: at least 1", o.Runs)
	}
	var err error
	if o.Only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	o.OnlyAll = only == ""
	if o.Quick {
		o.Runs = 1
	}
	o.Command = "go run ./cmd/bench " + p.Name
	fs.VisitAll(func(f *flag.Flag) {
		given := f.Value.String() != f.DefValue || f.Name == "runs"
		if given && !slices.Contains([]string{"data", "leat", "dir", "cpuprofile", "v"}, f.Name) {
			o.Command += fmt.Sprintf(" -%s='%v'", f.Name, f.Value)
		}
	})
	return p.Run(ctx, o)
}

// Command returns a command that starts this program again in a role of a part.
func Command(ctx context.Context, part, role string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{part, role}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// ServeRole runs the role that the command line names, if there is one, and ends the process.
// Tests call it from TestMain, so that parts can start the test binary.
func ServeRole(parts ...*Part) {
	if len(os.Args) < 3 {
		return
	}
	for _, p := range parts {
		role := p.Roles[os.Args[2]]
		if p.Name != os.Args[1] || role == nil {
			continue
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err := role(ctx, os.Args[3:])
		stop()
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench %s %s: %v\n", p.Name, os.Args[2], err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// Main runs the part that the command line names and returns the exit status.
func Main(parts ...*Part) int {
	ServeRole(parts...)
	i := -1
	if len(os.Args) > 1 {
		i = slices.IndexFunc(parts, func(p *Part) bool { return p.Name == os.Args[1] })
	}
	if i < 0 {
		fmt.Fprintln(os.Stderr, "usage: bench PART [options]\n\nParts (bench PART -help lists their options):")
		for _, p := range parts {
			fmt.Fprintf(os.Stderr, "  %-10s %s\n", p.Name, p.Summary)
		}
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := Run(ctx, parts[i], os.Args[2:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}
