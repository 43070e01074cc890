package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/internal/lazyregexp"
)

// maxPythonParams bounds the size of a function's parameters.
const maxPythonParams = 16 << 20

// pythonFlags are the options of a function in Python.
type pythonFlags struct {
	function   string // FILE:FUNC or MODULE:FUNC
	params     string // JSON, or @FILE
	executable string
	path       []string // of modules, in the calling program
	overlap    int
	socketFD   int    // of the function of the calling program
	identity   string // of that function
	closes     bool   // that function is a class with a method close

	set *pflag.FlagSet

	// What Finalize reads.
	python apply.Python
}

// AddFlags adds the options.
func (f *pythonFlags) AddFlags(fl *pflag.FlagSet) {
	f.set = fl
	fl.StringVar(&f.function, "python", "",
		"`FILE.py:FUNCTION`: compute the outputs with a function in Python instead of expressions; MODULE:FUNCTION takes one of a module (docs/guide/python-functions.md says how to write a function)")
	group(fl, "python", "Functions in Python")
	fl.StringVar(&f.params, "python-params", "", "`JSON`: parameters of the function, its b.params; @FILE reads them from a file")
	fl.StringVar(&f.executable, "python-executable", "", "`PROGRAM`: the Python that runs the function; it needs NumPy (default: python3)")
	fl.IntVar(&f.overlap, "overlap", 0, "`PIXELS`: width of the margin around each block that the function sees; --margin says what lies outside the inputs")
	fl.StringArrayVar(&f.path, "python-path", nil, "`DIR`: where the calling program finds modules; may be given several times")
	fl.IntVar(&f.socketFD, "function-socket", -1, "`FD`: the calling program computes blocks")
	fl.StringVar(&f.identity, "function-version", "", "`TEXT`: names the function of the calling program, for --resume")
	fl.BoolVar(&f.closes, "function-closes", false, "states of the function of the calling program may have values at their end")
	for _, name := range []string{"python-path", "function-socket", "function-version", "function-closes"} {
		if err := fl.MarkHidden(name); err != nil {
			panic(err)
		}
	}
}

// given reports whether the job is a function in Python, or of the calling program.
func (f *pythonFlags) given() bool {
	return f.set != nil && (f.set.Changed("python") || f.socketGiven())
}

func (f *pythonFlags) socketGiven() bool { return f.set.Changed("function-socket") }

var (
	pythonModule = lazyregexp.New(`^[\pL_][\pL\pN_]*(\.[\pL_][\pL\pN_]*)*$`)
	pythonNames  = pythonModule // attributes with dots between them
)

// Finalize reads the values of the options, as far as they are right.
func (f *pythonFlags) Finalize() error {
	if !f.given() {
		var errs []error
		for _, name := range []string{"python-params", "python-executable", "python-path", "overlap"} {
			if f.set != nil && f.set.Changed(name) {
				errs = append(errs, fmt.Errorf("--%s: needs a function in Python (--python)", name))
			}
		}
		return errors.Join(errs...)
	}
	var errs []error
	if f.overlap < 0 {
		errs = append(errs, fmt.Errorf("--overlap %d: use 0 or more pixels", f.overlap))
	}
	if f.socketGiven() {
		return errors.Join(append(errs, f.finalizeSocket())...)
	}
	colon := strings.LastIndexByte(f.function, ':')
	source, name := f.function[:max(colon, 0)], f.function[colon+1:]
	switch {
	case colon <= 0 || !pythonNames.MatchString(name):
		errs = append(errs, fmt.Errorf("--python %s: write it as FILE.py:FUNCTION or MODULE:FUNCTION, such as indices.py:ndvi", shown(f.function)))
	case strings.HasSuffix(source, ".py") || strings.ContainsRune(source, '/'):
		f.python.File = source
	case pythonModule.MatchString(source):
		f.python.Module = source
	default:
		errs = append(errs, fmt.Errorf("--python %s: %s is neither a file that ends in .py nor the name of a module", shown(f.function), shown(source)))
	}
	f.python.Name, f.python.Executable, f.python.Version = name, f.executable, version
	f.python.Path = f.path
	if f.set.Changed("python-params") {
		text := []byte(f.params)
		if path, ok := strings.CutPrefix(f.params, "@"); ok {
			var err error
			if text, err = readText(path, maxPythonParams); err != nil {
				return errors.Join(append(errs, fileError{fmt.Errorf("--python-params: %s: %w", shown(path), cause(err))})...)
			}
		}
		if !json.Valid(text) {
			errs = append(errs, errors.New("--python-params: expected JSON, such as '{\"scale\": 0.5}', or @FILE"))
		}
		f.python.Params = text
	}
	return errors.Join(errs...)
}

// finalizeSocket takes over the socket of the calling program.
func (f *pythonFlags) finalizeSocket() error {
	for _, name := range []string{"python", "python-params", "python-executable", "python-path"} {
		if f.set.Changed(name) {
			return fmt.Errorf("--%s and --function-socket: use one of them", name)
		}
	}
	file := os.NewFile(uintptr(f.socketFD), "function socket")
	if f.socketFD < 3 || file == nil {
		return fmt.Errorf("--function-socket %d: expected the number of an open file descriptor above 2", f.socketFD)
	}
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("--function-socket %d: %w", f.socketFD, cause(err))
	}
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return errors.Join(fmt.Errorf("--function-socket %d: expected a Unix socket", f.socketFD), c.Close())
	}
	f.python = apply.Python{Socket: socket, Identity: f.identity, Closes: f.closes, Version: version}
	return nil
}

// addTo makes the function that of the job.
func (f *pythonFlags) addTo(job *apply.Job, out *outputFlags) error {
	job.Expressions = nil
	job.Python = &f.python
	job.Controls.Overlap = max(f.overlap, 0) // Finalize reports others
	if len(out.exprs) > 0 {
		return errors.New("-e and --python: use one of them")
	}
	var errs []error
	for _, name := range []string{"scale", "offset", "nodata-collision", "group", "cutline", "times"} {
		if f.set.Changed(name) {
			errs = append(errs, fmt.Errorf("--%s: only expressions have it, not functions in Python (--python)", name))
		}
	}
	return errors.Join(errs...)
}
