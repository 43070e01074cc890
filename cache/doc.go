// Package cache keeps n byte entries in one local file, for all processes of a machine: an array whose slots are written once,
// read without locks, and shared by whoever opens it. Data loaders that read the same samples in every epoch put them
// here, and so do programs that have n results to share.
//
//   - [Create] makes a cache without a name: the kernel frees it with its last holder, SIGKILL included. Other
//     processes [Attach] it by its [Cache.Handle], or [AttachFile] a passed descriptor.
//   - [Open] makes or joins one with a name, which stays and grows from run to run. [Load] reads one that was made final by [Cache.Preserve].
//   - [Cache.Put], [Cache.Get], [Cache.View] and [Cache.GetOrFill] are all that most programs need; [Typed] puts a codec in front of them.
//
// The first writer of a slot wins. What a reader gets is what one writer put, whole, or [ErrMiss]: entries carry checksums, a killed
// writer leaves a miss, a damaged entry is a miss that the next Put mends. A full disk, a reached limit and a frozen cache refuse entries and are
// no errors: a cache is there to make things faster.
//
// What it does not promise: that entries of a named cache outlive a loss of power (unless Options.Durability says so; they
// are never wrong afterwards); that it works on network file systems, which are refused; that room is ever reused. Entries are not
// removed. Processes of the same user are trusted not to write into the file on purpose.
//
// It takes after pfio's MultiprocessFileCache, whose preserved files it reads and writes ([Cache.ImportPFIO], [Cache.ExportPFIO]).
package cache
