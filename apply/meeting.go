package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"leat/worker"
)

// word tells this run from others in names of jobs.
func (r *run) word() string {
	host, _ := os.Hostname()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", host, os.Getpid(), r.sharedBase()))
	return hex.EncodeToString(sum[:4])
}

// sharedBase is where the folder is made that workers elsewhere share with the run.
func (r *run) sharedBase() string {
	if dir := r.job.Concurrency.SharedTemp; dir != "" {
		return absolute(dir)
	}
	for _, o := range r.outs {
		if !o.spec.inStore() {
			return filepath.Dir(realPath(o.spec.Path))
		}
	}
	if dir, err := os.Getwd(); err == nil {
		return dir
	}
	return os.TempDir()
}

// sharedFolder is a folder of a run, which its workers can reach where they need it. A lock in it, which ends with the process, tells others that it is in use.
type sharedFolder struct {
	path string
	lock *os.File
}

const (
	sharedPrefix = ".leat-run-"
	sharedLock   = "lock"
)

// makeSharedFolder is makeRunFolder for what workers share.
func makeSharedFolder(base string) (*sharedFolder, error) {
	folder, err := makeRunFolder(base)
	if err != nil {
		return nil, fmt.Errorf("the folder that workers share can't be made in %s: %w; name another that all workers can reach (--shared-temp)", base, plainPath(err))
	}
	return folder, nil
}

// makeRunFolder makes a folder of mode 0700, and removes those that killed runs left beside it.
func makeRunFolder(base string) (*sharedFolder, error) {
	sweepSharedFolders(base)
	for {
		path, err := os.MkdirTemp(base, sharedPrefix+"*")
		if err != nil {
			return nil, err
		}
		f, err := os.OpenFile(filepath.Join(path, sharedLock), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
		// Another run may have swept it before it was locked.
		swept := errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist)
		if err == nil {
			mine, err1 := f.Stat()
			there, err2 := os.Lstat(f.Name())
			swept = err1 != nil || err2 != nil || !os.SameFile(mine, there)
		}
		if err == nil && !swept {
			return &sharedFolder{path, f}, nil
		}
		if f != nil {
			f.Close()
		}
		if !swept {
			return nil, errors.Join(fmt.Errorf("%s can't be locked: %w", path, plainPath(err)), os.RemoveAll(path))
		}
	}
}

func plainPath(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// remove removes the folder, its lock last and after it was closed: a network file system keeps what is removed while it is open, and
// the folder with it.
func (s *sharedFolder) remove() error {
	list, err := os.ReadDir(s.path)
	errs := []error{err}
	for _, e := range list {
		if e.Name() != sharedLock {
			errs = append(errs, os.RemoveAll(filepath.Join(s.path, e.Name())))
		}
	}
	return errors.Join(append(errs, s.lock.Close(), os.RemoveAll(s.path))...)
}

// sweepAfter is when a folder without a lock is taken for a leftover: one that is being made has none for an instant.
const sweepAfter = time.Hour

// sweepSharedFolders removes folders whose run is no more.
func sweepSharedFolders(base string) {
	list, err := filepath.Glob(filepath.Join(globQuote(base), sharedPrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range list {
		f, err := os.OpenFile(filepath.Join(path, sharedLock), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if errors.Is(err, os.ErrNotExist) {
			if st, err := os.Lstat(path); err == nil && st.IsDir() && time.Since(st.ModTime()) > sweepAfter {
				_ = os.RemoveAll(path)
			}
			continue
		}
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(path) // whose else it is can't be removed
		}
		f.Close()
	}
}

// globQuote has a path stand for itself in a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// listen opens the channel to workers on other machines.
func (o *outside) listen() (worker.Invitation, error) {
	address := o.run.job.Concurrency.Listen
	if address != "" {
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), "0")
		}
		inv, err := o.channel.Listen(address)
		if err != nil {
			var op *net.OpError
			if errors.As(err, &op) {
				err = op.Err
			}
			err = fmt.Errorf("%s can't be listened at for workers (--listen): %w: name an address of this machine, by which others reach it", o.run.job.Concurrency.Listen, err)
		}
		return inv, err
	}
	hosts := ownAddresses()
	var all worker.Invitation
	var errs []error
	for _, h := range hosts {
		inv, err := o.channel.Listen(net.JoinHostPort(h, "0"))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		inv.Addresses = append(all.Addresses, inv.Addresses...)
		all = inv
	}
	if len(all.Addresses) == 0 {
		return all, fmt.Errorf("no address of this machine can be listened at for workers (%w): name one (--listen)", errors.Join(errs...))
	}
	return all, nil
}

// ownAddresses are those by which other machines find this one: of its name, else of its network cards, else the loopback's.
func ownAddresses() []string {
	var named, cards []string
	usable := func(a netip.Addr) bool {
		return a.IsValid() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified()
	}
	mine := map[netip.Addr]bool{}
	if list, err := net.InterfaceAddrs(); err == nil {
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				mine[p.Addr().Unmap()] = true
				if usable(p.Addr()) {
					cards = append(cards, p.Addr().Unmap().String())
				}
			}
		}
	}
	if name, err := os.Hostname(); err == nil {
		list, _ := net.LookupHost(name)
		for _, h := range list {
			if a, err := netip.ParseAddr(h); err == nil && usable(a) && mine[a.Unmap()] {
				named = append(named, a.Unmap().String())
			}
		}
	}
	switch {
	case len(named) > 0:
		return named
	case len(cards) > 0:
		return cards
	}
	return []string{"127.0.0.1"}
}
