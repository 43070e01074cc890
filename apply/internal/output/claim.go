package output

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"leat/apply/outcome"
	"leat/namespace"
)

// Claim joins a namespace that belongs to this run and claims the output files, so that no other
// run of this user on this machine writes them, whatever links and mounts lead to them. The key is
// that of LEAT_JOB or random; the name is made from the outputs, since one job may run several
// applies. On systems without namespaces only the locks of the spools protect the outputs.
func Claim(ctx context.Context, outs []*Output, log *slog.Logger) (*namespace.Namespace, error) {
	spec := namespace.Spec{
		Ranks: namespace.Ranks{Ranks: 1}, MustLead: true, Logger: log,
	}
	labels := map[string]string{} // of outputs in stores; others are known by their paths
	for _, o := range outs {
		path := o.Spec.ClaimPath()
		labels[path] = o.Spec.Label()
		spec.Files = append(spec.Files, path)
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(spec.Files)), "\x00")))
	spec.Name = "apply-" + hex.EncodeToString(sum[:4])
	if os.Getenv("LEAT_JOB") == "" { // else Join reads the key, and returns an error if it is invalid
		spec.Key = namespace.RandomKey()
	}
	ns, err := namespace.Join(ctx, spec)
	var held *namespace.ClaimedError
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil, nil
	case errors.As(err, &held) && held.How == "is":
		path := held.Path
		if strings.HasPrefix(path, "/leat-output-") {
			path = labels[path]
		}
		if dir, ok := strings.CutSuffix(filepath.Base(path), DirectoryClaim); ok {
			path = filepath.Join(filepath.Dir(path), dir[1:])
		}
		return nil, &outcome.InUseError{Path: path, Holder: held.Holder.String()}
	case errors.As(err, &held):
		return nil, &outcome.InUseError{Holder: held.Holder.String(), Err: held}
	case err != nil:
		return nil, fmt.Errorf("can't claim the outputs: %w", err)
	}
	return ns, nil
}
