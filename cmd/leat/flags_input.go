package main

import "github.com/spf13/pflag"

// inputFlags are the options of inputs.
type inputFlags struct {
	inputs              []string // NAME=FILE
	layers, inputNodata []string // NAME=VALUE,...
	noMask, unscale     bool
}

// AddFlags adds the options.
func (f *inputFlags) AddFlags(fl *pflag.FlagSet) {
	fl.StringArrayVarP(&f.inputs, "input", "i", nil,
		"`NAME=FILE`: an input, or the URL of one; the same name again makes a list of files")
	group(fl, "input", "Inputs")
	fl.StringArrayVar(&f.layers, "layers", nil, "`NAME=N,N...`: the bands of an input to use, in this order")
	fl.StringArrayVar(&f.inputNodata, "input-nodata", nil,
		"`NAME=V,V...`: nodata of an input instead of what its files say; one value for all bands, or one for each; none for none")
	fl.BoolVar(&f.noMask, "no-mask", false, "nodata, masks and alpha do not count: every pixel is valid")
	fl.BoolVar(&f.unscale, "unscale", false, "expressions see pixel*scale + offset of inputs that have them")
}
