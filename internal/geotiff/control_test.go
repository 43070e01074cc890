package geotiff

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/georef"
	"leat/internal/pytest"
	"leat/internal/tiff"
	"leat/raster"
)

// makeControl writes TIFFs with ground control points, RPCs and transforms, with all kinds of
// sidecars, and prints what GDAL reads from each.
const makeControl = `
import json, os, shutil, sys
from osgeo import gdal, osr
gdal.UseExceptions()
dir = json.load(sys.stdin)
os.chdir(dir)
def srs(code):
    s = osr.SpatialReference(); s.ImportFromEPSG(code); s.SetAxisMappingStrategy(osr.OAMS_TRADITIONAL_GIS_ORDER)
    return s
def rpc(k):
    m = {n: repr(k + i / 7) for i, n in enumerate(("LINE_OFF", "SAMP_OFF", "LAT_OFF", "LONG_OFF", "HEIGHT_OFF", "LINE_SCALE", "SAMP_SCALE", "LAT_SCALE", "LONG_SCALE", "HEIGHT_SCALE"))}
    for j, n in enumerate(("LINE_NUM", "LINE_DEN", "SAMP_NUM", "SAMP_DEN")):
        m[n + "_COEFF"] = " ".join(repr((i + j) * 1e-5 / 3 + k) for i in range(20))
    return m
def points(code):
    return [gdal.GCP(100.5 + code, 200.25, 3, 0, 0), gdal.GCP(500, 200, 0, 40.25, 0.5), gdal.GCP(100, 20, 0, 7.25, 30)]
def make(name, gcps=None, transform=None, rpcs=None, point=False, options=[]):
    d = gdal.GetDriverByName("MEM").Create("", 40, 30, 1)
    if gcps is not None:
        d.SetGCPs(points(gcps), srs(gcps) if gcps else None)
    if transform is not None:
        d.SetGeoTransform((transform, 1, 0, 20, 0, -1)); d.SetSpatialRef(srs(32620))
    if rpcs is not None:
        d.SetMetadata(rpc(rpcs), "RPC")
    if point:
        d.SetMetadataItem("AREA_OR_POINT", "Point")
    gdal.GetDriverByName("GTiff").CreateCopy(name + ".tif", d, options=options)
names = []
def case(name, of, pam="", world=""):
    shutil.copy(of + ".tif", name + ".tif")
    if pam: open(name + ".tif.aux.xml", "w").write(f"<PAMDataset>{pam}</PAMDataset>")
    if world: open(name + ".wld", "w").write(world)
    names.append(name)
make("g", 32618); make("point", 32618, point=True); make("geographic", 4326); make("none"); make("placed", transform=5)
make("rpc", rpcs=10); make("placed_rpc", transform=5, rpcs=10); make("both", 32618, rpcs=3, options=["ENDIANNESS=BIG", "BIGTIFF=YES"])
names += ["g", "point", "geographic", "none", "placed", "rpc", "placed_rpc", "both"]
wkt = srs(32619).ExportToWkt().replace('"', "&quot;")
gcps = f'<GCPList Projection="{wkt}"><GCP Id="x" Info="i" Pixel="1" Line="2" X="3" Y="4"/><GCP Id="y" Pixel="5.5" Line="6" X="7" Y="8" Z="9"/></GCPList>'
transform, system, world = "<GeoTransform>10, 1, 0, 20, 0, -1</GeoTransform>", f"<SRS>{wkt}</SRS>", "2\n0\n0\n-2\n11\n21\n"
items = "".join(f'<MDI key="{k}">{v}</MDI>' for k, v in rpc(4).items())
rpcs = f'<Metadata domain="RPC">{items}</Metadata>'
case("pam over own", "g", gcps)
case("transform over own", "g", transform)
case("transform and pam over own", "g", transform + gcps)
case("system alone", "g", system)
case("world over own", "g", "", world)
case("pam over world", "g", gcps, world)
case("pam over transform", "placed", gcps)
case("pam and system over transform", "placed", gcps + system)
case("pam", "none", gcps)
case("pam without system", "none", gcps.replace(wkt, ""))
case("pam with transform and system", "none", gcps + transform + system)
case("pam rpc", "none", rpcs)
case("own rpc", "rpc", rpcs)
case("pam rpc lacks a key", "none", rpcs.replace("LAT_OFF", "LAT"))
out = []
for name in names:
    d = gdal.Open(name + ".tif")
    t, s, g = d.GetGeoTransform(can_return_null=True), d.GetSpatialRef(), d.GetGCPSpatialRef()
    m = d.GetMetadata("RPC")
    out.append({"Name": name, "Transform": t, "CRS": s and "EPSG:" + (s.GetAuthorityCode(None) or "none"), "System": g and "EPSG:" + g.GetAuthorityCode(None),
        "Points": [[p.GCPPixel, p.GCPLine, p.GCPX, p.GCPY, p.GCPZ] for p in d.GetGCPs()], "IDs": [p.Id + "/" + p.Info for p in d.GetGCPs()],
        "RPC": m if "LAT_OFF" in m else {}})
json.dump(out, sys.stdout)
`

// read is what GDAL reads from a file.
type read struct {
	Name      string
	Transform *raster.Transform
	CRS       *string
	System    *string
	Points    [][5]float64
	IDs       []string
	RPC       map[string]string
}

func TestControlPointsAndRPCsAreReadAsGDALReadsThem(t *testing.T) {
	dir := t.TempDir()
	var files []read
	pytest.Run(t, []string{"osgeo.gdal"}, makeControl, dir, &files)
	for _, want := range files {
		f, err := Open(filepath.Join(dir, want.Name+".tif"))
		if err != nil {
			t.Error(err)
			continue
		}
		g := f.Info().Grid
		f.Close()
		if g.HasTransform != (want.Transform != nil) || g.HasTransform && g.Transform != *want.Transform {
			t.Errorf("%s: transform %v, %v", want.Name, g.HasTransform, g.Transform)
		}
		if crs := text(want.CRS); g.CRS.Code != crs && len(want.Points) == 0 ||
			!g.HasTransform && g.GCPs != nil && !g.CRS.IsZero() {
			t.Errorf("%s: system %v, GDAL reads %s", want.Name, g.CRS, crs)
		}
		if (g.GCPs != nil) != (len(want.Points) > 0) || g.GCPs != nil && len(g.GCPs.Points) != len(want.Points) {
			t.Errorf("%s: points %v, GDAL reads %v", want.Name, g.GCPs, want.Points)
			continue
		}
		if g.GCPs != nil {
			// If .aux.xml has a transform, GDAL uses its CRS for the file's own points.
			if code := text(want.System); g.GCPs.CRS.Code != code && !g.HasTransform {
				t.Errorf("%s: the system of points is %v, GDAL reads %s", want.Name, g.GCPs.CRS, code)
			}
			for i, p := range g.GCPs.Points {
				if [5]float64{p.Pixel, p.Line, p.X, p.Y, p.Z} != want.Points[i] || p.ID+"/"+p.Info != want.IDs[i] {
					t.Errorf("%s: point %d is %v, GDAL reads %s %v", want.Name, i, p, want.IDs[i], want.Points[i])
				}
			}
		}
		if (g.RPC != nil) != (len(want.RPC) > 0) {
			t.Errorf("%s: coefficients %v, GDAL reads %v", want.Name, g.RPC, want.RPC)
		} else if g.RPC != nil {
			if gdal, err := georef.ParseRPC(want.RPC); err != nil || !sameDigits(gdal, g.RPC) {
				t.Errorf("%s: coefficients %v, GDAL reads %v (%v)", want.Name, g.RPC, want.RPC, err)
			}
		}
	}
}

// sameDigits reports whether coefficients are the same in 15 digits, the precision at which GDAL
// reports a tag.
func sameDigits(a, b *raster.RPC) bool {
	for i, v := range georef.RPCValues(a) {
		if math.Abs(v-georef.RPCValues(b)[i]) > 1e-14*math.Abs(v) {
			return false
		}
	}
	return true
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestDamagedControlIsLeftOutWithAWarning(t *testing.T) {
	tie := func(id uint16, n int, v float64) func([]tag) []tag {
		return set(id, tiff.TypeDouble, repeat(math.Float64bits(v), n)...)
	}
	for name, c := range map[string]struct {
		change func([]tag) []tag
		want   string
	}{
		"points of NaN":       {tie(tiff.TagModelTiepoint, 12, math.NaN()), "ground control points"},
		"91 coefficients":     {tie(tiff.TagRPC, 91, 1), "91 numbers"},
		"infinite":            {tie(tiff.TagRPC, 92, math.Inf(-1)), "finite"},
		"five of a tie point": {tie(tiff.TagModelTiepoint, 5, 1), ""},
	} {
		f, err := OpenAt(bytes.NewReader(little(c.change, make([]byte, 4096))), 1<<16, "a.tif", nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		g, warned := f.Info().Grid, strings.Join(f.Info().Warnings, "; ")
		if g.GCPs != nil || g.RPC != nil || !strings.Contains(warned, c.want) || c.want == "" && warned != "" {
			t.Errorf("%s: %v, %v, warnings %q", name, g.GCPs, g.RPC, warned)
		}
	}
}

func TestOverviewsHaveNoControlPoints(t *testing.T) {
	main := append(plain(8, 4, 8, 1, tiff.FormatUint, tiff.CompressionNone),
		tag{tiff.TagModelTiepoint, tiff.TypeDouble, repeat(math.Float64bits(1), 12)},
		tag{tiff.TagRPC, tiff.TypeDouble, repeat(math.Float64bits(1), 92)})
	half := append(plain(4, 2, 8, 1, tiff.FormatUint, tiff.CompressionNone),
		tag{tiff.TagNewSubfileType, tiff.TypeLong, []uint64{tiff.SubfileReduced}})
	b := handmadeChain(binary.LittleEndian, [][]tag{main, half}, tiff.TagStripOffsets, tiff.TagStripByteCounts,
		[][][]byte{{make([]byte, 32)}, {make([]byte, 8)}})
	f, err := OpenAt(bytes.NewReader(b), int64(len(b)), "a.tif", nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := f.Overview(0)
	if err != nil {
		t.Fatal(err)
	}
	if f.Info().Grid.GCPs == nil || f.Info().Grid.RPC == nil || o.Info().Grid.GCPs != nil || o.Info().Grid.RPC != nil {
		t.Errorf("%+v, overview %+v", f.Info().Grid, o.Info().Grid)
	}
}

// FuzzSidecar gives arbitrary bytes to the parser of .aux.xml.
func FuzzSidecar(f *testing.F) {
	f.Add([]byte(`<PAMDataset><GeoTransform>1,2,3,4,5,6</GeoTransform><SRS>GEOGCS["x"]</SRS></PAMDataset>`))
	f.Add([]byte(`<PAMDataset><GCPList Projection="LOCAL_CS"><GCP Id="a" Pixel="1" Line="2" X="3" Y="4" Z="1e400"/>` +
		`<GCP Pixel="-0x1p9"/></GCPList></PAMDataset>`))
	f.Add([]byte(`<PAMDataset><Metadata domain="RPC"><MDI key="LINE_OFF">1</MDI></Metadata></PAMDataset>`))
	file := little(nil, make([]byte, 4096))
	f.Fuzz(func(t *testing.T, b []byte) {
		sidecar := func(suffix string, _ bool) (io.ReaderAt, int64, string, error) {
			if suffix != ".aux.xml" {
				return nil, 0, suffix, fs.ErrNotExist
			}
			return bytes.NewReader(b), int64(len(b)), suffix, nil
		}
		f, err := OpenAt(bytes.NewReader(file), int64(len(file)), "a.tif", sidecar)
		checkKind(t, err)
		if err != nil {
			return
		}
		g := f.Info().Grid
		if g.GCPs != nil && (!georef.FiniteGCPs(g.GCPs) || !g.HasTransform && !g.CRS.IsZero()) {
			t.Fatalf("%+v", g)
		}
	})
}
