//go:build linux

package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/proctest"
)

// children are what child processes of the tests do.
var children = map[string]proctest.Func{
	"put once":      putOnce,
	"put random":    putRandom,
	"put all":       putAll,
	"fill":          fillOnce,
	"fill all":      fillAll,
	"keep open":     keepOpen,
	"passed":        passed,
	"store":         storeIntoView,
	"few addresses": fewAddresses,
	"file limit":    fileLimited,
	"make":          makeOne,
	"preserve":      preserveOne,
	"make calls":    makeCalls,
	"upgrade":       upgradeOne,
	"put same":      putSame,
	"plain once":    plainOnce,
	"plain random":  plainRandom,
	"plain all":     plainAll,
}

// setFaults has points fail in a child, and keeps the points at which it is to be killed.
func setFaults(fail ...string) {
	fault.Set(func(point string) error {
		proctest.Point(point)
		for _, f := range fail {
			if f == point {
				return errTest
			}
		}
		return nil
	})
}

// attachArgs attaches the cache whose handle is the first argument; the second names a fault point
// that fails.
func attachArgs(args []string) (*Cache, error) {
	if len(args) > 1 && args[1] != "" {
		setFaults(args[1])
	}
	return Attach(Handle(args[0]), nil)
}

func putOnce(args []string) error {
	c, err := attachArgs(args)
	if err != nil {
		return err
	}
	i, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	if _, err := c.Put(i, content(i)); err != nil {
		return err
	}
	return c.Close()
}

// putRandom puts and gets until it is killed.
func putRandom(args []string) error {
	c, err := attachArgs(args)
	if err != nil {
		return err
	}
	for {
		i := rand.Int64N(c.N())
		if _, err := c.Put(i, content(i)); err != nil {
			return err
		}
		if err := c.View(rand.Int64N(c.N()), func([]byte) error { return nil }); err != nil && !errors.Is(err,
			ErrMiss) {
			return err
		}
	}
}

// putAll puts all slots until the cache is frozen, and prints how many were stored.
func putAll(args []string) error {
	c, err := attachArgs(args)
	if err != nil {
		return err
	}
	stored := 0
	for i := range c.N() {
		ok, err := c.Put(i, content(i))
		if err != nil {
			return err
		}
		if ok {
			stored++
		}
	}
	fmt.Print(stored)
	return c.Close()
}

// fillOnce fills slot args[2] in args[3] milliseconds, and leaves a mark in the directory args[4]
// when it fills.
func fillOnce(args []string) error {
	c, err := attachArgs(args)
	if err != nil {
		return err
	}
	i, _ := strconv.ParseInt(args[2], 10, 64)
	ms, _ := strconv.Atoi(args[3])
	data, err := c.GetOrFill(context.Background(), i, func(context.Context) ([]byte, error) {
		f, err := os.CreateTemp(args[4], "fill")
		if err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return content(i), f.Close()
	})
	if err == nil {
		err = isContent(i, data)
	}
	return errors.Join(err, c.Close())
}

// fillAll fills all slots with all others; each filling prints a line.
func fillAll(args []string) error {
	c, err := attachArgs(args)
	if err != nil {
		return err
	}
	for _, k := range rand.Perm(int(c.N())) {
		i := int64(k)
		data, err := c.GetOrFill(context.Background(), i, func(context.Context) ([]byte, error) {
			fmt.Println(i)
			return content(i), nil
		})
		if err == nil {
			err = isContent(i, data)
		}
		if err != nil {
			return err
		}
	}
	return c.Close()
}

// keepOpen makes or attaches a cache, writes its handle to the file args[1] and waits to be killed.
func keepOpen(args []string) error {
	var c *Cache
	var err error
	if args[0] == "create" {
		if len(args) > 3 {
			setFaults(args[3])
		}
		c, err = Create(100, &Options{Dir: args[2]})
	} else {
		c, err = Attach(Handle(args[0]), nil)
	}
	if err != nil {
		return err
	}
	if _, err := c.Put(7, content(7)); err != nil {
		return err
	}
	h, err := c.Handle()
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[1]+".new", []byte(h), 0o600); err != nil {
		return err
	}
	if err := os.Rename(args[1]+".new", args[1]); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

// passed uses the file that it got as descriptor 3.
func passed([]string) error {
	f := os.NewFile(3, "passed")
	c, err := AttachFile(f, nil)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	data, err := c.Get(1)
	if err == nil {
		err = isContent(1, data)
	}
	if err == nil {
		_, err = c.Put(2, content(2))
	}
	return errors.Join(err, c.Close())
}

// storeIntoView does what is forbidden.
func storeIntoView(args []string) error {
	c, err := attachArgs(args)
	if err != nil {
		return err
	}
	return c.View(1, func(b []byte) error { b[0]++; return nil })
}

// fewAddresses uses a cache in little address space.
func fewAddresses(args []string) error {
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 2 << 30, Max: 2 << 30}); err != nil {
		return err
	}
	for _, n := range []int64{10, 1e8} {
		c, err := Create(n, &Options{Dir: args[0]})
		if err != nil {
			return err
		}
		if len(c.m.data) > 0 || n > 1e7 && len(c.m.head) > pageSize {
			return fmt.Errorf("%d bytes of data and %d of the index are mapped", len(c.m.data), len(c.m.head))
		}
		for k := range int64(10) {
			i := k * (n / 10)
			if ok, err := c.Put(i, content(i)); !ok || err != nil {
				return fmt.Errorf("put %d: %v, %w", i, ok, err)
			}
			data, err := c.Get(i)
			if err == nil {
				err = isContent(i, data)
			}
			if err != nil {
				return err
			}
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// fileLimited puts beyond ulimit -f.
func fileLimited(args []string) error {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
		return err
	}
	if _, err := Create(1e6, &Options{Dir: args[0]}); err == nil {
		return errors.New("an index beyond the limit was made")
	}
	c, err := Create(10, &Options{Dir: args[0]})
	if err != nil {
		return err
	}
	if ok, err := c.Put(0, make([]byte, 2<<20)); ok || err != nil {
		return fmt.Errorf("beyond the limit: %v, %w", ok, err)
	}
	if ok, err := c.Put(1, make([]byte, 1<<10)); !ok || err != nil {
		return fmt.Errorf("below the limit: %v, %w", ok, err)
	}
	s, err := c.Stats()
	if s.RefusedNoSpace != 1 || s.Frozen {
		return fmt.Errorf("%+v", s)
	}
	return errors.Join(err, c.Close(), copyLimited(args[0], args[1]))
}

// copyLimited makes files of caches that are larger than ulimit -f: by a copy to another file
// system, and with an index of 16 bytes for each slot.
func copyLimited(dir, another string) error {
	c, err := Create(100_000, &Options{Dir: dir})
	if err != nil {
		return err
	}
	if _, err := c.ExportPFIO(context.Background(), another+"/pfio",
		false); err == nil || !strings.Contains(err.Error(), "ulimit -f") || strings.Contains(err.Error(),
		"directory "+another) {
		return fmt.Errorf("an export beyond the limit: %w", err)
	}
	if ok, err := c.Put(0, make([]byte, 200<<10)); !ok || err != nil {
		return fmt.Errorf("below the limit: %v, %w", ok, err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 900 << 10, Max: 900 << 10}); err != nil {
		return err
	}
	var a, b unix.Stat_t
	// no copy is made then
	if err := errors.Join(unix.Stat(dir, &a), unix.Stat(another, &b)); err != nil || a.Dev == b.Dev {
		return errors.Join(err, c.Close())
	}
	if err := preserve(c, another+"/kept", false); err == nil || !strings.Contains(err.Error(),
		"ulimit -f") || strings.Contains(err.Error(), "directory "+another) {
		return fmt.Errorf("a copy beyond the limit: %w", err)
	}
	return c.Close()
}

// makeOne opens a named cache and puts something.
func makeOne(args []string) error {
	setFaults(args[1])
	c, err := Open(args[0], 100, &Options{Durability: DurabilityEach})
	if err != nil {
		return err
	}
	if _, err := c.Put(3, content(3)); err != nil {
		return err
	}
	return c.Close()
}

// preserveOne makes a nameless cache and preserves it as args[0].
func preserveOne(args []string) error {
	setFaults(args[1])
	c, err := Create(100, &Options{Dir: args[3]})
	if err != nil {
		return err
	}
	if _, err := c.Put(3, content(3)); err != nil {
		return err
	}
	if err := preserve(c, args[0], args[2] == "overwrite"); err != nil {
		return err
	}
	return c.Close()
}
