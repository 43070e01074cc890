package gdal

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"

	"leat/internal/regular"
)

// GDAL lists the files that a VRT names if they are plain files. Its list lacks those of sources
// that are VRTs themselves, and files behind names such as NETCDF:"a.nc":b, /vsizip/a.zip/b.tif or
// the text of a VRT, although pixels come from them.

const (
	vrtHead  = 1024     // bytes in which GDAL recognizes a VRT
	vrtBytes = 64 << 20 // no VRT in practice is longer
)

// sources adds to the files of a VRT those that they refer to.
func sources(names []string) []string {
	var all nameSet
	for _, name := range names {
		all.add(fileIn(name, ""))
	}
	for i := 0; i < len(all.names); i++ {
		name := all.names[i]
		if !plainFile(name) {
			continue
		}
		if i > 0 && plainFile(name+".msk") { // a VRT may use it; GDAL lists the sidecars of the first file
			all.add(name + ".msk")
		}
		for _, s := range sourcesOf(vrtText(name), filepath.Dir(name)) {
			all.add(s)
		}
	}
	return all.names
}

// nameSet lists names in the order in which they were added, each once.
type nameSet struct {
	names []string
	seen  map[string]bool
}

func (s *nameSet) add(name string) {
	key := name
	if abs, err := filepath.Abs(name); err == nil && plainFile(name) {
		key = abs
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	if !s.seen[key] {
		s.seen[key] = true
		s.names = append(s.names, name)
	}
}

func plainFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// vrtText returns the text of a VRT file, and nil for other files.
func vrtText(name string) []byte {
	f, _, err := regular.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, vrtHead)
	n, _ := io.ReadFull(f, head)
	if head = head[:n]; !bytes.Contains(head, []byte("<VRTDataset")) {
		return nil
	}
	rest, err := io.ReadAll(io.LimitReader(f, vrtBytes))
	if err != nil {
		return nil
	}
	return append(head, rest...)
}

// sourcesOf lists the sources that a VRT in a directory names: files, and names that contain no
// path of an existing file.
func sourcesOf(text []byte, dir string) (names []string) {
	if text == nil {
		return nil
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // GDAL uses the bytes unchanged
	for {
		token, err := d.Token()
		if err != nil {
			return names
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local != "SourceFilename" && e.Name.Local != "SourceDataset" {
			continue
		}
		var source string
		if d.DecodeElement(&source, &e) != nil {
			return names
		}
		source = strings.TrimSpace(source)
		within := ""
		for _, a := range e.Attr {
			if strings.EqualFold(a.Name.Local, "relativeToVRT") && a.Value == "1" {
				within = dir
			}
		}
		switch {
		case source == "":
		case strings.HasPrefix(source, "<"):
			names = append(names, sourcesOf([]byte(source), dir)...)
		default:
			names = append(names, fileIn(source, within))
		}
	}
}

// fileIn returns the plain file that a GDAL name refers to, or the name itself if there is none.
// Relative names are relative to directory.
func fileIn(name, dir string) string {
	path := func(s string) string {
		if dir != "" && !filepath.IsAbs(s) {
			return filepath.Join(dir, s)
		}
		return s
	}
	if p := path(name); plainFile(p) {
		return p
	}
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == ':' || r == '"' })
	for _, part := range parts {
		for strings.HasPrefix(part, "/vsi") { // /vsigzip//vsizip/...
			_, part, _ = strings.Cut(part[1:], "/")
			part = strings.TrimPrefix(part, "{")
		}
		// Inside an archive: the longest prefix that is a file.
		for p := path(part); p != "." && p != "/"; p = filepath.Dir(p) {
			if plainFile(strings.TrimSuffix(p, "}")) {
				return strings.TrimSuffix(p, "}")
			}
		}
	}
	return name
}
