package expr

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Compares with extended precision, so that an error of NumPy cannot hide one of ours. An error of
// 1.5 units in the last place here is at most 2 from the nearest float64.
func TestFloat64Accuracy(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "386" {
		t.Skip("NumPy has x87 extended precision on x86 only")
	}
	py := python(t)
	n := 200000
	if testing.Short() {
		n = 20000
	}
	ops := map[string]op{"exp": opExp, "expm1": opExpm1, "log": opLog, "log10": opLog10, "log2": opLog2,
		"log1p": opLog1p,
		"sin":   opSin, "cos": opCos, "tan": opTan, "asin": opAsin, "acos": opAcos, "atan": opAtan, "sinh": opSinh,
		"cosh": opCosh,
		"tanh": opTanh, "atan2": opAtan2, "hypot": opHypot, "pow": opPow}
	var names []string
	var buf bytes.Buffer
	r := rand.New(rand.NewPCG(7, 7))
	for name, o := range ops {
		names = append(names, name)
		a, b, d := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = sample(r), sample(r)
			if name == "pow" {
				switch i % 4 {
				case 0:
					b[i] = float64(r.IntN(200) - 100)
				case 1:
					a[i], b[i] = math.Abs(a[i]), math.Log(math.Abs(b[i]))
				case 2:
					a[i] = math.Abs(a[i])
					b[i] = (r.Float64()*1490 - 745) / math.Log(a[i]) // the whole range of the result
				}
			}
		}
		if f := kernels64.v[o]; f != nil {
			f(d, a)
		} else {
			kernels64.vv[o](d, a, b)
		}
		for _, s := range [][]float64{a, b, d} {
			if err := binary.Write(&buf, binary.LittleEndian, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "samples.bin"), filepath.Join(dir, "results.txt")
	if err := os.WriteFile(in, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(py, "-B", "testdata/accuracy.py", in, out,
		strings.Join(names, ",")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		f := strings.Fields(line)
		e, err := strconv.ParseFloat(f[1], 64)
		if err != nil || e > 1.5 {
			t.Errorf("%s", line)
		} else {
			t.Log(line)
		}
	}
}

// sample draws arguments that are difficult for functions: of all magnitudes, near 1, and near
// multiples of pi/2.
func sample(r *rand.Rand) float64 {
	sign := float64(1 - 2*r.IntN(2))
	switch r.IntN(7) {
	case 0:
		return sign * math.Ldexp(1+r.Float64(), r.IntN(2095)-1072)
	case 1:
		return sign * (1 + math.Ldexp(r.Float64()-0.5, -r.IntN(50)))
	case 2:
		return sign * float64(r.IntN(1000000)) * (math.Pi / 2)
	case 3:
		return sign * math.Ldexp(1+r.Float64(), -r.IntN(30))
	case 4:
		return sign * float64(r.IntN(1000))
	case 5:
		return sign * r.Float64() * 700
	}
	return sign * r.Float64() * 10
}
