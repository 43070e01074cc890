package apply

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"strings"
)

// ndviText is the main job's expression.
const ndviText = "(nir - red) / (nir + red)"

// bare are the options of a run that writes pixels only, as the peers do.
var bare = []string{"--overviews", "none", "--no-stats"}

func with(options []string, more ...string) []string { return append(more, options...) }

func (b *bench) ndvi(ctx context.Context) error {
	red, nir, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return err
	}
	name := func(band, kind string) string { return fmt.Sprintf("%s-%d-%s.tif", band, b.size(), kind) }
	files := map[string]string{}
	for _, kind := range []string{"strips", "nodata"} {
		for band, from := range map[string]string{"red": red, "nir": nir} {
			if files[band+kind], err = b.inputs.derived(ctx, kind, from, name(band, kind)); err != nil {
				return err
			}
		}
	}
	in := []string{"red=" + red, "nir=" + nir}
	strips := []string{"red=" + files["redstrips"], "nir=" + files["nirstrips"]}
	nodata := []string{"red=" + files["rednodata"], "nir=" + files["nirnodata"]}
	out := b.outFile("peer.tif")
	variants := []variant{
		b.apply("leat, pixels only", ndviText, in, bare...),
		b.apply("leat as it comes: with statistics, histogram, overviews", ndviText, in),
		b.apply("leat --cog", ndviText, in, "--cog"),
		b.apply("leat, pixels only, zstd", ndviText, in, with(bare, "--co", "COMPRESS=ZSTD")...),
		b.apply("leat, pixels only, from strips", ndviText, strips, bare...),
		other(b.apply("leat, pixels only, inputs with nodata 0", ndviText, nodata, bare...)),
	}
	add := func(v []variant, tuned bool) {
		for i := range v {
			v[i].tuned = tuned
		}
		variants = append(variants, v...)
	}
	add(b.peer("rasterio as it comes, block by block", "ndvi.py", out, "blocks", "plain", red, nir, out), false)
	add(b.peer("rasterio tuned: whole arrays", "ndvi.py", out, "whole", "tuned", red, nir, out), true)
	add(b.peer("rasterio tuned: 512 rows at a time", "ndvi.py", out, "rows", "tuned", red, nir, out), true)
	add(b.peer("rasterio tuned: 512 rows, two Python threads read ahead", "ndvi.py", out, "ahead", "tuned", red, nir,
		out), true)
	add(b.peer("rasterio, zstd, whole arrays", "ndvi.py", out, "whole", "zstd", red, nir, out), false)
	add(b.peer("rasterio tuned, from strips: 512 rows, read ahead", "ndvi.py", out, "ahead", "tuned",
		files["redstrips"], files["nirstrips"], out), false)
	if b.gdalCalc != "" {
		calc := []string{b.gdalCalc, "-A", red, "-B", nir, "--outfile", out, "--type", "Float32", "--quiet", "--calc",
			"(B.astype(numpy.float32)-A.astype(numpy.float32))/(B.astype(numpy.float32)+A.astype(numpy.float32))",
			"--co", "TILED=YES", "--co", "BLOCKXSIZE=512", "--co", "BLOCKYSIZE=512", "--co", "COMPRESS=DEFLATE"}
		tuned := append(calc[:len(calc):len(calc)], "--co", "PREDICTOR=3", "--co", "ZLEVEL=1", "--co", "NUM_THREADS=2")
		variants = append(variants,
			variant{name: "gdal_calc.py as it comes", args: calc, out: out, peer: true},
			variant{name: "gdal_calc.py with the best coding, two threads", args: tuned, out: out, peer: true,
				calc: true})
	}
	if b.python != "" {
		variants = append(variants, variant{name: "NumPy alone, from memory to memory", peer: true, computeOnly: true,
			args: []string{b.python, b.script("ndvi_memory.py"), red, nir}})
	}
	results, err := b.measure(ctx, variants, b.Runs)
	if err != nil {
		return err
	}
	n := b.size()
	b.table(fmt.Sprintf("NDVI of two uint16 bands, %d x %d, to float32", n, n),
		"Inputs: tiles of 512, deflate, predictor 2, without nodata. Outputs: tiles of 512, deflate unless said. `leat apply -i red=… -i nir=… -o out=… -e '"+ndviText+"'`.", results)
	leat := results[0]
	b.target("NDVI in <= 0.75 s", leat.time().median, 0.75, "%.3f s")
	b.target("its output <= 83 MiB", leat.megabytes().median, 83, "%.1f MiB")
	tuned, calc := fastest(results, func(r *result) bool { return r.tuned }),
		fastest(results, func(r *result) bool { return r.calc })
	asItComes := fastest(results, func(r *result) bool { return strings.HasPrefix(r.name, "gdal_calc.py as") })
	b.target("NDVI <= 0.35 of fully tuned rasterio", ratio(leat, tuned, wall), 0.35, "%.2f")
	b.target("the same without the start of Python <= 0.5", ratio(leat, tuned, inner), 0.5, "%.2f")
	b.target("NDVI <= 0.35 of gdal_calc.py as it comes", ratio(leat, asItComes, wall), 0.35, "%.2f")
	b.targets = append(b.targets, fmt.Sprintf("| the same with the best coding (no target) | %.2f | |",
		ratio(leat, calc, wall)))
	return nil
}

func other(v variant) variant {
	v.other = true
	return v
}

func (b *bench) memory(ctx context.Context) error {
	var results []*result
	for _, n := range b.sizes() {
		red, nir, err := b.inputs.bands(ctx, n)
		if err != nil {
			return err
		}
		v := b.apply(fmt.Sprintf("leat as it comes, %d x %d", n, n), ndviText, []string{"red=" + red, "nir=" + nir})
		more, err := b.measure(ctx, []variant{v}, min(b.Runs, 3))
		if err != nil {
			return err
		}
		results = append(results, more...)
	}
	b.table("Memory at any size", "NDVI as before, with statistics, histogram and overviews.", results)
	for i, r := range results {
		b.target(fmt.Sprintf("memory <= 200 MiB at %d x %d", b.sizes()[i], b.sizes()[i]),
			spreadOf(r.samples, rss).high/(1<<20), 200, "%.0f MiB")
	}
	return nil
}

// extras measures what statistics and overviews add, round by round.
func (b *bench) extras(ctx context.Context) error {
	red, nir, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return err
	}
	in := []string{"red=" + red, "nir=" + nir}
	results, err := b.measure(ctx, []variant{
		b.apply("pixels only", ndviText, in, bare...),
		b.apply("with statistics and histogram", ndviText, in, "--overviews", "none"),
		b.apply("with overviews 4, 8, …", ndviText, in, "--no-stats"),
		b.apply("with all of these, as it comes", ndviText, in),
		b.apply("the same with --cog (levels 2, 4, 8, …)", ndviText, in, "--cog"),
	}, 2*b.Runs)
	if err != nil {
		return err
	}
	b.table("What statistics and overviews add",
		fmt.Sprintf("Medians of %d runs. Targets are compared with the median of what a run adds to the first "+
			"run of its round.", 2*b.Runs), results)
	for _, e := range []struct {
		what  string
		i     int
		limit float64
	}{{"statistics and overviews add <= 8 %", 3, 8}, {"--cog adds <= 25 %", 4, 25}} {
		r := results[e.i]
		var wall, cpu []float64
		for i := range min(len(r.samples), len(results[0].samples)) {
			wall = append(wall, 100*(r.samples[i].wall.Seconds()/results[0].samples[i].wall.Seconds()-1))
			cpu = append(cpu, 100*(r.samples[i].cpu.Seconds()/results[0].samples[i].cpu.Seconds()-1))
		}
		w := spreadOfValues(wall)
		b.target(e.what, w.median, e.limit,
			fmt.Sprintf("%%.1f %%%% (%.1f to %.1f), processor time %.1f %%%%", w.low, w.high,
				spreadOfValues(cpu).median))
	}
	b.target("--cog has <= 1.34 of the bytes", results[4].megabytes().median/results[0].megabytes().median, 1.34,
		"%.2f")
	return nil
}

func (b *bench) focal(ctx context.Context) error {
	red, _, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return err
	}
	in, err := b.inputs.derived(ctx, "float", red, fmt.Sprintf("reflectance-%d.tif", b.size()))
	if err != nil {
		return err
	}
	mine, out := b.outFile("leat.tif"), b.outFile("peer.tif")
	sources := []string{"a=" + in}
	variants := []variant{
		b.apply("leat, focal_mean(a, 11), pixels only", "focal_mean(a, 11)", sources, bare...),
		other(b.apply("leat, focal_mean(a, 31), pixels only", "focal_mean(a, 31)", sources, bare...)),
		{name: "leat, a Go function, pixels only", args: []string{b.self, "apply", "job", "focal", in, mine}, out: mine},
	}
	variants = append(variants, b.peer("rasterio and NumPy: cumulative sums, 512 rows at a time", "focal.py", out,
		"plain", "11", in, out)...)
	variants = append(variants, tuned(b.peer("the same tuned: sums in the cache, two threads, best coding", "focal.py",
		out, "tuned", "11", in, out))...)
	if b.has(ctx, "scipy.ndimage") {
		// uniform_filter adds and subtracts as it moves, so its float32 differ in the last bit.
		for _, v := range b.peer("rasterio and SciPy's uniform_filter, 11 x 11", "focal.py", out, "scipy", "11", in, out) {
			v.rounding = 1e-6
			variants = append(variants, v)
		}
		for _, v := range b.peer("rasterio and SciPy's uniform_filter, 31 x 31", "focal.py", out, "scipy", "31", in, out) {
			variants = append(variants, other(v))
		}
	}
	results, err := b.measure(ctx, variants, b.Runs)
	if err != nil {
		return err
	}
	b.table(fmt.Sprintf("Focal mean of a float32 band, %d x %d", b.size(), b.size()),
		"The mean of the 11 x 11 or 31 x 31 pixels around each, of those in the raster; sums in float64; float32 out. Input: tiles of 512, deflate, predictor 3.", results)
	b.target("focal mean 11x11 in <= 0.6 s", results[0].time().median, 0.6, "%.3f s")
	b.target("31x31 <= 1.2 of 11x11", ratio(results[1], results[0], wall), 1.2, "%.2f")
	return nil
}

// has reports whether the peers' Python imports the modules, a list with commas.
func (b *bench) has(ctx context.Context, modules string) bool {
	return b.python != "" && exec.CommandContext(ctx, b.python, "-c", "import "+modules).Run() == nil
}

func (b *bench) terrain(ctx context.Context) error {
	red, _, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return err
	}
	in, err := b.inputs.derived(ctx, "dem", red, fmt.Sprintf("dem-%d.tif", b.size()))
	if err != nil {
		return err
	}
	for _, f := range []struct{ name, predictor string }{{"slope", "3"}, {"hillshade", "2"}} {
		variants := []variant{b.apply("leat, pixels only", f.name+"(dem)", []string{"dem=" + in}, bare...)}
		if b.gdalCalc != "" {
			out := b.outFile("peer.tif")
			options := []string{"gdaldem", f.name, in, out, "-q", "-co", "TILED=YES", "-co", "BLOCKXSIZE=512",
				"-co", "BLOCKYSIZE=512", "-co", "COMPRESS=DEFLATE"}
			best := append(options[:len(options):len(options)], "-co", "PREDICTOR="+f.predictor, "-co", "ZLEVEL=1",
				"-co", "NUM_THREADS=2")
			variants = append(variants,
				other(variant{name: "gdaldem, deflate", args: options, out: out, peer: true}),
				other(variant{name: "gdaldem with the best coding, two threads", args: best, out: out, peer: true}))
		}
		results, err := b.measure(ctx, variants, b.Runs)
		if err != nil {
			return err
		}
		b.table(fmt.Sprintf("%s of a float32 elevation model, %d x %d", f.name, b.size(), b.size()),
			"Input and outputs: tiles of 512, deflate. `-e '"+f.name+"(dem)'`, `gdaldem "+f.name+"`.", results)
		b.ratioTarget(f.name+" <= 0.5 of gdaldem with the best coding", results, 2, 0.5, wall)
	}
	return nil
}

func tuned(v []variant) []variant {
	for i := range v {
		v[i].tuned = true
	}
	return v
}

func (b *bench) median(ctx context.Context) error {
	const dates = 12
	size := 4096
	if b.Quick {
		size = 700
	}
	red, _, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return err
	}
	files, err := b.inputs.dates(ctx, "dates", red, "date", dates, size)
	if err != nil {
		return err
	}
	out := b.outFile("peer.tif")
	for _, f := range []struct{ title, name, text, plain string }{
		{"Median", "median", "median(t)", "numpy.median"},
		{"Percentile 90", "p90", "percentile(t, 90)", "numpy.percentile"},
	} {
		variants := []variant{b.apply("leat, pixels only", f.text, list("t", files), bare...)}
		script := func(name, way string) []variant {
			return b.peer(name, "median.py", out, append([]string{way, f.name, out}, files...)...)
		}
		variants = append(variants, script("rasterio and "+f.plain+", windows of 512", "plain")...)
		variants = append(variants, tuned(script("numpy.partition, two threads, best coding", "tuned"))...)
		variants = append(variants, tuned(script(
			"a sorting network of numpy.minimum and maximum, two threads, best coding", "network"))...)
		results, err := b.measure(ctx, variants, b.Runs)
		if err != nil {
			return err
		}
		b.table(fmt.Sprintf("%s of %d dates of uint16, %d x %d, to float32", f.title, dates, size, size),
			"Inputs: tiles of 512, deflate, predictor 2, without nodata. `-e '"+f.text+"'`.", results)
		b.target(f.name+" of 12 dates in <= 0.5 s", results[0].time().median, 0.5, "%.3f s")
	}
	return nil
}

// list returns files as inputs of one name.
func list(name string, files []string) (in []string) {
	for _, f := range files {
		in = append(in, name+"="+f)
	}
	return in
}

// cloudFree measures the median of the NDVI of the clear pixels of many scenes.
func (b *bench) cloudFree(ctx context.Context) error {
	scenes, size := 30, 2048
	if b.Quick {
		scenes, size = 5, 700
	}
	red, nir, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return err
	}
	var in, files []string
	for _, k := range []struct{ kind, from, name, input string }{
		{"dates", red, "scene-red", "red"}, {"dates", nir, "scene-nir", "nir"}, {"clouds", red, "scene-scl", "scl"},
	} {
		paths, err := b.inputs.dates(ctx, k.kind, k.from, k.name, scenes, size)
		if err != nil {
			return err
		}
		in, files = append(in, list(k.input, paths)...), append(files, paths...)
	}
	const text = "median(where(scl in [4, 5, 6], (nir - red) / (nir + red), nodata))"
	out := b.outFile("peer.tif")
	variants := []variant{b.apply("leat, pixels only", text, in, with(bare, "--nodata", "nan")...)}
	if b.has(ctx, "xarray, dask.array, rioxarray") {
		script := func(name, way string) []variant {
			return b.peer(name, "cloudfree.py", out, append([]string{way, out}, files...)...)
		}
		variants = append(variants, script("xarray and dask as they come: where, median", "xarray")...)
		variants = append(variants, tuned(script("xarray and dask, a sorting network on each chunk, best coding",
			"chunks"))...)
		variants = append(variants, tuned(script("the same on windows that dask's threads read by rasterio",
			"windows"))...)
	} else {
		b.note("xarray, dask and rioxarray are not installed (scripts/test-deps xarray dask rioxarray): left out.")
	}
	results, err := b.measure(ctx, variants, b.Runs)
	if err != nil {
		return err
	}
	b.table(fmt.Sprintf("Median of the NDVI of the clear pixels of %d scenes, %d x %d", scenes, size, size),
		"Inputs: red and near infrared, uint16, predictor 2, and classes, uint8; tiles of 512, deflate. A third of the pixels are cloud or shadow. `-e '"+text+"'`. Peers use two threads of dask.", results)
	best := fastest(results, func(r *result) bool { return r.tuned })
	b.target("cloud-free median <= 0.5 of tuned xarray and dask", ratio(results[0], best, wall), 0.5, "%.2f")
	b.targets = append(b.targets, fmt.Sprintf("| the same without the start of Python (no target) | %.2f | |",
		ratio(results[0], best, inner)))
	return nil
}

// chain is a polynomial of 50 terms by Horner's rule, and its coefficients from the highest power
// down.
func chain() (expression, coefficients string) {
	var c []string
	for k := range 50 {
		c = append(c, fmt.Sprintf("%.2f", float64((k*37+11)%100+1)/100))
	}
	expression = strings.Repeat("(", len(c)-2) + c[0]
	for i, v := range c[1:] {
		expression += "*a + " + v
		if i < len(c)-2 {
			expression += ")"
		}
	}
	return expression, strings.Join(c, ",")
}

func (b *bench) polynomial(ctx context.Context) error {
	in, err := b.reflectance(ctx)
	if err != nil {
		return err
	}
	text, coefficients := chain()
	out := b.outFile("peer.tif")
	variants := []variant{b.apply("leat, pixels only", text, []string{"a=" + in}, bare...)}
	variants = append(variants, b.peer("rasterio and NumPy: the expression as it stands, block by block",
		"polynomial.py", out, "plain", text, coefficients, in, out)...)
	variants = append(variants, tuned(b.peer("in place and in the cache, two threads, best coding", "polynomial.py",
		out, "tuned", text, coefficients, in, out))...)
	results, err := b.measure(ctx, variants, b.Runs)
	if err != nil {
		return err
	}
	b.table(fmt.Sprintf("Polynomial of 50 terms of a float32 band, %d x %d: the whole run", b.size(), b.size()),
		"Horner's rule, 49 products and 49 sums, all float32: `-e '((0.12*a + 0.49)*a + 0.86)*a + …'`.", results)
	b.ratioTarget("50-term polynomial <= 0.6 of NumPy's time, the whole run", results, 1, 0.6, inner)
	b.ratioTarget("the same next to tuned NumPy", results, 2, 0.6, inner)
	return nil
}

func (b *bench) compute(ctx context.Context) error {
	in, err := b.reflectance(ctx)
	if err != nil {
		return err
	}
	text, coefficients := chain()
	var variants []variant
	for _, n := range []string{"1", "2"} {
		variants = append(variants, variant{name: "leat's package expr, goroutines: " + n,
			args: []string{b.self, "apply", "job", "compute", n, text, in}, computeOnly: true})
	}
	for _, v := range [][2]string{{"NumPy: the expression as it stands", "memory"},
		{"NumPy, in place and in the cache", "memory-tuned"},
		{"NumPy, in place and in the cache, two threads", "memory-threads"}} {
		variants = append(variants, b.peer(v[0], "polynomial.py", "", v[1], text, coefficients, in)...)
	}
	for i := range variants {
		variants[i].computeOnly = true
	}
	results, err := b.measure(ctx, variants, b.Runs)
	if err != nil {
		return err
	}
	b.table("The same from memory to memory", "The computation alone.", results)
	b.ratioTarget("50-term polynomial <= 0.6 of NumPy's time, the computation, one goroutine", results, 2, 0.6, inner)
	return nil
}

// ratioTarget compares the first variant with the one at i.
func (b *bench) ratioTarget(what string, results []*result, i int, limit float64, value func(sample) float64) {
	r := math.NaN()
	if i < len(results) {
		r = ratio(results[0], results[i], value)
	}
	b.target(what, r, limit, "%.2f")
}

func (b *bench) reflectance(ctx context.Context) (string, error) {
	red, _, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return "", err
	}
	return b.inputs.derived(ctx, "float", red, fmt.Sprintf("reflectance-%d.tif", b.size()))
}

func (b *bench) small(ctx context.Context) error {
	red, nir, err := b.inputs.bands(ctx, b.size())
	if err != nil {
		return err
	}
	part := []string{"400", "300", "627", "603"}
	smallRed, err := b.inputs.derived(ctx, "part", red, fmt.Sprintf("small-red-%d.tif", b.size()), part...)
	if err != nil {
		return err
	}
	smallNIR, err := b.inputs.derived(ctx, "part", nir, fmt.Sprintf("small-nir-%d.tif", b.size()), part...)
	if err != nil {
		return err
	}
	out := b.outFile("peer.tif")
	variants := []variant{
		b.apply("leat apply as it comes", ndviText, []string{"red=" + smallRed, "nir=" + smallNIR}),
		{name: "leat info", args: []string{b.leat, "info", smallRed}},
	}
	variants = append(variants, b.peer("rasterio as it comes, block by block", "ndvi.py", out, "blocks", "plain",
		smallRed, smallNIR, out)...)
	if b.gdalCalc != "" {
		variants = append(variants, variant{name: "gdalinfo", peer: true, args: []string{"gdalinfo", smallRed}})
	}
	results, err := b.measure(ctx, variants, 3*b.Runs)
	if err != nil {
		return err
	}
	b.table("A small file, 627 x 603", fmt.Sprintf("The time of starting and ending. Medians of %d runs.", 3*b.Runs),
		results)
	b.target("leat apply on a small file in <= 20 ms", 1000*results[0].time().median, 20, "%.0f ms")
	return nil
}
