// Package objstore reads objects by URL: files, http(s), and, with the drivers of its folder cloud, s3, gs and azblob.
//
// [Open] gives a [Bucket], in which objects have names. A [Source] makes single attempts; [Retry] repeats them, and resumes a body that broke off, always
// of the same version of the object. What is read comes as the store has it: nothing is unpacked on the way.
//
// Errors are [*Error]: they name the object without secrets, what the store answered, and what to check.
//
// It promises no more consistency than the store: an object that is replaced while it is read is [ErrChanged] where the store tells versions apart.
package objstore
