package main

import (
	"fmt"
	"os"
)

// free checks that a file may be made with that name, before work begins that would be in vain.
func free(path string, overwrite bool) error {
	st, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil // whoever makes it says what is wrong with it
	case st.IsDir():
		return fmt.Errorf("%s is a directory: give the name of a file in it", path)
	case !overwrite:
		return fmt.Errorf("%s exists: give another name, or --overwrite", path)
	}
	return nil
}
