// Command bench measures leat and its peers end to end, part by part, and prints tables in
// Markdown. README.md in the directory above describes what is measured and how.
package main

import (
	"os"

	"leat/bench/apply"
	"leat/bench/cache"
	"leat/bench/codec"
	"leat/bench/gdal"
	"leat/bench/namespace"
	"leat/bench/runner"
	"leat/bench/shm"
	"leat/bench/stage"
	"leat/bench/workers"
	"leat/bench/zonal"
)

func main() {
	os.Exit(runner.Main(apply.Part, cache.Part, shm.Part, namespace.Part, stage.Part, workers.Part, gdal.Part,
		zonal.Part, codec.Part))
}
