// Package objstore reads objects by URL: files, http and https, and, with the drivers of the
// package objstore/cloud, s3, gs and azblob.
//
// [Open] returns a [Bucket], which reads objects by name. A [Source] makes single attempts; [Retry]
// repeats them and resumes an interrupted body, always with the same version of the object. Bytes
// are returned as the store holds them: compressed objects stay compressed.
//
// Most errors are [*Error]: they name the object without secrets and say what the store answered
// and what to check.
//
// The package promises no more consistency than the store does: an object that is replaced while it
// is read gives [ErrChanged] only where the store distinguishes versions.
package objstore
