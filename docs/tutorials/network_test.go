package tutorials_test

import (
	"fmt"
	"testing"

	"baton/lab"
)

// network is a switch, and hosts on it.
type network struct {
	*testing.T
	middle *lab.Host
	ports  int
}

func newNetwork(t *testing.T, l *lab.Lab, name string) *network {
	t.Helper()
	n := &network{T: t, middle: l.Host(name)}
	n.ip("link", "add", "br0", "type", "bridge")
	n.ip("link", "set", "br0", "up")
	return n
}

// join connects a host's interface to the switch.
func (n *network) join(h *lab.Host, name string, addresses ...string) {
	n.Helper()
	port := fmt.Sprintf("port%d", n.ports)
	n.ports++
	h.Lab().Link(lab.End{Host: h, Name: name, Addrs: addresses}, lab.End{Host: n.middle, Name: port}, lab.LinkOptions{})
	n.ip("link", "set", port, "master", "br0")
}

func (n *network) ip(args ...string) {
	n.Helper()
	if _, err := n.middle.Exec(n.Context(), "ip", args...); err != nil {
		n.Fatal(err)
	}
}
