package resolve

import (
	"errors"
	"fmt"
	"maps"

	"leat/apply/internal/jobspec"
	"leat/internal/expr"
)

// linked are the expressions of a job by name. Those with errors are in errs instead, unless the
// error is that of an expression that they use.
type linked struct {
	exprs map[string]*expr.Expr
	errs  map[string]error
}

// linkExpressions parses the expressions of a job and lets them use each other.
func linkExpressions(job *jobspec.Job, isInput func(name string) bool) *linked {
	parsed, errs := map[string]*expr.Expr{}, map[string]error{}
	for name, text := range job.Expressions {
		if e, err := expr.Parse(text); err != nil {
			errs[name] = err
		} else {
			parsed[name] = e
		}
	}
	l := &linked{}
	l.exprs, l.errs = expr.Link(parsed, isInput)
	maps.Copy(l.errs, errs)
	return l
}

// usedExpressions returns the names of the expressions that others use.
func usedExpressions(job *jobspec.Job) map[string]bool {
	used := map[string]bool{}
	for name, text := range job.Expressions {
		e, err := expr.Parse(text)
		if err != nil {
			continue
		}
		for _, other := range e.Names() {
			if _, ok := job.Expressions[other]; ok && other != name && !job.IsInput(other) {
				used[other] = true
			}
		}
	}
	return used
}

// label returns the label of the expression name in messages.
func label(job *jobspec.Job, name string) string {
	if _, ok := job.Outputs[name]; !ok {
		return "expression " + name
	}
	return "output " + name
}

// compileError adds what an expression computes to its error. It returns nil for the error of
// another output's expression that this one uses, which is reported there.
func compileError(job *jobspec.Job, name string, err error) error {
	if te := new(expr.TypeError); errors.As(err, &te) && te.In != "" {
		if _, reported := job.Outputs[te.In]; reported {
			return nil
		}
		name = te.In
	}
	return fmt.Errorf("%s: %w", label(job, name), plain(err))
}
