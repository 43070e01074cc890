// Package archtest checks that imports point down only: a package may import packages of lower
// layers, as listed below. It also checks names, comments and docs.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// layers from the ground up. A package that is not listed here is an error: it needs a place.
var layers = [][]string{
	{"leat/internal/fdio", "leat/internal/bytepool", "leat/internal/freelist", "leat/internal/lazyregexp", "leat/internal/browsertest", "leat/internal/elementary", "leat/internal/adler", "leat/internal/metric",
		"leat/internal/guardtest", "leat/python"},
	{"leat/codec", "leat/ndarray", "leat/block", "leat/internal/backoff", "leat/internal/inflate",
		"leat/internal/archtest", "leat/internal/fault", "leat/internal/listen",
		"leat/internal/pytest", "leat/internal/localdir", "leat/internal/localpath", "leat/internal/terminal", "leat/internal/regular",
		"leat/internal/sysmem", "leat/internal/testreport", "leat/internal/units", "leat/internal/wkt",
		"leat/internal/suggest", "leat/internal/storeurl", "leat/internal/expr/internal/focal"},
	{"leat/internal/deflate", "leat/internal/scalarvalue", "leat/internal/procfile", "leat/internal/childproc", "leat/internal/tempfile", "leat/timing", "leat/objstore/internal/transport", "leat/internal/config"},
	{"leat/internal/lockfile", "leat/internal/proctest", "leat/objstore"},
	{"leat/namespace", "leat/internal/rundir", "leat/internal/stagedir", "leat/stage/internal/store", "leat/internal/objstoretest", "leat/internal/filelist"},
	{"leat/cache", "leat/internal/vectorcopy", "leat/objstore/cloud", "leat/stage/internal/index",
		"leat/internal/worker/protocol"},
	{"leat/worker"},
	{"leat/internal/worker/runerror"},
	{"leat/internal/worker/coordinator", "leat/internal/worker/client", "leat/worker/internal/batch"},
	{"leat/raster", "leat/stage", "leat/worker/subprocess", "leat/worker/pbs", "leat/internal/worker/pbstest",
		"leat/worker/awsbatch", "leat/internal/worker/batchtest", "leat/worker/slurm", "leat/internal/worker/slurmtest",
		"leat/internal/worker/workertest", "leat/internal/worker/workersim"},
	{"leat/internal/driver", "leat/internal/georef", "leat/internal/tilecache", "leat/internal/colortable", "leat/internal/zonal", "leat/internal/table", "leat/internal/stagemetrics"},
	{"leat/internal/npy", "leat/internal/stats", "leat/internal/overview", "leat/internal/expr", "leat/internal/ranged", "leat/internal/tiff", "leat/internal/netcdf"},
	{"leat/expr", "leat/internal/geotiff", "leat/npy", "leat/shm", "leat/internal/rastertest", "leat/internal/tiffwrite"},
	{"leat/internal/gdal", "leat/internal/stac", "leat/raster/geotiff"},
	{"leat/apply/outcome"},
	{"leat/apply/internal/jobspec"},
	{"leat/apply/internal/spool"},
	{"leat/apply/internal/output"},
	{"leat/apply/internal/resolve"},
	{"leat/apply/internal/plan"},
	{"leat/apply/internal/plan/plantest"},
	{"leat/apply/internal/exec"},
	{"leat/apply/internal/pyfunc"},
	{"leat/apply", "leat/stage/metrics", "leat/internal/live", "leat/internal/preview"},
	{"leat/stores", "leat/internal/demo", "leat/internal/report", "leat/internal/zonaljob"},
	{"leat/cmd/leat", "leat/examples/cache", "leat/examples/sharing", "leat/examples/stage",
		"leat/examples/workers"},
}

func TestImportsGoDownOnly(t *testing.T) {
	rank := map[string]int{}
	for i, l := range layers {
		for _, p := range l {
			rank[p] = i
		}
	}
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "leat/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		mine, ok := rank[p.ImportPath]
		if !ok {
			t.Errorf("%s has no place among the layers", p.ImportPath)
		}
		for _, i := range p.Imports {
			if strings.HasPrefix(i, "leat/") && rank[i] >= mine && p.ImportPath != i {
				t.Errorf("%s imports %s, which does not lie below it", p.ImportPath, i)
			}
		}
	}
	if seen < 8 {
		t.Fatalf("only %d packages were looked at", seen)
	}
}
