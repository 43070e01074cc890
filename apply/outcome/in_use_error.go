package outcome

import "fmt"

// InUseError is returned for an output that another process has claimed. errors.Is finds ErrInUse
// in it, unless Err is set.
type InUseError struct {
	Path   string // of the output
	Holder string // the process, as text
	Err    error  // what else is in use, such as a parent directory; nil: the output itself
}

func (e *InUseError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s is %v (%s)", e.Path, ErrInUse, e.Holder)
}

func (e *InUseError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return ErrInUse
}
