package purge

import (
	"testing"

	"baton/lab/peers"
)

// TestMoved: the route is moved while a download goes on. The client is told, and nothing is left at the server of before.
func TestMoved(t *testing.T) {
	n := newNetwork(t)
	peers.Nginx(n.a, slow)
	peers.Nginx(n.b, slow)
	p := n.purge(n.a, policyText(""))
	for _, vip := range []string{vip4, vip6} {
		d := n.get(vip, "/1g")
		n.move(3)
		took := d.told()
		before := p.status().Policies[0].Ended
		t.Logf("%s: told after %v; %d ended", vip, took, before)
		p.untilEnded(before + 1)
		n.gone(n.a, d)
		n.move(2)
	}
	t.Log(p.Log())
}
