package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"leat/internal/live"
)

func Example() {
	page := live.New(live.Options{
		Title: "ndvi",
		Status: func() live.Status {
			return live.Status{Phase: live.Computing, Started: time.Now(), Blocks: live.Blocks{Total: 100, Done: 42}}
		},
	})
	url, err := page.Listen("0") // a free port of the loopback
	if err != nil {
		fmt.Println(err)
		return
	}
	defer page.Close(context.Background())
	// People open the URL in a browser; a script asks for the numbers.
	resp, err := http.Get(strings.Replace(url, "/?", "/status.json?", 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	var s struct {
		Title  string
		Phase  live.Phase
		Blocks live.Blocks
	}
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s, %d of %d\n", s.Title, s.Phase, s.Blocks.Done, s.Blocks.Total)
	// Output: ndvi: blocks, 42 of 100
}
