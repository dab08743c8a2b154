package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
)

// TestEachRequestIsRoutedUnderLoss: sessions alternate between pools, with losses everywhere: each request is still answered by
// its own pool.
func TestEachRequestIsRoutedUnderLoss(t *testing.T) {
	const clients, requests = 32, 60
	n := newNetwork(t)
	ends := []*lab.Interface{n.front, n.client.Interface("eth0")}
	var sites [2]*site
	for i, name := range []string{"a", "b"} {
		s := n.site(name, lab.LinkOptions{})
		serve(t, s.Host, name)
		sites[i] = s
		ends = append(ends, s.back, s.side)
	}
	n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{match: {host: a.test}, pool: a}, {pool: b}]}]\n"+
		"pools: {a: {surrogates: [{name: a, address: %q}]}, b: {surrogates: [{name: b, address: %q}]}}\n",
		vip4, n.front.Name, sites[0].v4, sites[1].v4))
	for _, end := range ends {
		end.Lose(0.02)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var work errgroup.Group
	for i := range clients {
		work.Go(func() error {
			return routedSession(t.Context(), n.client, rand.New(rand.NewPCG(seed, uint64(i))), requests)
		})
	}
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
	lost := 0
	for _, end := range ends {
		n, err := end.Lost()
		if err != nil {
			t.Error(err)
		}
		lost += n
		end.Lose(0)
	}
	if lost < 100 {
		t.Errorf("%d packets lost: too few to prove anything", lost)
	}
}

// routedSession sends requests of all kinds over one connection.
func routedSession(ctx context.Context, h *lab.Host, random *rand.Rand, requests int) error {
	c, err := dial(ctx, h, vip4)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	for nth := range requests {
		host := string("ab"[random.IntN(2)])
		kind := []string{"bytes", "chunked", "long", "early", "sink"}[random.IntN(5)]
		size := random.IntN(1 << (6 + random.IntN(11)))
		request := fmt.Sprintf("GET /%s/%d HTTP/1.1\r\nHost: %s.test\r\n\r\n", kind, size, host)
		if kind == "sink" {
			body, left := "", patternText(size)
			for len(left) > 0 {
				piece := left[:min(len(left), 1+random.IntN(9000))]
				body, left = body+fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece), left[len(piece):]
			}
			request = fmt.Sprintf("POST /sink HTTP/1.1\r\nHost: %s.test\r\nX-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s0\r\nX-Trailer: t\r\n\r\n", host, size, body)
		}
		got, err := c.ask("GET", request)
		for err == nil && got.StatusCode == http.StatusEarlyHints {
			got, err = c.read("GET")
		}
		switch {
		case err != nil:
			return fmt.Errorf("request %d, %s of %d bytes: %w", nth, kind, size, err)
		case got.StatusCode != http.StatusOK:
			return fmt.Errorf("request %d, %s of %d bytes: %s", nth, kind, size, got.Status)
		case got.surrogate != host:
			return fmt.Errorf("request %d, %s of %d bytes: answered by %s, want %s", nth, kind, size, got.surrogate, host)
		case kind != "sink" && got.body != patternText(size):
			return fmt.Errorf("request %d, %s of %d bytes: another body, of %d bytes", nth, kind, size, len(got.body))
		}
	}
	return nil
}
