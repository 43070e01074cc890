package report

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"strings"

	"leat/internal/preview"
)

// pictureBytes bounds the pictures of a page, before they are encoded as text.
const pictureBytes = 150 << 10

// smallPicture is the longest side in pixels below which the page, which shows a picture in up to
// 460 pixels, does not smooth its pixels.
const smallPicture = 230

// quicklookURL returns a picture of at most limit bytes as a data URL: a PNG if it is small enough,
// else a JPEG, whose invalid pixels are gray.
func quicklookURL(p *preview.Preview, limit int) (template.URL, error) {
	var b bytes.Buffer
	e := png.Encoder{CompressionLevel: png.BestCompression}
	if err := e.Encode(&b, p.Image); err != nil {
		return "", err
	}
	kind := "png"
	if b.Len() > limit {
		kind = "jpeg"
		if err := encodeJPEG(&b, opaque(p.Image), limit); err != nil {
			return "", err
		}
	}
	return template.URL("data:image/" + kind + ";base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

// encodeJPEG encodes a picture with the best quality, and at last the largest size, that limit
// allows.
func encodeJPEG(b *bytes.Buffer, img *image.RGBA, limit int) error {
	for {
		for _, quality := range []int{90, 80, 70, 60} {
			b.Reset()
			if err := jpeg.Encode(b, img, &jpeg.Options{Quality: quality}); err != nil {
				return err
			}
			if b.Len() <= limit {
				return nil
			}
		}
		if img.Rect.Dx() < 64 || img.Rect.Dy() < 64 {
			return nil
		}
		img = shrink(img)
	}
}

// opaque puts a picture on gray.
func opaque(img *image.NRGBA) *image.RGBA {
	out := image.NewRGBA(img.Rect)
	const gray = 0x99
	for i := 0; i < len(img.Pix); i += 4 {
		a := int(img.Pix[i+3])
		for k := range 3 {
			out.Pix[i+k] = uint8((int(img.Pix[i+k])*a + gray*(255-a)) / 255)
		}
		out.Pix[i+3] = 255
	}
	return out
}

// shrink returns a picture of three quarters of the size, each pixel the mean of those that it
// covers most of.
func shrink(img *image.RGBA) *image.RGBA {
	w, h := img.Rect.Dx()*3/4, img.Rect.Dy()*3/4
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		y0, y1 := y*img.Rect.Dy()/h, max((y+1)*img.Rect.Dy()/h, y*img.Rect.Dy()/h+1)
		for x := range w {
			x0, x1 := x*img.Rect.Dx()/w, max((x+1)*img.Rect.Dx()/w, x*img.Rect.Dx()/w+1)
			var sum [3]int
			for r := y0; r < y1; r++ {
				for c := x0; c < x1; c++ {
					p := img.RGBAAt(c, r)
					sum[0], sum[1], sum[2] = sum[0]+int(p.R), sum[1]+int(p.G), sum[2]+int(p.B)
				}
			}
			n := (y1 - y0) * (x1 - x0)
			out.SetRGBA(x, y, color.RGBA{uint8(sum[0] / n), uint8(sum[1] / n), uint8(sum[2] / n), 255})
		}
	}
	return out
}

// quicklookText describes the picture of an output with numbers, for readers who don't see it.
func quicklookText(r Raster) string {
	var b strings.Builder
	fmt.Fprintf(&b, "quicklook of %s", r.Name)
	if p := r.Preview; p.Ramp != nil {
		fmt.Fprintf(&b, ", colours from %.4g to %.4g", p.Lo, p.Hi)
	}
	for i, band := range r.Bands {
		if s := band.Statistics; s != nil && i < 4 {
			fmt.Fprintf(&b, "; band %d from %s to %s, mean %s, %s %% valid", band.Band, numberText(s.Min), numberText(s.Max),
				numberText(s.Mean), numberText(s.ValidPercent))
		}
	}
	return b.String()
}
