package geotiff

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"leat/internal/driver"
	"leat/internal/tiff"
	"leat/ndarray"
	"leat/raster"
)

// level is an overview and its masks.
type level struct {
	im    *image
	masks []*image
}

// addLevels finds the overviews and masks among the further directories and the subdirectories.
func (f *File) addLevels(dirs []*directory) error {
	below, err := f.im.subDirectories(dirs[0])
	if err != nil {
		return err
	}
	parts, err := reducedOf(append(slices.Clone(dirs[1:]), below...))
	if err != nil {
		return err
	}
	f.addParts(parts)
	return nil
}

// subDirectories reads the directories that the tag SubIFDs lists.
func (im *image) subDirectories(d *directory) ([]*directory, error) {
	places, err := d.uints(tiff.TagSubIFDs)
	if err != nil {
		return nil, err
	}
	var out []*directory
	for _, at := range places[:min(len(places), maxDirectories)] {
		sub, err := d.readDirectory(int64(min(at, 1<<62)))
		if err != nil {
			return nil, err
		}
		out = append(out, sub)
	}
	return out, nil
}

// reducedOf returns the images of the directories that are marked as overviews or masks. The others
// are independent pages.
func reducedOf(dirs []*directory) ([]*image, error) {
	var out []*image
	for _, d := range dirs {
		kind, err := d.uint(tiff.TagNewSubfileType, 0)
		if err != nil {
			return nil, err
		}
		if kind&(tiff.SubfileReduced|tiff.SubfileMask) == 0 {
			continue
		}
		im, err := newImage(d)
		if err != nil {
			return nil, err
		}
		out = append(out, im)
	}
	return out, nil
}

// addParts adds overviews to the levels, and masks to the image of their size.
func (f *File) addParts(parts []*image) {
	for _, p := range parts {
		if f.im.pixel == ndarray.Int8 && p.pixel == ndarray.Uint8 && !p.isMask {
			p.pixel = ndarray.Int8 // GDAL before 3.7 writes overviews of signed bytes as unsigned
		}
		smaller := p.width <= f.im.width && p.height <= f.im.height && (p.width < f.im.width || p.height < f.im.height)
		if p.isMask || !smaller || p.spp != f.im.spp || p.pixel != f.im.pixel || p.conv != f.im.conv {
			continue
		}
		if !slices.ContainsFunc(f.found,
			func(l level) bool { return l.im.width == p.width && l.im.height == p.height }) {
			f.found = append(f.found, level{im: p})
		}
	}
	slices.SortStableFunc(f.found, func(a, b level) int { return b.im.width*b.im.height - a.im.width*a.im.height })
	for _, p := range parts {
		if p.isMask {
			f.addMask(p)
		}
	}
}

// addMask adds a mask, of one band or of as many as the image, to the image of its size unless that
// has a mask.
func (f *File) addMask(m *image) {
	if m.spp != 1 && m.spp != f.im.spp || m.pixel != ndarray.Uint8 {
		return
	}
	if m.width == f.im.width && m.height == f.im.height {
		if !m.reduced && len(f.masks) == 0 {
			f.masks = []*image{m}
		}
		return
	}
	for i := range f.found {
		l := &f.found[i]
		if l.im.width == m.width && l.im.height == m.height && len(l.masks) == 0 {
			l.masks = []*image{m}
		}
	}
}

// finishLevels builds the Files of the levels. If the image has a mask, levels without one are
// omitted, since they would show invalid pixels as valid.
func (f *File) finishLevels() {
	f.levels, f.info.Overviews = nil, nil
	for _, l := range f.found {
		if len(l.masks) == 0 && len(f.masks) > 0 {
			continue
		}
		info := *f.info
		layoutInfo(&info, l.im)
		info.Overviews = nil
		info.Grid.Width, info.Grid.Height = l.im.width, l.im.height
		info.Grid.GCPs, info.Grid.RPC = nil, nil // they count pixels of full resolution
		if info.Grid.HasTransform {
			x, y := float64(f.im.width)/float64(l.im.width), float64(f.im.height)/float64(l.im.height)
			t := &info.Grid.Transform
			t[1], t[4], t[2], t[5] = t[1]*x, t[4]*x, t[2]*y, t[5]*y
		}
		masks := l.masks
		if len(f.masks) == 0 {
			masks = nil
		}
		f.levels = append(f.levels, &File{info: &info, im: l.im, masks: masks, values: f.values, fill: f.fill})
		f.info.Overviews = append(f.info.Overviews, raster.Size{Width: l.im.width, Height: l.im.height})
	}
}

// addSidecars reads the sidecars that GDAL reads: overviews in FILE.ovr, masks in FILE.msk and
// their overviews in FILE.msk.ovr, a world file, and metadata in FILE.aux.xml.
func (f *File) addSidecars(sidecars SidecarOpener) error {
	if len(f.found) == 0 {
		parts, err := f.sidecar(sidecars, ".ovr")
		if err != nil {
			return err
		}
		f.addParts(parts)
	}
	if len(f.masks) == 0 {
		for _, suffix := range []string{".msk", ".msk.ovr"} {
			parts, err := f.sidecar(sidecars, suffix)
			if err != nil {
				return err
			}
			if parts == nil { // without a mask there are no overviews of it
				break
			}
			for _, p := range parts {
				f.addMask(p)
			}
		}
	}
	if !f.info.Grid.HasTransform {
		if err := f.addWorldFile(sidecars); err != nil {
			return err
		}
	}
	return f.addPAM(sidecars)
}

// addWorldFile reads the transform from a world file: six numbers, the last two the centre of the
// first pixel.
func (f *File) addWorldFile(sidecars SidecarOpener) error {
	for _, ext := range []string{".tfw", ".TFW", ".tifw", ".wld"} {
		text, name, err := sidecarText(sidecars, ext, true, 4096)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		v, ok := worldNumbers(text)
		if !ok {
			f.notes = append(f.notes, fmt.Sprintf("world file %s ignored: expected six numbers", name))
			continue
		}
		t := raster.Transform{0, v[0], v[2], 0, v[1], v[3]}
		if t[1] == 0 && t[2] == 0 || t[4] == 0 && t[5] == 0 {
			return nil
		}
		t[0] = v[4] - float64(0.5*t[1]) - float64(0.5*t[2])
		t[3] = v[5] - float64(0.5*t[4]) - float64(0.5*t[5])
		g := &f.info.Grid
		g.Transform, g.HasTransform = t, true
		if g.GCPs != nil { // the file's own points, whose CRS becomes that of the transform
			g.CRS, g.GCPs = g.GCPs.CRS, nil
		}
		return nil
	}
	return nil
}

// worldNumbers parses the six numbers of a world file, which may have decimal commas.
func worldNumbers(text string) (v [6]float64, ok bool) {
	words := strings.Fields(strings.ReplaceAll(text, ",", "."))
	if len(words) < len(v) {
		return v, false
	}
	for i := range v {
		if v[i], ok = parseNumber(words[i]); !ok || math.IsNaN(v[i]) || math.IsInf(v[i], 0) {
			return v, false
		}
	}
	return v, true
}

// sidecar returns the images of a TIFF sidecar, none if there is no such file. The first directory
// of an .ovr is the first overview, that of a .msk the mask.
func (f *File) sidecar(sidecars SidecarOpener, suffix string) ([]*image, error) {
	r, size, name, err := sidecars(suffix, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parts, err := sidecarImages(r, size, name, suffix)
	if err != nil {
		return nil, errors.Join(err, driver.Close(r))
	}
	f.addCloser(r)
	return parts, nil
}

func sidecarImages(r io.ReaderAt, size int64, name, suffix string) ([]*image, error) {
	c, at, err := newContainer(r, size, name)
	if err != nil {
		return nil, err
	}
	dirs, err := c.readChain(at)
	if err != nil {
		return nil, err
	}
	if suffix == ".msk" {
		if ok, err := flaggedMask(dirs[0]); !ok {
			return nil, err
		}
	}
	first, err := newImage(dirs[0])
	if err != nil {
		return nil, err
	}
	rest, err := reducedOf(dirs[1:])
	if err != nil {
		return nil, err
	}
	parts := append([]*image{first}, rest...)
	if suffix != ".ovr" {
		first.reduced = false // the first directory of a .msk.ovr is an overview, found by its size
	}
	return parts, nil
}

// flaggedMask reports whether a .msk declares which bands it masks. GDAL ignores one that does not.
func flaggedMask(d *directory) (bool, error) {
	items, err := gdalItems(d)
	return slices.ContainsFunc(items, func(it gdalItem) bool { return it.Name == "INTERNAL_MASK_FLAGS_1" }), err
}
