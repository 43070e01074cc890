//go:build unix && !linux

package shm

// Who has what mapped is not told elsewhere.
func listProcesses(list []Info) ([]Info, error) { return list, nil }
