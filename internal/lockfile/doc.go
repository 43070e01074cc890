// Package lockfile ties the life of named files to that of the processes that use them: a file is
// held by a lock or a mapping, which the kernel ends with its process, after SIGKILL too. Process
// ids and ages prove nothing, and no daemon is needed.
//
//   - [Dir] is a private directory of the user, opened once; everything in it is reached through
//     its descriptor.
//   - [Lock] is a lock on one named file: shared by its users, exclusive for a process that removes
//     it. [Dir.Publish] creates a file that is complete and locked when it appears. After
//     [Lock.Map] a mapping carries the lock, so that no descriptor is needed.
//   - [Dir.Sweep] removes a file that nobody has locked.
//   - [Ranges] are locks on numbers: byte ranges of an empty file, in a directory that is not
//     swept.
//   - [OpenFile] locks a file or directory at any path.
//
// The rules that make it safe: a lock counts only if the name still leads to the locked file
// (inodes are compared after locking, since a sweep may have removed the name meanwhile); a file is
// locked before it gets its name; names that were unlinked are never linked again.
//
// The locks are the kernel's: they hold on one machine, on local file systems. Network file systems
// are refused. Directories and files of other users are neither followed nor changed. On systems
// other than Linux a mapping keeps a descriptor, and Ranges are not supported.
package lockfile
