//go:build !nogdal && (linux || darwin) && (amd64 || arm64 || ppc64le || riscv64 || loong64)

package gdal

import (
	"runtime"

	"github.com/ebitengine/purego"
)

const leftOut = ""

// dlopen binds all functions at once: a missing one is an error now rather than a crash later. The
// C library keeps the text of an error for the thread, which must not change until it is read.
func dlopen(name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func dlclose(library uintptr) error { return purego.Dlclose(library) }

func dlsym(library uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(library, name)
}

// register makes *function, a func, call the C function at address.
func register(function any, address uintptr) { purego.RegisterFunc(function, address) }

// call calls the C function at address with integers and pointers. The memory that these point to
// does not move during the call.
//
//go:uintptrescapes
func call(address uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(address, args...)
	return r
}

// newCallback returns the address of a C function that calls function. A process can have few of
// them, and they are never freed.
func newCallback(function any) uintptr { return purego.NewCallback(function) }
