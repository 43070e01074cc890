package codec_test

import (
	"fmt"
	"time"

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

func ExampleAny() {
	// A table of codecs by name, each for values of its own type.
	codecs := map[string]codec.Codec[any]{
		"when":  codec.Any(codec.Binary[time.Time]()),
		"count": codec.Any(codec.JSON[int]()),
	}
	b, err := codecs["count"].Encode(3)
	fmt.Printf("%s %v\n", b, err)
	_, err = codecs["count"].Encode("three")
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// a value of type string, expected int
}
