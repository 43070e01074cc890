package driver

import "leat/raster"

// ScanWindow returns the size of the windows, of at most maxPixels pixels, in which to read a whole
// raster: several rows of tiles if they fit, else several tiles, else part of a tile, which is then
// decoded more than once.
func ScanWindow(info *raster.Info, maxPixels int) (width, height int) {
	w, h := info.Grid.Width, info.Grid.Height
	tw, th := max(1, min(info.TileWidth, w)), max(1, min(info.TileHeight, h))
	switch {
	case w*th <= maxPixels:
		return w, min(h, th*max(1, maxPixels/(w*th)))
	case tw*th <= maxPixels:
		return min(w, tw*(maxPixels/(tw*th))), th
	}
	width = min(tw, maxPixels)
	return width, max(1, maxPixels/width)
}

// AlphaMask sets mask to 255 where the alpha band is not 0, and to 0 elsewhere. size is the size of
// a pixel of alpha in bytes; in every type a zero has only zero bytes.
func AlphaMask(alpha []byte, size int, mask []byte) {
	for i := range mask {
		mask[i] = 0
		for _, b := range alpha[i*size : (i+1)*size] {
			if b != 0 {
				mask[i] = 255
				break
			}
		}
	}
}
