package storeurl

import "strings"

// CutVersion splits the name of an object in s3, written NAME?versionId=ID as other tools (s3fs)
// do, into key and version. A key that itself ends this way can't be named.
func CutVersion(name string) (key, version string, ok bool) {
	i := strings.LastIndex(name, VersionMark)
	if i <= 0 || i+len(VersionMark) == len(name) {
		return name, "", false
	}
	return name[:i], name[i+len(VersionMark):], true
}

// VersionMark separates the key of an object in s3 from a version.
const VersionMark = "?versionId="
