package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/pyfunc"
	"leat/apply/outcome"
)

// Python names a function of one argument, a block, in Python (docs/guide/python-functions.md), or
// a class whose instances are such functions, one for each slot of a worker. Each slot has a Python
// process, which needs NumPy. A resumed run must have the same source and Params.
type Python struct {
	// File is the path of a Python file, or Module the name of a module that is found in the
	// working directory or where Python finds modules. Workers get the source of a file from the
	// run. They find modules themselves, including those that the file imports.
	File, Module string
	// Path, if not nil, lists directories that Python searches for modules first, instead of the
	// working directory. Workers search them too.
	Path []string
	Name string // of the function, with dots for attributes: Model.predict
	// Executable is the name or path of Python; "" is python3. The run finds it. Workers use the
	// same path, or, if they share no directory with this machine, look the same name up in their
	// $PATH.
	Executable string
	Params     json.RawMessage // what the function gets as b.params; nil: None
	Version    string          // of the calling program, for messages about versions that differ
	Output     io.Writer       // receives the lines that the processes print; nil: os.Stderr
	// Socket, if not nil, replaces the fields from File to Executable: the function is in the
	// process at the other end of this function socket (docs/format/function.md). Workers can't use
	// it. Identity names that function and its parameters: a resumed run must have the same one.
	// Closes reports whether it is a class with a method close.
	Socket   *net.UnixConn
	Identity string
	Closes   bool
	// WorkerValues, if not nil, receives as JSON what the method close of each instance returned,
	// null without an instance. The run calls it as it calls Job.MergeWorkers, with the same
	// limits, and only for a class with such a method.
	WorkerValues func(worker int, value json.RawMessage) error
}

// pythonFunction stands for the function of Job.Python where functions have names.
const pythonFunction = "python function"

// pythonBlockPixels is the size of blocks to aim for: NumPy makes an array for each step of a
// computation, and a few of 1 MiB fit into the cache of a core.
const pythonBlockPixels = 1 << 18

// spec returns the description of the function for workers.
func (p *Python) spec() (pyfunc.Spec, error) {
	s := pyfunc.Spec{Module: p.Module, Name: p.Name, Path: p.Path, Params: p.Params, Version: p.Version}
	if p.Socket != nil {
		return s, nil
	}
	wrong := func(format string, args ...any) (pyfunc.Spec, error) {
		return s, &outcome.JobError{Err: jobspec.Errorf("Python", format, args...)}
	}
	switch {
	case (p.File == "") == (p.Module == ""):
		return wrong("a Python function needs a file or a module, and not both")
	case p.Name == "":
		return wrong("%s: expected the name of a function in it", cmp.Or(p.File, p.Module))
	case len(p.Params) > 0 && !json.Valid(p.Params):
		return s, &outcome.JobError{Err: jobspec.Errorf("Python.Params", "the parameters of the function are not JSON")}
	}
	var err error
	if p.File != "" {
		if s.File, err = filepath.Abs(p.File); err != nil {
			return s, err
		}
		switch st, err := os.Stat(s.File); {
		case err != nil:
			return wrong("the Python function: %w", err)
		case !st.Mode().IsRegular():
			return wrong("the Python function: %s is not a regular file", p.File)
		}
		s.Directory = filepath.Dir(s.File)
	} else if s.Directory, err = os.Getwd(); err != nil {
		return s, err
	}
	name := cmp.Or(p.Executable, "python3")
	path, err := osexec.LookPath(name)
	if err != nil {
		return s, &outcome.JobError{Err: jobspec.Errorf("Python.Executable", "Python can't be started: %w", err)}
	}
	s.Executable, err = filepath.Abs(path)
	return s, err
}

// loadPython begins to load the job's Python function, and waits for it if the job can't be
// resolved without it.
func (j *Job) loadPython(ctx context.Context) error {
	if j.Python == nil {
		return nil
	}
	switch {
	case j.Func != nil || j.Function != "" || j.Expressions != nil || j.Setup != nil || j.Close != nil || j.Emits != nil ||
		j.WorkerValues != nil || j.MergeWorkers != nil || j.Params != nil || j.MakeParams != nil || j.Variables != nil:
		return &outcome.JobError{Err: errors.New("the job has a Python function, and also sets Func, Function, Expressions, Variables or hooks of a function in Go")}
	case j.Python.Socket != nil && j.Concurrency.On != nil:
		return &outcome.JobError{Err: jobspec.Errorf("Concurrency.On", "workers in other processes can't call a function that is in the process of the caller")}
	}
	spec, err := j.Python.spec()
	if err != nil {
		return err
	}
	j.python = pyfunc.Begin(ctx, spec, j.pythonOptions())
	if !j.loadsMeanwhile() {
		if _, err := j.awaitPython(); err != nil {
			j.closePython()
			j.python = nil
			return err
		}
	}
	if receive := j.Python.WorkerValues; receive != nil && (j.loadsMeanwhile() || j.python.Closes()) {
		f := j.python
		j.MergeWorkers = func(worker int, value any) error {
			if !f.Closes() {
				return nil
			}
			return receive(worker, value.(json.RawMessage))
		}
	}
	if on := j.Concurrency.On; on != nil && !on.Capabilities().Local {
		share := !on.Capabilities().NoSharedFS
		if j.pythonWorkers, err = j.python.WorkerSpec(share); err != nil {
			j.closePython()
			return &outcome.JobError{Err: jobspec.Errorf("Python", "the function %s: %w", spec.Label(), err)}
		}
	}
	return nil
}

// loadsMeanwhile reports whether the job's Python function may be loaded while blocks are read. A
// resumed run and workers in other processes need its source first.
func (j *Job) loadsMeanwhile() bool {
	return j.Python != nil && j.Python.Socket == nil && !j.Resume && j.Concurrency.On == nil
}

// awaitPython waits until the job's Python function, if it has one, is loaded. canceled reports
// whether an error only says that the run has ended.
func (j *Job) awaitPython() (canceled bool, err error) {
	if j.python == nil {
		return false, nil
	}
	canceled, err = j.python.Await()
	label := j.python.Spec().Label()
	var e *outcome.PythonError
	switch {
	case errors.As(err, &e) || errors.As(err, new(*pyfunc.EndedError)):
		text := fmt.Sprintf("the function %s: %v", label, err)
		var s interface{ Stack() []byte }
		if errors.As(err, &s) && (e == nil || strings.Count(e.Traceback, "\n") > 1) {
			text += "\n" + strings.TrimRight(string(s.Stack()), "\n")
		}
		err = &outcome.JobError{Err: &loadError{text, err}}
	case err != nil:
		err = fmt.Errorf("the function %s: %w", label, err)
	}
	return canceled, err
}

// loadError is an error of loading a Python function, with the traceback in its text.
type loadError struct {
	text string
	err  error
}

func (e *loadError) Error() string { return e.text }
func (e *loadError) Unwrap() error { return &outcome.FieldError{Field: "Python", Err: e.err} }

// pythonOptions returns the options of the function in this process.
func (j *Job) pythonOptions() pyfunc.Options {
	var o pyfunc.Options
	if j.Python != nil {
		o.Output, o.Socket, o.Closes = j.Python.Output, j.Python.Socket, j.Python.Closes
	}
	return o
}

// bindPython makes a worker's function from the parameters in the run's description.
func (j *Job) bindPython(params []byte) error {
	v, err := pyfunc.Codec().Decode(params)
	if err != nil {
		return fmt.Errorf("the description of the Python function can't be read: %w", err)
	}
	j.python = pyfunc.New(*v.(*pyfunc.Spec), j.pythonOptions())
	return nil
}

// describePython describes the job's Python function, if it has one, in place of one in Go.
func (j *Job) describePython(f jobspec.Function) jobspec.Function {
	switch {
	case j.python != nil:
		spec := j.python.Spec()
		f.Defined, f.Closes, f.Emits, f.WorkerValues = true, true, pyfunc.Emits(), pyfunc.Emits()
		if !j.Concurrency.OneBlockPerJob { // each of those starts an interpreter
			f.BlockPixels = pythonBlockPixels
		}
		if j.Python != nil && j.Python.Socket != nil {
			f.Source = jobspec.CallersSource + j.Python.Identity
			return f
		}
		f.Name, f.Params, f.ParamsCodec = pythonFunction, cmp.Or(j.pythonWorkers, spec), pyfunc.Codec()
		f.DescribedParams = spec.Compared()
		if !j.loadsMeanwhile() {
			f.Source = spec.Source()
			return f
		}
		merges := f.MergesWorkers
		f.Loading = func() (string, bool) {
			_, _ = j.python.Await()
			return spec.Source(), merges && j.python.Closes()
		}
	case j.Python != nil:
		f.Defined = true
	}
	return f
}

// closePython ends a process that has loaded the function and computed no block.
func (j *Job) closePython() {
	if j.python != nil {
		j.python.Close()
	}
}
