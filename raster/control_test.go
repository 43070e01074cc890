package raster

import "testing"

func TestAWindowOfAGridShiftsPointsAndCoefficients(t *testing.T) {
	rpc := &RPC{LineOff: 2.25, SampOff: 3.25}
	g := Grid{Width: 100, Height: 80, Transform: Identity, RPC: rpc,
		GCPs: &GCPs{Points: []GCP{{ID: "1", Pixel: 10, Line: 20, X: 5, Y: 6, Z: 7}}}}
	s := g.Sub(Window{Col: 3, Row: 4, Width: 10, Height: 10})
	if p := s.GCPs.Points[0]; p != (GCP{ID: "1", Pixel: 7, Line: 16, X: 5, Y: 6, Z: 7}) {
		t.Errorf("the point is %v", p)
	}
	if g.GCPs.Points[0].Pixel != 10 || g.RPC.SampOff != 3.25 {
		t.Error("the grid itself was changed")
	}
	if s.RPC.SampOff != 0.25 || s.RPC.LineOff != -1.75 {
		t.Errorf("the offsets are %v, %v", s.RPC.SampOff, s.RPC.LineOff)
	}
}
