package apply

import (
	"context"
	"os/exec"
	"strings"

	"leat/bench/measured"
)

// findPeers looks for Python with what the scripts need, and for gdal_calc.py.
func (b *bench) findPeers(ctx context.Context) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		out, err := exec.CommandContext(ctx, python, b.script("versions.py")).Output()
		if err == nil {
			b.python, b.versions = python, strings.TrimSpace(string(out))
			break
		}
	}
	if b.python == "" {
		b.note("NumPy and rasterio are not installed (Debian: python3-numpy python3-rasterio): all peers but gdal_calc.py are left out, and outputs are not compared.")
	}
	b.inputs.python = b.python
	if path, err := exec.LookPath("gdal_calc.py"); err == nil {
		b.gdalCalc = path
	} else {
		b.note("gdal_calc.py is not installed (Debian: python3-gdal gdal-bin): left out.")
	}
}

// machine describes where and with what the numbers were measured.
func (b *bench) machine(ctx context.Context) string {
	leat := ""
	if out, err := exec.CommandContext(ctx, b.leat, "--version").Output(); err == nil {
		leat = strings.TrimSpace(string(out))
	}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		leat += " (" + strings.TrimSpace(string(out)) + ")"
	}
	return measured.Machine(b.Command, b.versions, leat)
}
