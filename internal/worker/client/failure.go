package client

// Coder is implemented by errors with a code. The worker sends the code with the error, and the run
// recognizes the error by it.
type Coder interface{ Code() string }

// StackError is an error with a stack trace.
type StackError struct {
	Err   error
	Trace []byte
}

func (e *StackError) Error() string { return e.Err.Error() }
func (e *StackError) Unwrap() error { return e.Err }

// Stack returns the stack trace as text.
func (e *StackError) Stack() []byte { return e.Trace }
