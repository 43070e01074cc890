// Package objstore reads objects by URL, and lists and uploads them where the store can. It has
// drivers for file, http and https; package objstore/cloud has those for s3, gs and azblob.
//
// [Open] returns a [Bucket], which reads objects by name. A [Source] makes single attempts. [Retry]
// repeats them and resumes an interrupted body, and never mixes two versions of an object. Bytes
// are returned as the store holds them: compressed objects stay compressed.
//
// Most errors are [*Error], which names the object without secrets and reports the store's
// response.
//
// The package promises no more consistency than the store does: an object that is replaced while it
// is read causes [ErrChanged] only if the store distinguishes versions.
package objstore
