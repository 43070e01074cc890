// Package cloud has objstore's drivers for the stores of cloud providers: s3 and servers that speak
// its protocol, gs, azblob; and mem, for tests. They are built on gocloud.dev/blob, and find
// credentials where each provider's own tools find them.
//
// The package has large dependencies; programs that read only files and http don't need it. With
// the build tag nocloud it has none of them, and its drivers return an error.
package cloud

import (
	"leat/objstore"
)

// Drivers returns the drivers by scheme, for objstore.Options.Drivers.
func Drivers() map[string]objstore.Opener {
	return map[string]objstore.Opener{"s3": openS3, "gs": openGS, "azblob": openAzure, "mem": openMem}
}
