package outcome

// PythonError is an exception that a Python function has raised.
type PythonError struct {
	Kind, Message string // the class of the exception and its text
	Traceback     string // as Python prints it; "" if there is none
}

func (e *PythonError) Error() string {
	if e.Message == "" {
		return e.Kind
	}
	return e.Kind + ": " + e.Message
}

// Stack returns the traceback.
func (e *PythonError) Stack() []byte {
	if e.Traceback == "" {
		return nil
	}
	return []byte(e.Traceback)
}
