package codec_test

import (
	"fmt"

	"leat/codec"
)

func Example() {
	type point struct{ X, Y int }
	c := codec.JSON[point]()
	b, err := c.Encode(point{1, 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := c.Decode(b)
	fmt.Println(string(b), p, err)
	// Output: {"X":1,"Y":2} {1 2} <nil>
}
