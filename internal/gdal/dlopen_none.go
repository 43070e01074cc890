//go:build nogdal || !((linux || darwin) && (amd64 || arm64 || ppc64le || riscv64 || loong64))

package gdal

import "errors"

const leftOut = "this binary was built without GDAL; use one that was built for Linux or macOS and without the tag nogdal"

var errLeftOut = errors.New(leftOut)

func dlopen(string) (uintptr, error)         { return 0, errLeftOut }
func dlclose(uintptr) error                  { return errLeftOut }
func dlsym(uintptr, string) (uintptr, error) { return 0, errLeftOut }
func register(any, uintptr)                  {}
func newCallback(any) uintptr                { return 0 }
func call(uintptr, ...uintptr) uintptr       { return 0 }
