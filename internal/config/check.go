package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"leat/internal/suggest"
)

// ErrSecret is returned for keys that would hold a secret.
var ErrSecret = errors.New("secrets are not kept in this file; credentials come from the provider's own variables, files and services")

// ErrUnknownKey is returned for keys that are not known.
var ErrUnknownKey = errors.New("unknown key")

// Check checks all lines: each key must be one of keys, and check, if not nil, must accept its
// value. The error joins an [Error] for each wrong line.
func (f *File) Check(keys []string, check func(key, value string) error) error {
	var errs []error
	for _, e := range f.entries {
		if err := checkEntry(&e, keys, check); err != nil {
			errs = append(errs, &Error{e.Path, e.Line, e.Key, err})
		}
	}
	return errors.Join(errs...)
}

func checkEntry(e *Entry, keys []string, check func(key, value string) error) error {
	if slices.Contains(keys, e.Key) {
		if check == nil {
			return nil
		}
		return check(e.Key, e.Value)
	}
	if isSecret(e.Key) {
		return ErrSecret
	}
	if meant := suggest.Closest(e.Key, keys); meant != "" {
		return fmt.Errorf("%w; did you mean %s?", ErrUnknownKey, meant)
	}
	return ErrUnknownKey
}

// isSecret reports whether a key sounds as if it held a secret, or half of one, as other programs
// name them.
func isSecret(key string) bool {
	key = strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(key))
	for _, part := range []string{"secret", "password", "passwd", "passphrase", "token", "accesskey", "accountkey",
		"apikey", "privatekey", "storagekey", "credential", "connectionstring", "sasurl", "serviceaccount"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}
