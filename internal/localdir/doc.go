// Package localdir finds the directory on a local disk for data that leat can make again, and
// distinguishes local file systems from those that machines share. A [Use] describes what such a
// directory is for; [Use.Open] opens the first that exists or can be created:
//
//  1. the directory that an option names, which is created if it is missing;
//  2. $LEAT_CACHE_DIR, likewise;
//  3. $XDG_CACHE_HOME/leat, else $HOME/.cache/leat;
//  4. $SLURM_TMPDIR, else leat-UID in the machine's temporary directory.
//
// A directory that the user named is used, or is an error. The others are skipped if they are not
// known to be on a local file system, can't be created, or are writable by other users.
package localdir

// Variable is the environment variable that names the directory.
const Variable = "LEAT_CACHE_DIR"

// Kind is the scope of a file system.
type Kind int

const (
	// Unknown file systems may be local or not.
	Unknown Kind = iota
	// Local file systems belong to one machine: mappings are shared and locks work.
	Local
	// Remote file systems are shared by machines: locks may be invisible to others, slow or lost.
	Remote
)

// FileSystem is a kind of file system; Name is empty if it is unknown.
type FileSystem struct {
	Name string
	Kind Kind
}
