package demo

// surface is what a pixel reflects: red and near infrared, reflectance x 10000.
type surface struct{ red, nir int32 }

// The crops of the fields, from dry and sandy soils to wet ones.
var crops = [...]surface{
	{2300, 3050}, {1900, 2650}, {1350, 2600}, {1150, 2800}, // bare or ripe
	{420, 4300}, {980, 3100}, {380, 4800}, {1250, 2900}, {520, 3900}, {450, 4550}, {330, 5200}, // cereals, beet, maize
	{760, 3400}, {650, 3600}, {560, 3500}, // meadows
}

// stubble is a field after its harvest.
var stubble = surface{1700, 2500}

// Classes of the scene classification of Sentinel-2's level 2A (SCL).
const (
	classNone       = 0
	classShadow     = 3
	classVegetation = 4
	classBare       = 5
	classWater      = 6
	classThinCloud  = 8
	classCloud      = 9
)

// painter paints rows of a window of the scene. It is for one goroutine.
type painter struct {
	size, col0, width              int
	elev, wood, warpU, warpV, edge *field
	grain, cloud, shadow           *field
	lit                            int     // columns to the east, to which the slope is taken
	e, w, u, v, d, g, c, sh        []int32 // the fields along a row
	road                           []int32 // how much of the pixel is road, of 256
	towns                          []town  // near the row
	x                              []int   // positions of the columns
	parcelID                       [3]int  // the last parcel painted,
	crop                           surface // what grows there
	meadow                         bool    // and whether it is grass where the river is near
	date                           int
}

func newPainter(size, col0, width, date int) *painter {
	s := &painter{size: size, col0: col0, width: width, date: date}
	s.elev = newField(101, 0, 0, 1531, 14000, 797, 9000, 389, 5200, 197, 2600, 97, 1200, 47, 600, 23, 250)
	s.wood = newField(202, 0, 0, 911, 11000, 433, 7000, 167, 4500, 61, 2600, 29, 1600, 13, 900)
	s.warpU = newField(303, 0, 0, 1211, 330*256, 173, 14*256)
	s.warpV = newField(404, 0, 0, 1211, 330*256, 173, 14*256)
	s.edge = newField(505, 0, 0, 71, 60, 31, 40, 13, 20)
	s.grain = newField(606, 0, 0, 9, 90, 4, 70, 2, 50)
	clouds := []int{1900, 15000, 700, 7000, 241, 8000, 113, 7000, 53, 4200, 27, 2500, 13, 1400, 6, 800}
	weather := 707 + 1009*uint32(date)
	s.cloud = newField(weather, 0, 0, clouds...)
	s.shadow = newField(weather, 46, 62, clouds...) // the sun stands in the south-east
	for _, f := range []*field{s.wood, s.warpU, s.warpV, s.edge, s.grain, s.cloud, s.shadow} {
		f.columns(size, col0, width)
	}
	s.lit = max(1, 3*size/BaseSize)
	s.elev.columns(size, col0, width+s.lit)
	s.e = make([]int32, width+s.lit)
	for _, p := range []*[]int32{&s.w, &s.u, &s.v, &s.d, &s.g, &s.c, &s.sh, &s.road} {
		*p = make([]int32, width)
	}
	s.x = make([]int, width)
	for i := range s.x {
		s.x[i] = positionOf(col0+i, size)
	}
	return s
}

// row paints one row.
func (s *painter) row(row int, red, nir []uint16, class []uint8) {
	y := positionOf(row, s.size)
	s.elev.at(y, noFloor, s.e)
	s.wood.at(y, noFloor, s.w)
	s.warpU.at(y, noFloor, s.u)
	s.warpV.at(y, noFloor, s.v)
	s.edge.at(y, noFloor, s.d)
	s.grain.at(y, noFloor, s.g)
	s.cloud.at(y, cloudBase, s.c)
	s.shadow.at(y, cloudBase, s.sh)
	s.towns = s.towns[:0]
	for _, t := range sceneTowns {
		if abs(y/unit-t.y) < 2*t.radius {
			s.towns = append(s.towns, t)
		}
	}
	paintRoads(y, s.x, s.road)
	riv := theRiver()
	// The edge of the swath cuts the lower right corner.
	edge := (BaseSize - (y/unit-3400)*28/100) * unit
	for i, x := range s.x {
		if x > edge {
			red[i], nir[i], class[i] = 0, 0, classNone
			continue
		}
		p := s.land(i, x, y, riv)
		class[i] = s.classOf(i, p)
		p = s.sky(i, p)
		// Sensor noise: two sums of bytes, nearly normal, a few DN wide and growing with the
		// signal.
		h := mix(s.col0+i, row, 909+uint32(s.date))
		n1 := int32(h&255+h>>8&255) - 255
		n2 := int32(h>>16&255+h>>24) - 255
		red[i] = dn(p.red + n1*(40+p.red>>5)>>9)
		nir[i] = dn(p.nir + n2*(40+p.nir>>5)>>9)
	}
}

// dn is the digital number of a reflectance: never 0, which is nodata.
func dn(v int32) uint16 { return uint16(min(max(v+offset, 1), 65535)) }

func abs(v int) int {
	if v < 0 {
		return -v
	}
	return v
}

// land is the ground at pixel i.
func (s *painter) land(i, x, y int, riv *river) surface {
	toWater := riv.distance(x, y)
	e, grain := s.e[i], s.g[i]
	if toWater < 0 || e < -17500 {
		depth := min(-toWater, 400)
		if toWater >= 0 {
			depth = min((-17500-e)/8, 400)
		}
		// Shallow water shows its bed; what blows over it is grain enough.
		return s.onRoad(i, surface{420 - depth/4 + grain>>4, 210 - depth/5 + grain>>5})
	}
	var p surface
	texture := grain
	density := s.town(i, x, y)
	switch {
	case density > 0:
		p = s.built(x, y, density, &texture)
	case toWater < 7*16 || e < -17100: // the bank: reeds and willows
		p = surface{480, 3000}
	case s.w[i]+e/3 > 4300 && toWater > 40*16+s.d[i]*4:
		// Broad-leaved where it is lower, conifers above.
		p = surface{260, 3300}
		if e > 4000 {
			p = surface{220, 2300}
		}
		stand := min(max(s.w[i]-9000, -8000), 8000) // its age and density
		p.red, p.nir = p.red-stand/128, p.nir+stand/16
		texture = grain * 2
	default:
		p = s.parcel(i, x, y, toWater, &texture)
	}
	// Relief is lit from the east; the plain is flat.
	shade := (e - s.e[i+s.lit]) * 2 / 3
	shade = min(max(shade, -500), 500)
	if e < 0 {
		shade /= 3
	}
	p.red += p.red * (texture*3/4 + shade) >> 10
	p.nir += p.nir * (texture/2 + shade) >> 10
	return s.onRoad(i, p)
}

// onRoad lays the road, if any, over the ground at pixel i.
func (s *painter) onRoad(i int, p surface) surface {
	if a := s.road[i]; a > 0 {
		p.red += (1500 - p.red) * a >> 8
		p.nir += (1850 - p.nir) * a >> 8
	}
	return p
}

// town is how densely built pixel i is: 0 outside, up to 1000 in a centre.
func (s *painter) town(i, x, y int) int {
	best := 0
	for _, t := range s.towns {
		dx, dy := x/unit-t.x, y/unit-t.y
		if abs(dx) > 2*t.radius {
			continue
		}
		// Squares suffice: 1000 in the middle, 0 at the radius, which the noise frays.
		r := t.radius * (100 + int(s.d[i])*2/3) / 100
		if d := 1000 - 1000*(dx*dx+dy*dy)/(r*r+1); d > best {
			best = d
		}
	}
	return best
}

// built is a pixel of a town: blocks between streets, gardens farther out.
func (s *painter) built(x, y, density int, texture *int32) surface {
	// Streets lie at 20 degrees.
	u, v := (x*3849+y*1401)>>12, (y*3849-x*1401)>>12
	bu, bv := (u+1<<20)/(9*unit), (v+1<<20)/(7*unit)
	h := mix(bu, bv, 31)
	*texture *= 2
	switch k := int(h % 1000); {
	case k < 90:
		return surface{650, 3300} // parks
	case k < 110+density/6:
		return surface{2400 + int32(h>>12&511), 2700 + int32(h>>12&511)} // large roofs
	case k > 500+density/2:
		return surface{950, 2700} // gardens
	}
	return surface{1350 + int32(h>>10&255), 1950 + int32(h>>18&255)}
}

// cropOf is what grows on a part of a parcel. Crops go by region, for they follow the soil, with
// exceptions. u and v are where it lies, in 20 m pixels along and across the strips of fields.
func cropOf(col, row, part, u, v int) surface {
	const region = 700 // 20 m pixels
	corner := func(i, j int) int { return int(mix(u/region+i, v/region+j, 53) >> 20) }
	cx, cy := smooth(u%region*4096/region), smooth(v%region*4096/region)
	top := corner(0, 0)*(4096-cx) + corner(1, 0)*cx
	bottom := corner(0, 1)*(4096-cx) + corner(1, 1)*cx
	soil := (top>>12*(4096-cy) + bottom>>12*cy) >> 12 // 0..4095
	h := mix(col, row, 54+uint32(part))
	n := len(crops)
	k := (soil-2048)*n*5/4>>12 + n/2 + int(h&7) - 3
	if h>>4&7 == 0 {
		k = int(h>>8) % n
	}
	p := crops[min(max(k, 0), n-1)]
	// No two fields of a crop look the same: a quarter more or less of red, an eighth of infrared.
	p.red += p.red * (int32(h>>24) - 128) >> 9
	p.nir += p.nir * (int32(h>>16&255) - 128) >> 10
	return p
}

// parcel is a pixel of farmland.
func (s *painter) parcel(i, x, y int, toWater int32, texture *int32) surface {
	// The land is divided along directions that turn slowly over the scene.
	u := (x*3784+y*1567)>>12 + int(s.u[i]) + 1<<21
	v := (y*3784-x*1567)>>12 + int(s.v[i]) + 1<<21
	const strip = 66 * unit
	row := v / strip
	h := mix(row, 0, 41)
	width := (40 + int(h&63)) * unit
	u += int(h >> 8 & 0xffff)
	col := u / width
	inner, across := v%strip, u%width
	part := 0
	// Most parcels are split once or twice more, lengthwise or across.
	switch h = mix(col, row, 42); h & 7 {
	case 0, 1, 2:
		part = inner / (strip / 2)
		inner -= part * (strip / 2)
	case 3, 4:
		part = across / (width/2 + 1)
		across -= part * (width/2 + 1)
	case 5, 6:
		part = inner / (strip / 3)
		inner -= part * (strip / 3)
	}
	if id := [3]int{col, row, part}; id != s.parcelID {
		s.parcelID, s.crop, s.meadow = id, cropOf(col, row, part, (col*width+width/2)/unit, row*strip/unit),
			mix(col, row, 51)>>30 != 0
		if harvest := int(mix(col, row, 71+uint32(part)) % 12); s.date > 0 && harvest < s.date {
			s.crop = stubble
		}
	}
	p := s.crop
	if s.meadow && toWater < 90*16+s.d[i]*6 {
		p = surface{560, 3700} // meadows in the valley
	}
	// Hedges and tracks along the edges.
	if inner < unit || across < unit {
		return surface{p.red/2 + 350, p.nir/2 + 1300}
	}
	*texture = *texture / 2
	return p
}

// cloudBase is where the cloud field becomes a cloud.
const cloudBase = 15500

// sky puts cloud and cloud shadow over the ground at pixel i.
func (s *painter) sky(i int, p surface) surface {
	if d := min(s.sh[i]-cloudBase, 3000); d > 0 {
		f := 4096 - d*2400/3000
		p.red, p.nir = p.red*f>>12, p.nir*f>>12
	}
	if d := s.c[i] - cloudBase; d > 0 {
		a := min(d*4096/5000, 4096)
		bright := 5200 + min(d/3, 3000) + s.g[i]
		p.red += (bright - p.red) * a >> 12
		p.nir += (bright + 300 - p.nir) * a >> 12
	}
	return p
}

// classOf returns the class of pixel i, whose ground is p.
func (s *painter) classOf(i int, p surface) uint8 {
	switch d := s.c[i] - cloudBase; {
	case d > 1200:
		return classCloud
	case d > 0:
		return classThinCloud
	case s.sh[i] > cloudBase:
		return classShadow
	case p.nir < 700 && p.nir < p.red+200:
		return classWater
	case p.nir > 2*p.red:
		return classVegetation
	}
	return classBare
}
