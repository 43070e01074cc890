package gdal

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// GDAL's list of the files of a VRT has those that it names, where they are plain files. What these consist of, being VRTs themselves, and files behind names such as
// NETCDF:"a.nc":b, /vsizip/a.zip/b.tif or a VRT in a VRT's text are missing from it, though pixels come from them.

const (
	vrtHead  = 1024     // bytes in which a VRT shows that it is one, as GDAL takes it
	vrtBytes = 64 << 20 // no text of a VRT that people have is longer
)

// sources adds to the files of a VRT those behind them.
func sources(names []string) []string {
	seen := map[string]bool{}
	var all []string
	add := func(name string) {
		key := name
		if abs, err := filepath.Abs(name); err == nil && plainFile(name) {
			key = abs
		}
		if !seen[key] {
			seen[key] = true
			all = append(all, name)
		}
	}
	for _, name := range names {
		add(fileIn(name, ""))
	}
	for i := 0; i < len(all); i++ {
		name := all[i]
		if !plainFile(name) {
			continue
		}
		if i > 0 && plainFile(name+".msk") { // a VRT may use it; what lies beside the first one GDAL lists
			add(name + ".msk")
		}
		for _, s := range sourcesOf(vrtText(name), filepath.Dir(name)) {
			add(s)
		}
	}
	return all
}

func plainFile(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.Mode().IsRegular()
}

// vrtText is the text of a file that is a VRT; nil of others.
func vrtText(name string) []byte {
	f, err := os.Open(name)
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

// sourcesOf lists the sources that a VRT in a folder names: files, and names of which no part is a file as they are.
func sourcesOf(text []byte, folder string) (names []string) {
	if text == nil {
		return nil
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // GDAL takes bytes as they are
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
				within = folder
			}
		}
		switch {
		case source == "":
		case strings.HasPrefix(source, "<"):
			names = append(names, sourcesOf([]byte(source), folder)...)
		default:
			names = append(names, fileIn(source, within))
		}
	}
}

// fileIn is the plain file that one of GDAL's names leads to, the name itself where there is none. Relative ones lie in folder.
func fileIn(name, folder string) string {
	path := func(s string) string {
		if folder != "" && !filepath.IsAbs(s) {
			return filepath.Join(folder, s)
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
		// In an archive: the longest beginning that is a file.
		for p := path(part); p != "." && p != "/"; p = filepath.Dir(p) {
			if plainFile(strings.TrimSuffix(p, "}")) {
				return strings.TrimSuffix(p, "}")
			}
		}
	}
	return name
}
