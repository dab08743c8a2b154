package test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/emulator"
)

// leg is a surrogate's TCP information on a leg.
type leg struct {
	rto, shortest float64 // ms
	used          bool    // has carried a response
}

var (
	legRTO      = regexp.MustCompile(`\brto:([\d.]+)`)
	legShortest = regexp.MustCompile(`\bminrtt:([\d.]+)`)
)

// legsOf lists a surrogate's established connections.
func legsOf(t *testing.T, s *site) []leg {
	t.Helper()
	out, err := s.Exec(deadline(t), "ss", "-Htino", "state", "established", "sport = :80 and dport < :32768") // ports of legs
	if err != nil {
		t.Fatal(err)
	}
	var legs []leg
	for line := range strings.Lines(out) {
		rto := legRTO.FindStringSubmatch(line)
		if rto == nil {
			continue
		}
		l := leg{used: strings.Contains(line, "bytes_sent:")}
		l.rto, _ = strconv.ParseFloat(rto[1], 64)
		if m := legShortest.FindStringSubmatch(line); m != nil {
			l.shortest, _ = strconv.ParseFloat(m[1], 64)
		}
		legs = append(legs, l)
	}
	return legs
}

// TestSurrogateKnowsNothingNearer: near clients use legs, and then a distant one, which the surrogate must not take for near.
func TestSurrogateKnowsNothingNearer(t *testing.T) {
	n := newNetwork(t)
	s := n.site("s1", lab.LinkOptions{})
	serve(t, s.Host, s.name)
	way := emulator.Shape{Delay: 40 * time.Millisecond}
	far, farEnd := n.clientHost("far", lab.LinkOptions{Emulated: true, AtoB: way, BtoA: way})
	n.start(fmt.Sprintf("vips:\n  - {address: %q, interfaces: [%s, %s], routes: [{pool: p}]}\n"+
		"pools:\n  p: {legs: {min: 4}, surrogates: [{name: s1, address: %q}]}\n", vip4, n.front.Name, farEnd.Name, s.v4))

	lab.Eventually(t, 10*time.Second, func() error {
		legs := legsOf(t, s)
		for _, l := range legs {
			if !l.used && (l.shortest < 80 || l.rto < 250) {
				t.Fatalf("a fresh leg: %+v, want a round trip of about 100 ms", l)
			}
		}
		if len(legs) < 4 {
			return fmt.Errorf("%d legs, want 4", len(legs))
		}
		return nil
	})

	get := func(h *lab.Host) {
		t.Helper()
		c := h.HTTPClient(20 * time.Second)
		defer c.CloseIdleConnections()
		r, err := c.Get("http://" + vip4 + "/bytes/1000")
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		get(n.client)
	}
	for range 3 { // the second gets a leg used by the first
		get(far)
		get(n.client)
	}
	var near, distant int
	for _, l := range legsOf(t, s) {
		switch {
		case !l.used:
		case l.shortest < 70:
			near++
		default:
			distant++
		}
	}
	if near == 0 || distant == 0 {
		t.Errorf("legs that have served: %d know a round trip of a near client, %d of the far one alone; want some of each: %+v",
			near, distant, legsOf(t, s))
	}
}
