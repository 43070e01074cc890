package expr

import (
	"maps"
	"slices"
	"strings"
)

// link is an expression that another one uses by its name.
type link struct {
	name string
	expr *Expr
}

// Link lets expressions use each other: a name that no input has stands for the value of the
// expression with this name. It returns the linked expressions, without those that can't be linked,
// and the errors of these, both by name. An expression that uses one with an error is in neither.
func Link(exprs map[string]*Expr, isInput func(name string) bool) (linked map[string]*Expr, errs map[string]error) {
	l := &linker{exprs: exprs, isInput: isInput, linked: map[string]*Expr{}, errs: map[string]error{},
		failed: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(exprs)) {
		l.link(name, nil)
	}
	return l.linked, l.errs
}

type linker struct {
	exprs   map[string]*Expr
	isInput func(name string) bool
	linked  map[string]*Expr
	errs    map[string]error
	failed  map[string]bool // expressions that have an error or use one that has
}

// link links the expression name. Each expression of path uses the next, and the last one uses
// name. link returns nil if that is not possible.
func (l *linker) link(name string, path []string) *Expr {
	if e, done := l.linked[name]; done {
		return e
	}
	if l.errs[name] != nil || l.failed[name] {
		return nil
	}
	e := *l.exprs[name]
	path = append(path, name)
	e.names, e.others = nil, nil
	failed := false
	for _, used := range l.exprs[name].names {
		if l.exprs[used] == nil || l.isInput(used) {
			e.addNames(used)
			continue
		}
		if from := slices.Index(path, used); from >= 0 {
			l.refuse(path[from:])
			failed = true
			continue
		}
		other := l.link(used, path)
		if other == nil {
			failed = true
			continue
		}
		e.links = append(e.links, link{used, other})
		e.focal = e.focal || other.focal
		e.addNames(other.names...)
	}
	if failed {
		l.failed[name] = true
		return nil
	}
	for _, other := range slices.Sorted(maps.Keys(l.exprs)) {
		if other != name && !l.isInput(other) {
			e.others = append(e.others, other)
		}
	}
	l.linked[name] = &e
	return &e
}

// refuse sets the errors of expressions of which each uses the next, and the last the first.
func (l *linker) refuse(cycle []string) {
	for i, name := range cycle {
		e, next := l.exprs[name], cycle[(i+1)%len(cycle)]
		msg := name + " uses itself"
		if len(cycle) > 1 {
			msg += ": " + strings.Join(slices.Concat(cycle[i:], cycle[:i+1]), " uses ")
		}
		l.errs[name] = &TypeError{Pos: e.namesAt[slices.Index(e.names, next)], Text: e.text, Msg: msg}
	}
}

func (e *Expr) addNames(names ...string) {
	for _, name := range names {
		if !slices.Contains(e.names, name) {
			e.names = append(e.names, name)
		}
	}
}

// expression compiles an expression, and before it those that it uses.
func (c *compiler) expression(e *Expr) (value, error) {
	text, defined, others := c.text, c.defined, c.others
	defer func() { c.text, c.defined, c.others = text, defined, others }()
	c.text, c.defined, c.others = e.text, map[string]value{}, e.others
	for _, l := range e.links {
		v, ok := c.linked[l.name]
		if !ok {
			var err error
			if v, err = c.expression(l.expr); err != nil {
				if te, ok := err.(*TypeError); ok && te.In == "" {
					te.In = l.name
				}
				return value{}, err
			}
			c.linked[l.name] = v
		}
		c.defined[l.name] = v
	}
	for _, d := range e.definitions {
		if _, ok := c.inputs[d.name]; ok {
			return value{}, c.fail(d.pos, "%s cannot be defined: it is the name of an input", d.name)
		}
		v, err := c.compile(d.value)
		if err != nil {
			return value{}, err
		}
		c.defined[d.name] = v
	}
	return c.compile(e.root)
}
