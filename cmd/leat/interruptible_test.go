package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestInterruptible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	leat(t, exitDone, dir, "cache", "create", "a.cache", "10")
	for name, args := range map[string][]string{
		"colour table":  {"apply", "-i", "a=a.tif", "-o", "x=x.tif", "-e", "a", "--color-table", "pipe"},
		"list of URLs":  {"stage", "warm", "pipe", "--dir", dir},
		"cache entry":   {"cache", "put", "a.cache", "3", "pipe"},
		"pinned":        {"stage", "pin", "pipe", "--dir", dir},
		"list on stdin": {"stage", "warm", "-", "--dir", dir},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, out := process(t, dir, args...)
			stdin, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				c.Wait()
				close(ended)
			}()
			select {
			case <-ended:
				t.Fatalf("it did not wait: %s", out)
			case <-time.After(time.Second): // an interruption before it waits would end it too
			}
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				c.Process.Kill()
				<-ended
				t.Fatalf("it went on waiting after an interruption: %s", out)
			}
		})
	}
}
