package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"baton/lab"
)

// TestIdleLimitGrowsAgain: a surrogate closes idle connections early, and after a restart does not: the pool learns both.
func TestIdleLimitGrowsAgain(t *testing.T) {
	n := newNetwork(t)
	s := n.site("s1", lab.LinkOptions{})
	run := func(keep time.Duration) *http.Server {
		t.Helper()
		l, err := s.Listen("tcp", ":80")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: &origin{name: "s1"}, ReadHeaderTimeout: keep, IdleTimeout: keep}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
		return server
	}
	server := run(2 * time.Second)
	r := n.start(fmt.Sprintf("vips:\n  - {address: %q, interfaces: [%s], routes: [{pool: p}]}\n"+
		"pools:\n  p: {legs: {idle: 6s}, surrogates: [{name: s1, address: %q}]}\n", vip4, n.front.Name, s.v4))
	says := func(within time.Duration, text string) {
		t.Helper()
		err := lab.Poll(within, func() error {
			if !strings.Contains(r.Log(), text) {
				return fmt.Errorf("the log lacks %q:\n%s", text, r.Log())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	says(answersWithin, `surrogate closes idle connections`)
	server.Close()
	run(time.Hour)
	// A scout starts a minute after the last close, and must then live for legs.idle.
	says(2*time.Minute, `surrogate keeps idle connections again`)
	closed := func() float64 {
		return r.metrics()[`baton_router_leg_events_total{event="closed idle",surrogate="s1"}`]
	}
	before := closed()
	retired := func() float64 { return r.metrics()[`baton_router_leg_events_total{event="retired",surrogate="s1"}`] }
	last := retired()
	err := lab.Poll(answersWithin, func() error {
		if got := retired(); got < last+16 {
			return fmt.Errorf("%v legs renewed", got-last)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := closed(); got != before {
		t.Errorf("the surrogate closed %v legs, want the pool to be first", got-before)
	}
}
