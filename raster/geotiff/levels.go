package geotiff

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"leat/ndarray"
	"leat/raster"
)

// level is a reduced copy and its masks.
type level struct {
	im    *image
	masks []*image
}

// addLevels finds the reduced copies and masks among the directories after the first one and below it.
func (f *File) addLevels(dirs []*directory) error {
	below, err := f.im.subDirectories(dirs[0])
	if err != nil {
		return err
	}
	parts, err := reducedOf(append(slices.Clone(dirs[1:]), below...))
	if err != nil {
		return err
	}
	f.sortIn(parts)
	return nil
}

// subDirectories reads the directories that tag SubIFDs names. Where it names none, there are none.
func (im *image) subDirectories(d *directory) ([]*directory, error) {
	places, err := d.uints(tagSubIFDs)
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

// reducedOf returns the layouts of the directories that say that they are reduced copies or masks; the others
// are pages of their own and no concern of the first.
func reducedOf(dirs []*directory) ([]*image, error) {
	var out []*image
	for _, d := range dirs {
		kind, err := d.uint(tagNewSubfileType, 0)
		if err != nil {
			return nil, err
		}
		if kind&(subfileReduced|subfileMask) == 0 {
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

// sortIn adds reduced copies to the levels, and masks to the image of their size.
func (f *File) sortIn(parts []*image) {
	for _, p := range parts {
		if f.im.pixel == ndarray.Int8 && p.pixel == ndarray.Uint8 && !p.isMsk {
			p.pixel = ndarray.Int8 // GDAL before 3.7 forgets the sign in the overviews of signed bytes
		}
		smaller := p.width <= f.im.width && p.height <= f.im.height && (p.width < f.im.width || p.height < f.im.height)
		if p.isMsk || !smaller || p.spp != f.im.spp || p.pixel != f.im.pixel || p.conv != f.im.conv {
			continue
		}
		if !slices.ContainsFunc(f.found, func(l level) bool { return l.im.width == p.width && l.im.height == p.height }) {
			f.found = append(f.found, level{im: p})
		}
	}
	slices.SortStableFunc(f.found, func(a, b level) int { return b.im.width*b.im.height - a.im.width*a.im.height })
	for _, p := range parts {
		if p.isMsk {
			f.addMask(p)
		}
	}
}

// addMask gives a mask, of one band or of as many as the image has, to the image of its size, unless that has one.
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

// finishLevels makes the files of the levels. A level without mask of an image that has one would show
// invalid pixels as valid, so it is left out.
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
		if info.Grid.HasTransform {
			x, y := float64(f.im.width)/float64(l.im.width), float64(f.im.height)/float64(l.im.height)
			t := &info.Grid.Transform
			t[1], t[4], t[2], t[5] = t[1]*x, t[4]*x, t[2]*y, t[5]*y
		}
		masks := l.masks
		if len(f.masks) == 0 {
			masks = nil
		}
		f.levels = append(f.levels, &File{info: &info, im: l.im, masks: masks, fill: f.fill})
		f.info.Overviews = append(f.info.Overviews, raster.Size{Width: l.im.width, Height: l.im.height})
	}
}

// addSidecars reads what lies beside the file, as GDAL does: overviews in FILE.ovr, masks in FILE.msk and their
// overviews in FILE.msk.ovr, and more about the bands in FILE.aux.xml.
func (f *File) addSidecars(beside Beside) error {
	if len(f.found) == 0 {
		parts, err := f.sidecar(beside, ".ovr", true)
		if err != nil {
			return err
		}
		f.sortIn(parts)
	}
	if len(f.masks) == 0 {
		for _, suffix := range []string{".msk", ".msk.ovr"} {
			parts, err := f.sidecar(beside, suffix, false)
			if err != nil {
				return err
			}
			if parts == nil { // overviews of a mask belong to one
				break
			}
			for _, p := range parts {
				f.addMask(p)
			}
		}
	}
	if !f.info.Grid.HasTransform {
		if err := f.addWorldFile(beside); err != nil {
			return err
		}
	}
	return f.addPAM(beside)
}

// addWorldFile reads the transform from a world file beside the file: six numbers, the last two the centre of
// the first pixel.
func (f *File) addWorldFile(beside Beside) error {
	for _, ext := range []string{".tfw", ".TFW", ".tifw", ".wld"} {
		text, name, err := textBeside(beside, ext, true, 4096)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		words := strings.Fields(text)
		var v [6]float64
		for i := range v {
			ok := false
			if i < len(words) {
				v[i], ok = parseNumber(words[i])
			}
			if !ok {
				return fmt.Errorf("%s: is no world file: it should hold six numbers; remove it or write it again (%w)", name, raster.ErrFormat)
			}
		}
		t := raster.Transform{0, v[0], v[2], 0, v[1], v[3]}
		if t[1] == 0 && t[2] == 0 || t[4] == 0 && t[5] == 0 {
			return nil
		}
		t[0] = v[4] - 0.5*t[1] - 0.5*t[2]
		t[3] = v[5] - 0.5*t[4] - 0.5*t[5]
		f.info.Grid.Transform, f.info.Grid.HasTransform = t, true
		return nil
	}
	return nil
}

// sidecar returns the images of a TIFF beside the file; none when there is no such file. The first directory
// of an .ovr is the first overview, that of a .msk the mask.
func (f *File) sidecar(beside Beside, suffix string, overviews bool) ([]*image, error) {
	r, size, name, err := beside(suffix, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parts, err := sidecarImages(r, size, name, overviews)
	if err != nil {
		return nil, errors.Join(err, closeAt(r))
	}
	f.addCloser(r)
	return parts, nil
}

func sidecarImages(r io.ReaderAt, size int64, name string, overviews bool) ([]*image, error) {
	c, at, err := newContainer(r, size, name)
	if err != nil {
		return nil, err
	}
	dirs, err := c.readChain(at)
	if err != nil {
		return nil, err
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
	if !overviews {
		first.reduced = false // a .msk.ovr begins with a reduced copy, which is found by its size
	}
	return parts, nil
}
