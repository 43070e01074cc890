// Package childproc starts processes in groups of their own, connects to them, and waits for their
// end without freeing their IDs, so that the rest of a group can be killed safely.
package childproc
