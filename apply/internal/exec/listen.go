package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/internal/rundir"
	"leat/internal/worker/coordinator"
	"leat/worker"
)

// runID identifies this run, which shares dir with its workers, in the names of jobs.
func runID(dir string) string {
	host, _ := os.Hostname()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", host, os.Getpid(), dir))
	return hex.EncodeToString(sum[:4])
}

// makeSharedDirectory makes the directory that workers share.
func makeSharedDirectory(base string) (*rundir.Dir, error) {
	directory, err := rundir.Make(base)
	if err != nil {
		return nil, jobspec.Errorf("Concurrency.SharedTemp", "the directory that workers share can't be made in %s: %w", base,
			plainPath(err))
	}
	return directory, nil
}

func plainPath(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// listen opens the coordinator to workers on other machines, at an address or, if that is "", at
// those of this machine.
func listen(c *coordinator.Coordinator, at string) (worker.Endpoint, error) {
	address := at
	if address != "" {
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), "0")
		}
		inv, err := c.Listen(address)
		if err != nil {
			var op *net.OpError
			if errors.As(err, &op) {
				err = op.Err
			}
			err = jobspec.Errorf("Concurrency.Listen", "listening at %s for workers: %w", at, err)
		}
		return inv, err
	}
	hosts := ownAddresses()
	var all worker.Endpoint
	var errs []error
	for _, h := range hosts {
		inv, err := c.Listen(net.JoinHostPort(h, "0"))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		inv.Addresses = append(all.Addresses, inv.Addresses...)
		all = inv
	}
	if len(all.Addresses) == 0 {
		return all, jobspec.Errorf("Concurrency.Listen", "listening at the addresses of this machine for workers: %w",
			errors.Join(errs...))
	}
	return all, nil
}

// ownAddresses returns the addresses by which other machines reach this one: those of its name,
// else those of its network interfaces, else the loopback address.
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
