package main

import (
	"fmt"
)

// exitStatus is that of a program that was run, which is passed on without a word.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("the program ended with code %d", int(e)) }
