package lab_test

import (
	"testing"
	"time"

	"baton/lab"
)

// quiet keeps every frame but the test's own off the wire, for tests that count frames: no ARP, no IPv6.
func quiet(a, b *lab.Host) {
	for _, h := range []*lab.Host{a, b} {
		h.Sysctl("net.ipv6.conf.eth0.disable_ipv6", "1")
	}
	a.Neighbour(a.Interface("eth0"), "10.1.0.2", b.Interface("eth0").MAC)
	b.Neighbour(b.Interface("eth0"), "10.1.0.1", a.Interface("eth0").MAC)
}

// passed returns when a frame of its own has passed from a to b, and so everything that a sent before.
func passed(t *testing.T, a, b *lab.Host) {
	t.Helper()
	in, err := b.ListenPacket("udp", "10.1.0.2:10")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := a.Dial(t.Context(), "udp", "10.1.0.2:10")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	lab.Eventually(t, long, func() error {
		if _, err := out.Write([]byte("passed")); err != nil {
			return err
		}
		in.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, _, err := in.ReadFrom(make([]byte, 16))
		return err
	})
}
