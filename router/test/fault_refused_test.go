package test

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"baton/lab"
)

// TestRefusedWhileItSends: clients are still sending when their request is refused: each must receive the response.
func TestRefusedWhileItSends(t *testing.T) {
	n := newNetwork(t)
	l := &ledger{t: t}
	s := n.site("a", lab.LinkOptions{})
	l.recorder(t, s.Host, "a")
	n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: a}]}]\npools: {a: {surrogates: [{name: a, address: %q}]}}\n", vip4, n.front.Name, s.v4))
	q := badRequest{text: "\x16 is the first byte of TLS", status: 400}
	bytes := make([]int, len(q.text)-1)
	for i := range bytes {
		bytes[i] = i + 1
	}
	var work errgroup.Group
	work.SetLimit(8)
	for i := range 3000 {
		work.Go(func() error {
			v := &badVisit{badRequest: q, n: n, l: l, behind: i%2 == 0, cuts: bytes}
			if err := v.run(t); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			return nil
		})
	}
	_ = work.Wait()
	l.audit()
}
