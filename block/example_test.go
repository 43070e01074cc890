package block_test

import (
	"fmt"

	"leat/block"
)

// ExamplePlan lists what each block writes, and reads with a margin of 2 pixels.
func ExamplePlan() {
	p := block.Plan{Width: 1000, Height: 600, WindowWidth: 512, WindowHeight: 512, Overlap: 2}
	grid := block.Window{Width: p.Width, Height: p.Height}
	for n := range p.Count() {
		b := p.At(n)
		fmt.Printf("block %d writes %v, reads %v\n", n, b.Window, b.Window.Grow(p.Overlap).Intersect(grid))
	}
	// Output:
	// block 0 writes 0,0 512x512, reads 0,0 514x514
	// block 1 writes 512,0 488x512, reads 510,0 490x514
	// block 2 writes 0,512 512x88, reads 0,510 514x90
	// block 3 writes 512,512 488x88, reads 510,510 490x90
}
