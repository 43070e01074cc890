//go:build nocloud

package awsbatch

import (
	"context"
	"errors"

	"leat/worker"
)

var errLeftOut = errors.New("this program was built without clients of AWS (tag nocloud)")

// launcher returns an error from Check and Start.
type launcher struct{ o Options }

// New returns a launcher; nil means defaults.
func New(o *Options) worker.Launcher { return newLauncher(o) }

func newLauncher(o *Options) *launcher {
	k := &launcher{}
	if o != nil {
		k.o = *o
	}
	return k
}

// Check returns an error.
func (k *launcher) Check(context.Context) error { return errors.Join(k.o.validate(), errLeftOut) }

// Start returns an error.
func (k *launcher) Start(ctx context.Context, _ worker.StartOptions) (worker.Fleet, error) {
	return nil, k.Check(ctx)
}

// Fetch returns functions that return an error, by the name of the secret store.
func Fetch() map[string]func(ctx context.Context, name string) (string, error) {
	leftOut := func(context.Context, string) (string, error) { return "", errLeftOut }
	return map[string]func(context.Context, string) (string, error){secretsManager: leftOut, parameterStore: leftOut}
}
