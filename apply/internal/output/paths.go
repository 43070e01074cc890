package output

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"os"
	"path"
	"path/filepath"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/spool"
	"leat/internal/gdal"
	"leat/internal/localpath"
	"leat/internal/storeurl"
)

// nativeName is GDAL's name of GeoTIFF.
const nativeName = "GTiff"

// Spec is what the user asked for.
type Spec jobspec.Output

// InStore reports whether the output is an object in a store.
func (s *Spec) InStore() bool { return storeurl.Is(s.Path) }

// Label returns the output's path for messages and files.
func (s *Spec) Label() string { return storeurl.Redact(s.Path) }

// Identity identifies the output: its real path, or its URL.
func (s *Spec) Identity() string {
	if s.InStore() {
		return s.Label()
	}
	return localpath.Real(s.Path)
}

// ClaimPath returns the path that is claimed for the output. An object in a store is claimed by the
// sum of its URL, as a file that is never made. A directory, as in some formats, is claimed by a
// file next to it that is never made.
func (s *Spec) ClaimPath() string {
	path := s.Identity()
	if s.InStore() {
		sum := sha256.Sum256([]byte(path))
		return fmt.Sprintf("/leat-output-%x", sum[:16])
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+DirectoryClaim)
	}
	return path
}

// DirectoryClaim is the suffix of the path that is claimed for a directory.
const DirectoryClaim = ".leat-folder"

// SpoolDir returns the directory of the unfinished output; "" for that of the output itself.
func (s *Spec) SpoolDir() string {
	if s.TempDir == "" && s.InStore() {
		return os.TempDir()
	}
	return s.TempDir
}

// Target returns the output as its spool identifies it.
func (s *Spec) Target() spool.Target {
	return spool.Target{Path: s.Identity(), Label: s.Label(), TempDir: s.SpoolDir(), InStore: s.InStore()}
}

// SpoolPath returns the path of the output's spool.
func (s *Spec) SpoolPath() string {
	t := s.Target()
	return t.SpoolPath()
}

// localPath returns the local name of the finished file. The file of an object gets it, or a
// similar one, only if it can't be uploaded.
func (s *Spec) localPath() string {
	if !s.InStore() {
		return localpath.Absolute(s.Path)
	}
	base := path.Base(s.Label())
	ext := path.Ext(base)
	sum := crc32.Checksum([]byte(s.Identity()), crc32.MakeTable(crc32.Castagnoli))
	name := fmt.Sprintf("%s-%08x%s", strings.TrimSuffix(base, ext), sum, ext)
	return localpath.Absolute(filepath.Join(s.SpoolDir(), name))
}

// StagingPath returns the path next to which GDAL's hidden directory is while the output is made.
func (s *Spec) StagingPath() string {
	if s.InStore() {
		return s.localPath()
	}
	return s.Identity()
}

// UsesGDAL reports whether the output is written through GDAL.
func (s *Spec) UsesGDAL() bool { return s.Format != "" && !strings.EqualFold(s.Format, nativeName) }

// isNative reports whether the output is a GeoTIFF that leat writes itself.
func (s *Spec) isNative() bool { return s.Table == nil && !s.Polygons && !s.UsesGDAL() }

// FormatName returns GDAL's name of the output's format, or that of the table.
func (s *Spec) FormatName() string {
	if s.Polygons {
		return gdal.PolygonDriver(s.Path)
	}
	if s.Table != nil {
		return s.Table.Format
	}
	if s.UsesGDAL() {
		return s.Format
	}
	return nativeName
}

// sidecarSuffixes are the suffixes of the sidecars of a GeoTIFF.
var sidecarSuffixes = []string{".aux.xml", ".ovr", ".msk", ".msk.ovr"}
