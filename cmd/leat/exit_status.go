package main

import (
	"fmt"
)

// otherCodes stands for the codes that only leat stage pin ends with.
const otherCodes = "others"

// exitCodes describes the codes with which commands end.
var exitCodes = []struct{ code, text string }{
	{"0", "everything is done"},
	{"1", "something failed: a file that is missing or not what it should be, a store, the disk, the memory, a worker; or a check found damage"},
	{"2", "a mistake in the command line, in an expression, in a variable LEAT_* or in the configuration file, also one that only the files show, such as a band that an input lacks, or inputs on several grids; nothing was touched"},
	{"129, 130, 143", "after SIGHUP, SIGINT (^C) or SIGTERM, as shells show that leat has cleaned up and ended by the signal"},
	{otherCodes, "the code of the program that leat stage pin ran"},
}

// exitStatus is that of a program that was run, which is passed on without a word.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("the program ended with code %d", int(e)) }
