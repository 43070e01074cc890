package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"
)

// modelBlocks returns the commands of docs/recipes.md that apply a model, those of scikit-learn and
// those of PyTorch.
func modelBlocks(t *testing.T) (forest, network []string) {
	blocks := fencedBlocks(t, "recipes.md", "bash")
	at := slices.IndexFunc(blocks, func(b string) bool { return strings.Contains(b, "torch") })
	if at < 1 {
		t.Fatal("the page has other commands")
	}
	return blocks[:at], blocks[at:]
}

// runModel runs commands of the page with the interpreter that has the modules.
func runModel(t *testing.T, modules []string, commands func(t *testing.T) []string) *pageRun {
	t.Helper()
	r := newPageRun(t)
	bin := t.TempDir()
	if err := os.Symlink(pytest.Python(t, modules...), filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "PATH="+bin+":"+os.Getenv("PATH"))
	for _, c := range append([]string{"leat demo --dates 6 --size 500 demo"}, commands(t)...) {
		r.run(t, c)
	}
	return r
}

func TestRecipeOfTrainedModel(t *testing.T) {
	r := runModel(t, []string{"sklearn", "joblib", "rasterio"}, func(t *testing.T) []string {
		forest, _ := modelBlocks(t)
		return append(forest, `cat > counted.py <<'END'
import model
class Classify(model.Classify):
    def __init__(self, params):
        with open("loaded", "a") as f:
            f.write("once\n")
        super().__init__(params)
END
leat apply --python counted.py:Classify --python-params '{"model": "model.joblib"}' --nodata 0 -j 2 --window 128 \
  -i red=demo/2024-05-26/B04.tif -i nir=demo/2024-05-26/B08.tif -o counted.tif --overview-method mode`)
	})
	var got struct{ Same, Counted, Valid, Classes, Loaded int }
	pytest.Run(t, []string{"numpy", "rasterio", "joblib", "sklearn"}, `
import json, sys, joblib, numpy as np, rasterio
d = json.load(sys.stdin)
read = lambda name: rasterio.open(d + "/" + name).read(1)
red, nir = read("demo/2024-05-26/B04.tif"), read("demo/2024-05-26/B08.tif")
want = joblib.load(d + "/model.joblib").predict(np.column_stack([red.ravel(), nir.ravel()])).reshape(red.shape)
want[(red == 0) | (nir == 0)] = 0
print(json.dumps({"Same": int((read("predicted.tif") == want).all()), "Counted": int((read("counted.tif") == want).all()),
    "Valid": int((want > 0).sum()), "Classes": len(np.unique(want)), "Loaded": len(list(open(d + "/loaded")))}))
`, r.dir, &got)
	if got.Same != 1 || got.Counted != 1 || got.Valid < 200000 || got.Classes < 4 {
		t.Errorf("%+v", got)
	}
	if got.Loaded < 1 || got.Loaded > 2 { // 16 blocks in two processes
		t.Errorf("the model was loaded %d times by two processes", got.Loaded)
	}
}

func TestRecipeOfNetwork(t *testing.T) {
	r := runModel(t, []string{"torch"}, func(t *testing.T) []string {
		_, network := modelBlocks(t)
		return network
	})
	var got struct{ Difference, Range float64 }
	pytest.Run(t, []string{"numpy", "torch", "rasterio"}, `
import json, sys, numpy as np, rasterio, torch
d = json.load(sys.stdin)
read = lambda name: rasterio.open(d + "/" + name).read()
pixels = np.concatenate([read("demo/2024-05-26/B04.tif"), read("demo/2024-05-26/B08.tif")]).astype("f4") / 10000
pixels = torch.from_numpy(np.pad(pixels, ((0, 0), (3, 3), (3, 3)), "edge"))
with torch.inference_mode():
    want = torch.jit.load(d + "/network.pt").eval()(pixels[None])[0].numpy()[:, 3:-3, 3:-3]
print(json.dumps({"Difference": float(np.abs(read("network.tif") - want).max()), "Range": float(want.max() - want.min())}))
`, r.dir, &got)
	if got.Difference > 1e-5*got.Range || got.Range <= 0 {
		t.Errorf("%+v", got)
	}
}
