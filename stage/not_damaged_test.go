//go:build linux

package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// notDamage are errors that say nothing about the bytes of a staged object.
var notDamage = []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR, unix.EACCES, unix.EIO, os.ErrClosed,
	context.Canceled}

// failAt has all operations at a point fail until the returned function is called.
func failAt(point string, err error) (end func()) {
	fault.Set(func(at string) error {
		if at == point {
			return err
		}
		return nil
	})
	return func() { fault.Set(nil) }
}

func TestReadErrorIsNoDamage(t *testing.T) {
	for _, size := range []int64{1000, 2 * mib} {
		for _, e := range notDamage {
			for _, point := range []string{"stage.reading", "stage.looking"} {
				t.Run(fmt.Sprint(point, " ", size, " ", e), func(t *testing.T) {
					s := small("errors", size)
					p := pool(t, inMemory(t), Options{})
					want := got(t, p, s, "a")
					l := p.Prefetch(s, "a")
					r := ok(l.Open(t.Context()))(t)
					end := failAt(point, e)
					defer end()
					b := make([]byte, size)
					if _, err := r.ReadAt(b, 0); err != nil || !bytes.Equal(b, want) {
						t.Errorf("other bytes, or %v", err)
					}
					must(t, r.Close())
					l.Release()
					if again := got(t, p, s, "a"); !bytes.Equal(again, want) {
						t.Error("other bytes when it is opened again")
					}
					end()
					reads, _, _ := s.count("a")
					if again := got(t, p, s, "a"); !bytes.Equal(again, want) {
						t.Error("other bytes after the error")
					}
					if n, _, _ := s.count("a"); n != reads || p.Counters().Damaged != 0 {
						t.Errorf("%d reads of the source after the error, %+v", n-reads, p.Counters())
					}
				})
			}
		}
	}
}

func TestVerifyErrorIsNoDamage(t *testing.T) {
	for _, e := range notDamage {
		t.Run(fmt.Sprint(e), func(t *testing.T) {
			dir := inMemory(t)
			s := small("errors", 1000)
			p := ok(Open(context.Background(), dir, quick(Options{})))(t)
			want := got(t, p, s, "a")
			must(t, p.Close())
			anotherBoot(t, dir)
			p = pool(t, dir, Options{MaxAge: -1})
			end := failAt("stage.verifying", e)
			defer end()
			if !bytes.Equal(got(t, p, s, "a"), want) {
				t.Error("other bytes")
			}
			end()
			reads, _, _ := s.count("a")
			if !bytes.Equal(got(t, p, s, "a"), want) {
				t.Error("other bytes after the error")
			}
			n, _, _ := s.count("a")
			lost := errors.Is(e, unix.EIO) // the disk can't give what was written before the restart
			if n != reads || p.Counters().Damaged != 0 != lost {
				t.Errorf("%d reads of the source after the error, %+v", n-reads, p.Counters())
			}
		})
	}
}

func TestDiskErrorIsFollowedByVerification(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		s := small("errors", 2*mib)
		p := pool(t, inMemory(t), Options{})
		want := got(t, p, s, "a")
		l := p.Prefetch(s, "a")
		r := ok(l.Open(t.Context()))(t)
		end := failAt("stage.reading", unix.EIO)
		_ = ok(r.ReadAt(make([]byte, 10), 0))(t)
		end()
		path := ok(r.Path())(t)
		must(t, r.Close())
		l.Release()
		if damaged {
			damage(t, path, mib)
		}
		reads, _, _ := s.count("a")
		if !bytes.Equal(got(t, p, s, "a"), want) {
			t.Errorf("damaged %v: other bytes", damaged)
		}
		if n, _, _ := s.count("a"); n != reads != damaged || p.Counters().Damaged != 0 != damaged {
			t.Errorf("damaged %v: %d more reads, %+v", damaged, n-reads, p.Counters())
		}
	}
}

func TestReadErrorOfPut(t *testing.T) {
	p := pool(t, inMemory(t), Options{})
	want := content("a", 0, 1000)
	l := p.Put(bytes.Clone(want), "a")
	defer l.Release()
	must(t, p.Wait(t.Context()))
	end := failAt("stage.reading", unix.EMFILE)
	_, err := l.Bytes(t.Context())
	end()
	wantErr(t, err, unix.EMFILE)
	if b, err := l.Bytes(t.Context()); err != nil || !bytes.Equal(b, want) {
		t.Errorf("afterwards %d bytes: %v", len(b), err)
	}
}

// TestReadErrorAndSourceError reads where neither the disk nor the source gives the bytes.
func TestReadErrorAndSourceError(t *testing.T) {
	s := small("errors", 1000)
	p := pool(t, inMemory(t), Options{})
	l := p.Prefetch(s, "a")
	defer l.Release()
	r := ok(l.Open(t.Context()))(t)
	defer r.Close()
	s.put("a", object{size: 1000, fails: -1, err: errFinal})
	defer failAt("stage.reading", unix.EMFILE)()
	_, err := r.ReadAt(make([]byte, 10), 0)
	wantErr(t, err, unix.EMFILE)
	wantErr(t, err, errFinal)
}

// TestCheckOfDirectoryKeepsWhatItCannotSee opens a directory that a killed process left.
func TestCheckOfDirectoryKeepsWhatItCannotSee(t *testing.T) {
	for _, e := range notDamage {
		dir := inMemory(t)
		s := small("errors", 1000)
		p := ok(Open(context.Background(), dir, quick(Options{})))(t)
		want := got(t, p, s, "a")
		must(t, p.Close())
		f := ok(os.OpenFile(filepath.Join(dir, "stage", "index"), os.O_RDWR, 0))(t)
		_ = ok(f.WriteAt([]byte{1}, 392))(t) // unclean
		must(t, f.Close())
		end := failAt("stage.looking", e)
		p = ok(Open(context.Background(), dir, quick(Options{MaxAge: -1})))(t)
		end()
		if !p.Has(s, "a") || !bytes.Equal(got(t, p, s, "a"), want) {
			t.Errorf("%v: the object is lost", e)
		}
		if n, _, _ := s.count("a"); n != 1 {
			t.Errorf("%v: %d reads", e, n)
		}
		wantDisk(t, p)
		must(t, p.Close())
	}
}

// TestFileReplacedByOther puts something else in the place of a staged file.
func TestFileReplacedByOther(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"symlink":   func(path string) error { return os.Symlink("/etc/passwd", path) },
		"loop":      func(path string) error { return os.Symlink(path, path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"socket":    func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"nothing":   func(string) error { return nil },
	} {
		for _, size := range []int64{1000, 2 * mib} {
			for _, when := range []string{"in use", "unused", "closed"} {
				t.Run(fmt.Sprint(what, " ", size, " ", when), func(t *testing.T) {
					s := small("replaced", size)
					dir := inMemory(t)
					p := ok(Open(context.Background(), dir, quick(Options{})))(t)
					l := p.Prefetch(s, "a")
					r := ok(l.Open(t.Context()))(t)
					path := p.store.Path(r.e.Place)
					if when == "closed" {
						must(t, p.Close())
					}
					must(t, os.Remove(path))
					must(t, put(path))
					want := content("a", 0, size)
					switch when {
					case "in use":
						b := make([]byte, size)
						if n, err := r.ReadAt(b, 0); err != nil || !bytes.Equal(b, want) {
							t.Errorf("%d bytes, %v", n, err)
						}
					case "closed":
						p = ok(Open(context.Background(), dir, quick(Options{})))(t)
					}
					must(t, r.Close())
					l.Release()
					l = p.Prefetch(s, "a")
					r = ok(l.Open(within(t, time.Minute)))(t)
					if b := ok(io.ReadAll(r))(t); !bytes.Equal(b, want) {
						t.Errorf("%d other bytes", len(b))
					}
					if !r.Staged() {
						t.Error("it is not staged")
					}
					must(t, r.Close())
					l.Release()
					must(t, p.Close())
				})
			}
		}
	}
}
