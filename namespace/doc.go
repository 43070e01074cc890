// Package namespace gives all processes of one job on a machine a small number of their own, for
// the names of what they share, and keeps two jobs from writing the same directory. What it takes
// out is held by the kernel: when the job's processes die, by SIGKILL or otherwise, numbers, names
// and claims are free at once, and nobody has to clean up.
//
// [Join] is called by every process of the job. Processes find each other by the job's key, which
// launchers set (see [KeyFromEnv]); the one with local rank 0 registers, the others wait for it and
// check that they mean the same directories. [Namespace] then has the number ([Namespace.Name]
// makes names with it), memory and directories for its members ([Namespace.Region],
// [Namespace.Counter], [Namespace.Barrier], [Namespace.Mutex], [Namespace.Dir]).
//
// A directory with a remote is written by the job: it is claimed exclusively. One without is only
// read: any number of jobs may. Claims collide when two directories are the same or one lies inside
// the other, by device and inode, whatever links, mounts or spellings lead there. The error,
// [ClaimedError], names both directories and the process that holds the claim.
//
// What it does not promise: claims hold among the processes of one user on one machine that share
// the folder of [lockfile.RootPath]: not across machines, users, or containers that have a /dev/shm
// each. Nothing survives a reboot. It is for Linux; elsewhere Join returns errors.ErrUnsupported.
//
// It takes after get_shm_prefix of MosaicML streaming, whose prefixes in /dev/shm it sees and
// avoids.
package namespace
