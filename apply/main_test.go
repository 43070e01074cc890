package apply

import (
	"testing"

	"go.uber.org/goleak"

	"leat/internal/proctest"
	"leat/internal/worker/pbstest"
)

func TestMain(m *testing.M) {
	pbstest.Main()
	Main(testFunctions, nil)
	proctest.Main(map[string]proctest.Func{
		"slow output":         slowOutput,
		"polygon output":      polygonOutput,
		"resumed output":      resumedOutput,
		"whole overviews":     wholeOverviews,
		"resumed outputs":     resumedOutputs,
		"output with sidecar": outputWithSidecar,
		"point outputs":       pointOutputs,
		"large raster":        largeRaster,
		"vector output":       vectorOutput,
		"format output":       formatOutput,
		"endless function":    endlessFunction,
		"table output":        tableOutput,
	})
	goleak.VerifyTestMain(m)
}
