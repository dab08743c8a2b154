package test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"baton/lab"
)

// TestRefusedClientReturns: a client reuses its port at once. The VIP's server has closed the connection first, so that the host
// still holds it (TIME_WAIT).
func TestRefusedClientReturns(t *testing.T) {
	n := newNetwork(t)
	s := n.site("a", lab.LinkOptions{})
	serve(t, s.Host, "a")
	n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: a4}]}, {address: %q, interfaces: [%[2]s], routes: [{pool: a6}]}]\n"+
		"pools: {a4: {surrogates: [{name: a4, address: %[4]q}]}, a6: {surrogates: [{name: a6, address: %[5]q}]}}\n", vip4, n.front.Name, vip6, s.v4, s.v6))
	for _, tt := range []struct{ vip, from string }{{vip4, "10.1.0.2:20000"}, {vip6, "[fd01::2]:20000"}} {
		for i := range 20 {
			raw, err := n.client.DialFrom(deadline(t), "tcp", tt.from, tt.vip)
			if err != nil {
				t.Fatalf("%s, visit %d: %v", tt.vip, i, err)
			}
			c := &connection{raw, bufio.NewReader(raw)}
			_ = c.SetDeadline(time.Now().Add(answersWithin))
			got, err := c.ask("GET", "GET /\r\n\r\n")
			if err != nil || got.StatusCode != http.StatusBadRequest {
				t.Fatalf("%s, visit %d: %+v %v", tt.vip, i, got.Response, err)
			}
			if err := c.ends(); err != nil {
				t.Fatalf("%s, visit %d: %v", tt.vip, i, err)
			}
			c.Close()
		}
	}
}

// ends expects the end without further bytes.
func (c *connection) ends() error {
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		return fmt.Errorf("after the last answer %.100q, %w", rest, err)
	}
	return nil
}
