// Package cache keeps n byte entries in one local file for all processes of a machine: an array
// whose slots are written once and read without locks. It suits data loaders that read the same
// samples in every epoch, and other programs with n results to share.
//
//   - [Create] makes a nameless cache, which the kernel frees when its last holder ends, even by
//     SIGKILL. Other processes [Attach] it by its [Cache.Handle], or [AttachFile] a passed
//     descriptor.
//   - [Open] opens or creates a named cache, which stays and grows from run to run. [Load] reads
//     one that [Cache.Preserve] made final.
//   - [Cache.Put], [Cache.Get], [Cache.View] and [Cache.GetOrFill] are what most programs need.
//     [Typed] adds a codec.
//
// The first writer of a slot wins. A reader gets exactly what one writer put, or [ErrMiss]: entries
// carry checksums, a killed writer leaves a miss, and a damaged entry is a miss that the next Put
// repairs. A full disk, a reached limit and a frozen cache refuse entries without an error, since a
// cache is only there for speed.
//
// The package does not promise that entries of a named cache survive a power loss (unless
// Options.Durability requires it; they are never wrong afterwards), that it works on network file
// systems, which it refuses, or that space is ever reused. Entries are not removed. Processes of
// the same user are trusted not to overwrite the file deliberately.
//
// The idea comes from pfio's MultiprocessFileCache, whose preserved files the package reads and
// writes ([Cache.ImportPFIO], [Cache.ExportPFIO]).
package cache
