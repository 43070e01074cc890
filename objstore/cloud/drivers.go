// Package cloud has objstore's drivers for the stores of cloud providers: s3 and servers that speak
// its protocol, gs, azblob; and mem, for tests. They are built on gocloud.dev/blob, and find
// credentials where each provider's own tools find them.
//
// The package has large dependencies; programs that read only files and http don't need it. With
// the build tag nocloud it has none of them, and its drivers return an error.
package cloud

import (
	"strings"

	"leat/objstore"
)

// Drivers returns the drivers by scheme, for objstore.Options.Drivers.
func Drivers() map[string]objstore.Opener {
	return map[string]objstore.Opener{"s3": openS3, "gs": openGS, "azblob": openAzure, "mem": openMem}
}

// CutVersion splits the name of an object in s3, written NAME?versionId=ID as other tools (s3fs)
// do, into key and version. A key that itself ends this way can't be named.
func CutVersion(name string) (key, version string, ok bool) {
	i := strings.LastIndex(name, versionMark)
	if i <= 0 || i+len(versionMark) == len(name) {
		return name, "", false
	}
	return name[:i], name[i+len(versionMark):], true
}

const versionMark = "?versionId="
