package objstore

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// fileTag returns a tag of a file's version, and the change time that the tag is made from.
func fileTag(fi fs.FileInfo) (string, time.Time) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fi.ModTime()
	}
	changed := time.Unix(st.Ctim.Unix())
	return fmt.Sprintf("%x-%x", st.Ino, changed.UnixNano()), changed
}
