package main

// goldenJobs are the jobs whose bytes are recorded in testdata/golden/hashes.txt.
var goldenJobs = []goldenJob{
	{name: "ndvi", args: "-i red=$IN/red.tif -i nir=$IN/nir.tif -o out=out.tif -e (nir-red)/(nir+red)", variants: []string{
		"--window 128", "--window 512x256", "-j 1", "-j 3 --readers 1", "--memory 64M",
		"--on subprocess --workers 2", "--on subprocess --workers 2 --workers-read --window 256",
	}},
	{name: "identity", args: "-i a=$IN/red.tif -o out=out.tif -e a", variants: []string{"--window 256 -j 2"}},
	{name: "nodata", args: "-i a=$IN/holes.tif -i b=$IN/red.tif -o out=out.tif -e b-a", variants: []string{"--window 128"}},
	{name: "selection", args: "-i a=$IN/holes.tif -i b=$IN/red.tif -o out=out.tif -e a>500?a:nodata"},
	{name: "float dem", args: "-i a=$IN/dem.tif -o out=out.tif -e a*2"},
	{name: "saturated", args: "-i a=$IN/red.tif -o out=out.tif -e a/4 --type uint8 --nodata 0"},
	{name: "scaled", args: "-i a=$IN/red.tif -o out=out.tif -e a/10000 --type int16 --scale 0.0001 --offset 0.1"},
	{name: "unscaled", args: "-i a=$IN/signed.tif -o out=out.tif -e a+1 --unscale"},
	{name: "list", args: "-i t=$IN/red.tif -i t=$IN/nir.tif -i t=$IN/holes.tif -o out=out.tif -e median(t)", variants: []string{
		"--window 256", "--on subprocess --workers 2",
	}},
	{name: "bands", args: "-i a=$IN/rgb.tif -o out=out.tif -e a --layers a=3,1", variants: []string{"--window 128x512"}},
	{name: "bands pixel-interleaved", args: "-i a=$IN/rgb.tif -o out=out.tif -e a --co INTERLEAVE=PIXEL"},
	{name: "comparison", args: "-i a=$IN/red.tif -o out=out.tif -e a>800"},
	{name: "no mask", args: "-i a=$IN/holes.tif -o out=out.tif -e a+1 --no-mask"},
	{name: "input nodata", args: "-i a=$IN/red.tif -o out=out.tif -e a+1 --input-nodata a=700"},
	{name: "two outputs", args: "-i a=$IN/red.tif -i b=$IN/nir.tif -o x=x.tif -o y=y.tif -e x=a+b -e y=(a-b)/(a+b)", variants: []string{
		"--window 128", "--on subprocess --workers 3",
	}},

	{name: "none", args: "-i a=$IN/red.tif -o out=out.tif -e a --co COMPRESS=NONE"},
	{name: "zstd", args: "-i a=$IN/red.tif -o out=out.tif -e a*1.5 --co COMPRESS=ZSTD"},
	{name: "lzw", args: "-i a=$IN/red.tif -o out=out.tif -e a --co COMPRESS=LZW --co PREDICTOR=2"},
	{name: "packbits", args: "-i a=$IN/classes.tif -o out=out.tif -e a --co COMPRESS=PACKBITS"},
	{name: "level", args: "-i a=$IN/red.tif -o out=out.tif -e a --co LEVEL=9 --co BLOCKSIZE=128"},
	{name: "predictor 3", args: "-i a=$IN/dem.tif -o out=out.tif -e a/3 --co PREDICTOR=3"},
	{name: "bigtiff", args: "-i a=$IN/red.tif -o out=out.tif -e a --co BIGTIFF=YES"},
	{name: "cog", args: "-i a=$IN/red.tif -o out=out.tif -e a --cog --overview-method average", variants: []string{"--window 256"}},
	{name: "mode overviews", args: "-i a=$IN/classes.tif -o out=out.tif -e a --overviews 2,4 --overview-method mode"},
	{name: "no overviews", args: "-i a=$IN/red.tif -o out=out.tif -e a --overviews none --no-stats"},
	{name: "histogram sidecar", args: "-i a=$IN/red.tif -o out=out.tif -e a --hist-aux"},
	{name: "colours", args: "-i a=$IN/classes.tif -o out=out.tif -e a --color-table $IN/colors.txt --thematic --names class --tag AREA=1 --unit m"},
	{name: "preview", args: "-i a=$IN/red.tif -o out=out.tif -e a --preview quicklook.png"},

	{name: "intersection", args: "-i a=$IN/red.tif -i b=$IN/shifted.tif -o out=out.tif -e a+b", variants: []string{"--window 200"}},
	{name: "union", args: "-i a=$IN/red.tif -i b=$IN/shifted.tif -o out=out.tif -e coalesce(a,b) --footprint union"},
	{name: "bbox", args: "-i a=$IN/red.tif -o out=out.tif -e a --bbox 501234,5195678,504321,5198765"},
	{name: "srcwin", args: "-i a=$IN/red.tif -o out=out.tif -e a --srcwin 101,53,403,307", variants: []string{"--window 128"}},

	{name: "warp near", gdal: true, args: "-i a=$IN/red.tif -i b=$IN/coarse.tif -o out=out.tif -e a-b --reference a", variants: []string{"--window 128"}},
	{name: "warp bilinear", gdal: true, args: "-i a=$IN/red.tif -i b=$IN/zone32.tif -o out=out.tif -e b --reference a --resample b=bilinear", variants: []string{
		"--window 256", "--on subprocess --workers 2 --workers-read",
	}},
	{name: "warp cubic", gdal: true, args: "-i a=$IN/zone32.tif -o out=out.tif -e a --grid EPSG:32631,500000,5193000,509000,5200000,20 --resample cubic"},
	{name: "warp average", gdal: true, args: "-i a=$IN/dem.tif -i b=$IN/coarse.tif -o out=out.tif -e a*b --reference b --resample a=average"},
	{name: "vector", gdal: true, args: "-i a=$IN/red.tif -v f=$IN/fields.geojson -o out=out.tif -e f?a:nodata", variants: []string{"--window 128"}},
	{name: "vector attribute", gdal: true, args: "-i a=$IN/red.tif -v f=$IN/fields.geojson -o out=out.tif -e f --burn f=class --all-touched f", variants: []string{
		"--on subprocess --workers 2",
	}},
	{name: "HFA", gdal: true, args: "-i a=$IN/red.tif -o out=out.img -e a --format HFA --co COMPRESSED=YES", variants: []string{"--window 256"}},
	{name: "EHdr", gdal: true, args: "-i a=$IN/dem.tif -o out=out.bil -e a --format EHdr"},
	{name: "PNG", gdal: true, args: "-i a=$IN/rgb.tif -o out=out.png -e a --format PNG"},

	{name: "http staged", remote: true, args: "-i a=$WEB/red.tif -i b=$WEB/nir.tif -o out=out.tif -e a-b", variants: []string{"--stage-dir none"}},
	{name: "http ranges", remote: true, args: "-i a=$WEB/red.tif -o out=out.tif -e a --srcwin 300,200,64,64"},
	{name: "s3 output", remote: true, args: "-i a=$IN/red.tif -o out=s3://bucket/out.tif -e a --endpoint $S3"},

	{name: "focal", args: "-i a=$IN/holes.tif -i b=$IN/shifted.tif -o out=out.tif -e focal_mean(focal_max(a-b,3),disk(7.5))", variants: []string{
		"--window 128", "--on subprocess --workers 2 --workers-read --window 256", "--memory 64M -j 3",
	}},
	{name: "focal whole numbers", args: "-i a=$IN/rgb.tif -o out=out.tif -e focal_sum(a,31)-focal_mode(a,5) --margin reflect", variants: []string{
		"--window 128x256",
	}},
	{name: "convolve and shift", args: "-i a=$IN/red.tif -o out=out.tif -e shift(convolve(a,[[1,2,1],[2,4,2],[1,2,0.5]])/16,9,-3) --srcwin 5,30,400,300 --margin nearest", variants: []string{
		"--window 64",
	}},
	{name: "terrain", args: "-i a=$IN/dem.tif -o s=s.tif -o h=h.tif -o r=r.tif -e s=slope(a) -e h=hillshade(a,300,30,2) -e r=[aspect(a),curvature(a),tpi(a),tri(a),roughness(a)]", variants: []string{
		"--window 256", "--on subprocess --workers 2",
	}},
}
