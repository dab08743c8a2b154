package host

import "testing"

// TestStateIsAsBeforeEverywhere is as TestStateIsAsBeforeWithOpenVSwitch, at every step.
func TestStateIsAsBeforeEverywhere(t *testing.T) {
	n := newNetwork(t)
	killEverywhere(t, n, withOpenVSwitch(t, n), 1)
}
