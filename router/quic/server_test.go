package quic

import (
	"errors"
	"os"
	"testing"
	"time"

	"baton/datapath"
	"baton/router/flight"
)

// TestRunFailsWithItsTap: the error is returned at once, not when the router ends.
func TestRunFailsWithItsTap(t *testing.T) {
	s := &Server{o: Options{Tap: &datapath.Tap{}}, flights: flight.New(flight.Defaults)} // the tap is not open
	failed := make(chan error, 1)
	go func() { failed <- s.Run(t.Context()) }()
	select {
	case err := <-failed:
		if !errors.Is(err, os.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Run continues without its tap")
	}
}
