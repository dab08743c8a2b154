package test

import (
	"fmt"
	"testing"

	"baton/lab"
	"baton/lab/peers"
)

// TestQUICHealth: new connections avoid a surrogate that answers no QUIC, and use it again.
func TestQUICHealth(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	site := n.site("a", lab.LinkOptions{})
	a := n.quicServe(ca, site, quicOptions{}, "a.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "a.test")
	r := n.start(fmt.Sprintf(`vips: [{address: %q, interfaces: [%s], protocol: quic, routes: [{pool: both}]}]
pools:
  both:
    health: {interval: 500ms, rise: 1, fall: 2}
    surrogates: [{name: a, address: %q, weight: 1}, {name: b, address: %q, weight: 1}]
`, vip, n.front.Name, a.at, b.at))
	defer r.endQUIC()
	answered := func() map[string]bool {
		by := make(map[string]bool)
		for range 8 {
			conn := n.quicClient(ca, false).dial(t, vip, "a.test", nil)
			surrogate, _ := fetchQUIC(t, conn, 1000)
			by[surrogate] = true
		}
		return by
	}
	r.becomes(t, "a", "up")
	if by := answered(); !by["a"] || !by["b"] {
		t.Errorf("answered by %v, want both", by)
	}
	a.close()
	r.becomes(t, "a", "down")
	if by := answered(); by["a"] || !by["b"] {
		t.Errorf("answered by %v while a is down", by)
	}
	n.quicServe(ca, site, quicOptions{}, "a.test")
	r.becomes(t, "a", "up")
	if by := answered(); !by["a"] || !by["b"] {
		t.Errorf("answered by %v, want both again", by)
	}
}
