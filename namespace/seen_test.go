//go:build unix

package namespace

import (
	"testing"
	"time"
)

func TestTimeoutWhileSuspended(t *testing.T) {
	var s seen
	now := time.Now()
	for range 11 {
		s.at(now)
		now = now.Add(time.Millisecond)
	}
	if got := s.at(now.Add(time.Hour)); got != 10*time.Millisecond+maxBetween {
		t.Errorf("seen for %v", got)
	}
}
