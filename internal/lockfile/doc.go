// Package lease ties the life of named things to that of processes: a thing is held by a lock or by
// a mapping, which the kernel takes away at any death of its holder, SIGKILL included. No process
// id and no age is ever taken as a proof of life, and no daemon is needed.
//
//   - [Dir] is a folder of the user's own, opened once; everything in it is reached through its
//     descriptor.
//   - [Lock] is a lock on one named file: shared by those who use it, exclusive for one who removes
//     it. [Dir.Publish] makes a file appear complete and already held. [Lock.Map] lets a mapping
//     carry the lock, so that no descriptor is needed.
//   - [Dir.Sweep] removes a file that nobody holds, and loses to everyone who does.
//   - [Ranges] are locks on numbers: byte ranges of a file that has no bytes, in a folder that is
//     not swept.
//
// The rules that make it safe: a lock counts only if the name still leads to the locked file
// (inodes are compared after locking, since a sweep may have come in between); a file is locked
// before it gets its name; names that were unlinked are never linked again.
//
// Locks are the kernel's: they hold on one machine, on local file systems. Network file systems are
// refused. Folders and files of another user are neither followed nor touched. On systems other
// than Linux a mapping keeps a descriptor, and Ranges are not there.
package lockfile
