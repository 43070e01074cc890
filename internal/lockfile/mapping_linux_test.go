package lockfile

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMappingKeepsLockWithoutDescriptor(t *testing.T) {
	d := openTest(t)
	before := openFiles(t)
	m := ok(ok(d.Publish("a", 0o600, text("whole")))(t).Map(5, false))(t)
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
	if string(m.Data) != "whole" || cap(m.Data) != 5 {
		t.Errorf("%q, capacity %d", m.Data, cap(m.Data))
	}
	if sweep(t, d, "a") {
		t.Error("swept while mapped")
	}
	_, err := d.LockExclusive("a")
	wantErr(t, err, ErrLocked)
	// It is one hold of several.
	last, err := ok(d.LockShared("a", false))(t).RemoveIfLast(nil)
	if last || err != nil {
		t.Errorf("another that leaves is the last: %v, %v", last, err)
	}
	must(t, m.Close())
	if m.Data != nil {
		t.Error("Data is still there")
	}
	if !sweep(t, d, "a") {
		t.Error("not swept after Close")
	}
}

func TestMappingKeepsExclusiveLock(t *testing.T) {
	d := openTest(t)
	leave(t, d, "a", "whole")
	m := ok(ok(d.LockExclusive("a"))(t).Map(5, true))(t)
	_, err := d.LockShared("a", false)
	wantErr(t, err, ErrLocked)
	must(t, m.Close())
	must(t, ok(d.LockShared("a", false))(t).Release())
}

func TestMapAsProtectionAndFlags(t *testing.T) {
	d := openTest(t)
	leave(t, d, "a", "whole")
	reader := ok(ok(d.LockShared("a", false))(t).Map(4, false))(t)
	writer := ok(ok(d.LockShared("a", true))(t).Map(5, true))(t)
	private := ok(ok(d.LockShared("a", false))(t).MapAs(5, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE))(t)
	private.Data[0] = 'P'
	writer.Data[0] = 'W'
	if string(reader.Data) != "Whol" || string(private.Data) != "Phole" || content(t, d, "a") != "Whole" {
		t.Errorf("%q %q %q", reader.Data, private.Data, content(t, d, "a"))
	}
	// Each of the three is a hold.
	for _, m := range []*Mapping{reader, writer, private} {
		if sweep(t, d, "a") {
			t.Fatal("swept while mapped")
		}
		must(t, m.Close())
	}
	if !sweep(t, d, "a") {
		t.Error("not swept")
	}
}

func TestFailedMapReleasesLock(t *testing.T) {
	d := openTest(t)
	leave(t, d, "a", "whole")
	leave(t, d, "empty", "")
	for _, test := range []struct {
		name, file string
		length     int
		write      bool
		want       string
	}{
		{"beyond the end", "a", 6, false, "mapping 6 bytes"},
		{"nothing", "a", 0, false, "mapping 0 bytes"},
		{"less than nothing", "a", -1, false, "mapping -1 bytes"},
		{"an empty file", "empty", 1, false, "the file has 0"},
		{"for writing what was opened for reading", "a", 5, true, "permission denied"},
	} {
		files := openFiles(t)
		m, err := ok(d.LockShared(test.file, false))(t).Map(test.length, test.write)
		if m != nil || err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(),
			d.FilePath(test.file)) {
			t.Errorf("%s: %v", test.name, err)
		}
		if after := openFiles(t); after != files {
			t.Errorf("%s: %d descriptors are open, %d were", test.name, after, files)
		}
		must(t, ok(d.LockExclusive(test.file))(t).Release())
	}
}

func TestThousandsOfMappingsNeedNoDescriptor(t *testing.T) {
	d := openTest(t)
	files := openFiles(t)
	var maps []*Mapping
	for i := range 3000 {
		maps = append(maps, ok(ok(d.Publish(fmt.Sprint(i), 0o600, text("x")))(t).Map(1, false))(t))
	}
	if after := openFiles(t); after != files {
		t.Errorf("%d descriptors are open, %d were", after, files)
	}
	if removed := ok(d.SweepSome(4000))(t); removed != 0 {
		t.Errorf("%d were swept", removed)
	}
	for _, m := range maps {
		must(t, m.Close())
	}
	if removed := ok(d.SweepSome(4000))(t); removed != 3000 {
		t.Errorf("%d were swept", removed)
	}
}
