package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzGridOptions plans a job with arbitrary values of the options that say which pixels there are
// and how they are cut. A plan that comes out lies on the pixels of the input.
func FuzzGridOptions(f *testing.F) {
	dir := f.TempDir()
	const side = 50 // pixels of 10 m, from x 500000 and y 5000000 on
	path := filepath.Join(dir, "a.npy")
	header := "{'descr': '|u1', 'fortran_order': False, 'shape': (50, 50), }"
	file := append([]byte("\x93NUMPY\x01\x00\x76\x00"), bytes.Repeat([]byte{' '}, 0x76+side*side)...)
	copy(file[10:], header)
	file[10+0x76-1] = '\n'
	if err := os.WriteFile(path, file, 0o600); err != nil {
		f.Fatal(err)
	}
	const none = "\x00" // the option is not given
	for _, seed := range [][6]string{
		{"0,9223372036854775800,10,100", none, none, none, none, none},
		{"1,0,9223372036854775807,20", none, none, "16777216", none, "2,4"},
		{"1,2,3,4", none, none, "16x32", "1,1,1", "none"},
		{"-9223372036854775808,0,-9223372036854775808,1", none, none, none, none, none},
		{none, "-inf,-inf,inf,inf", none, none, "1", none},
		{none, "1e308,-1e308,1e308,nan", none, none, "9223372036854775807", none},
		{none, "10,-40,20,-5", none, "9223372036854775807x1", "-1", "4611686018427387904"},
		{none, none, ",0,-1e308,1e308,1e308,1e-300", none, none, none},
		{none, none, ",0,0,2147483647,2147483647,1", "1", "1", "2,4,8,16,32,64,128,256,512,1024"},
		{none, none, ",1e-310,0,2e-310,1e-310,1e-311,1e-311", none, "1", none},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5])
	}
	f.Add("0,0,50,50", none, none, none, none, none)
	f.Fuzz(func(t *testing.T, srcwin, bbox, grid, window, layers, overviews string) {
		args := []string{"-i", "a=" + path, "-o", "x=" + filepath.Join(dir, "x.tif"), "-e", "a[1]", "--plan", "--json"}
		for option, value := range map[string]string{"srcwin": srcwin, "bbox": bbox, "window": window,
			"overviews": overviews} {
			if value != none {
				args = append(args, "--"+option+"="+value)
			}
		}
		if grid != none {
			args = append(args, "--grid=none"+grid) // other files and systems are not looked for
		}
		if layers != none {
			args = append(args, "--layers=a="+layers)
		}
		cmd := applyCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			return
		}
		var p planDoc
		if err := json.Unmarshal(out.Bytes(), &p); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, &out)
		}
		if p.Width < 1 || p.Height < 1 || p.Width > side || p.Height > side || p.Blocks < 1 || p.Memory < 0 ||
			p.Memory > p.Budget {
			t.Fatalf("%q: %s", args, &out)
		}
	})
}
