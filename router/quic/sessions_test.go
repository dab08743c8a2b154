package quic

import (
	"net/netip"
	"testing"
	"time"

	"baton/router/legs"
)

var testPorts = legs.PortRange{Low: 2048, High: 2048 + 1023}

// TestPortsAreForgotten: those to a surrogate that has no sessions any more leave nothing, after a while.
func TestPortsAreForgotten(t *testing.T) {
	var x sessions
	x.init(testPorts, 16)
	now := time.Now()
	for i := range 100 {
		to := pair{netip.MustParseAddr("10.2.1.1"), netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 9, byte(i)}), 443)}
		port, _ := x.portsOf(to).Alloc()
		if i > 0 {
			x.freePort(to, port, now)
		}
	}
	if x.removePorts(time.Minute, now.Add(time.Minute-1)); len(x.ports) != 100 {
		t.Errorf("%d sets: their ports are not taken in turn", len(x.ports))
	}
	if x.removePorts(time.Minute, now.Add(time.Minute)); len(x.ports) != 1 {
		t.Errorf("%d sets are left, want the one in use", len(x.ports))
	}
}
