package test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"baton/lab"
	"baton/lab/peers"
)

// TestQUICAsTLS: VIPs of TLS and QUIC at one address, with one pool of policy hash, choose the same surrogate for a client and a name, so
// that Alt-Svc leads to where it came from.
func TestQUICAsTLS(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	var names, surrogates []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("n%d.test", i))
	}
	for _, name := range []string{"a", "b", "c"} {
		s := n.site(name, lab.LinkOptions{})
		own := name + ".own"
		secureNginx(ca, s, append([]string{own}, names...)...)
		q := n.quicServe(ca, s, quicOptions{}, append([]string{own}, names...)...)
		surrogates = append(surrogates, fmt.Sprintf("{name: %s, address: %q}", name, q.at))
	}
	r := n.start(fmt.Sprintf(`vips:
  - {address: %[1]q, interfaces: [%[2]s], protocol: tls, routes: [{pool: p}]}
  - {address: %[1]q, interfaces: [%[2]s], protocol: quic, routes: [{pool: p}]}
pools:
  p: {policy: hash, surrogates: [%[3]s]}
`, vip, n.front.Name, strings.Join(surrogates, ", ")))
	defer r.endQUIC()
	chosen := make(map[string]bool)
	for _, name := range names {
		surrogate, _ := fetchQUIC(t, n.quicClient(ca, false).dial(t, vip, name, nil), 100) // a port has one surrogate
		chosen[surrogate] = true
		if over := n.answersTLS(t, ca, vip, name); over != surrogate {
			t.Errorf("%s: %q by QUIC, %q by TLS", name, surrogate, over)
		}
	}
	if len(chosen) < 2 {
		t.Errorf("all names go to %v: the test is not about the choice", chosen)
	}
}

// answersTLS is the surrogate whose certificate a handshake by TCP shows.
func (n *network) answersTLS(t *testing.T, ca *peers.Authority, vip, name string) string {
	t.Helper()
	c, err := n.client.Dial(deadline(t), "tcp", netip.MustParseAddrPort(vip).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session := tls.Client(c, &tls.Config{ServerName: name, RootCAs: ca.Pool})
	if err := session.HandshakeContext(context.WithoutCancel(deadline(t))); err != nil {
		t.Fatal(err)
	}
	own := session.ConnectionState().PeerCertificates[0].Subject.CommonName
	return strings.TrimSuffix(own, ".own")
}
