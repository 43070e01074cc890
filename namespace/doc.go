// Package namespace gives all processes of one job on a host a number of their own, for the names
// of what they share, and keeps two jobs from writing the same directory. The kernel keeps all of
// this state: when the processes of the job die, by SIGKILL or otherwise, numbers, names and claims
// are free at once.
//
// Every process of the job calls [Join]. Processes find each other by the key of the job, which
// launchers set (see [Spec]); the one with local rank 0 registers, the others wait for it and
// check that they name the same directories. A [Namespace] then has the number, on which
// [Namespace.Name] bases names, and memory and directories for its members ([Namespace.Region],
// [Namespace.Counter], [Namespace.Barrier], [Namespace.Mutex], [Namespace.Dir]).
//
// A directory with a remote is written by the job and claimed exclusively. One without is only
// read, by any number of jobs. Claims collide if two directories are the same or one lies inside
// the other, by device and inode, whatever links, mounts or spellings lead to them. The error,
// [ClaimedError], names both directories and the holder of the claim.
//
// Claims hold among the processes of one user on one host that share the runtime directory
// (/dev/shm/leat-UID, or LEAT_RUNTIME_DIR): not across hosts, users, or containers with a /dev/shm
// each. Nothing survives a reboot. Join returns errors.ErrUnsupported on systems other than Linux,
// and where /proc is not mounted.
//
// The idea is that of get_shm_prefix in MosaicML streaming, whose prefixes in /dev/shm it avoids.
package namespace
