// Package localdir finds the directory on a local disk in which leat keeps what it can make again,
// and tells local file systems from those that machines share. A [Use] is what such a directory is
// for; [Use.Open] follows the rule that all uses have in common:
//
//  1. the directory that an option names, which is created if it is missing;
//  2. $LEAT_CACHE_DIR, likewise;
//  3. $XDG_CACHE_HOME/leat, else $HOME/.cache/leat;
//  4. $SLURM_TMPDIR, else leat-UID in the machine's temporary directory.
//
// One that the user named is taken or is an error. One that was only guessed is passed over where
// it lies on a file system that is not known to be local, where it can't be made, or where others
// could write to it.
package localdir

// Variable names another directory than the guessed ones.
const Variable = "LEAT_CACHE_DIR"

// Kind says how far processes that use a file system see what others do there.
type Kind int

const (
	// Unknown file systems may be anything, as those of FUSE.
	Unknown Kind = iota
	// Local ones are of one machine: mappings are shared and locks hold.
	Local
	// Remote ones are of many machines: a lock of one is not seen by others, or is slow and may be
	// lost.
	Remote
)

// FileSystem is a kind of file system and what people call it; the name of one that is not known is
// empty.
type FileSystem struct {
	Name string
	Kind Kind
}
