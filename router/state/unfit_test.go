package state

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/head"
	"baton/router/outcome"
	"baton/router/route"
)

const withFields = `vips:
  - {address: "10.9.9.1:80", interfaces: [eth0], routes: [{match: {host: plain.net}, pool: plain}, {pool: web}]}
  - {address: "10.9.9.2:80", mode: proxy, routes: [{pool: web}]}
  - {address: "10.9.9.3:80", interfaces: [eth0], routes: [{pool: plain}]}
pools:
  web: {client_address: forwarded, add_fields: [x-request-id], surrogates: [{name: a, address: "10.0.0.1:80"}]}
  plain: {surrogates: [{name: b, address: "10.0.0.2:80"}]}
`

func snapshotOf(t *testing.T, file string) *Snapshot {
	t.Helper()
	cfg, err := config.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Compile(cfg, &Numbers{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return allUp(c)
}

// TestFieldsInTables: the kernel gets the lines, and the names to look for at the VIPs that it splices.
func TestFieldsInTables(t *testing.T) {
	if config.MaxReplaced != kernel.Watches {
		t.Errorf("%d names are allowed, and the kernel looks for %d", config.MaxReplaced, kernel.Watches)
	}
	s := snapshotOf(t, withFields)
	got := tablesOf(s)
	text := "Forwarded: for=" + kernel.MarkNode + ";proto=http\r\nX-Request-Id: " + kernel.MarkRequestID + "\r\n"
	if p := got.Pools[s.Pools[0].ID]; p.Header != kernel.NoHeader || p.Edit != (kernel.Edit{Fields: text}) || p.Reuse != kernel.ReuseAlways {
		t.Errorf("pool with fields: %+v", p)
	}
	if p := got.Pools[s.Pools[1].ID]; p.Header != kernel.NoHeader || p.Edit != (kernel.Edit{}) {
		t.Errorf("pool without: %+v", p)
	}
	for address, want := range map[string]struct {
		watch []string
		hold  bool
	}{
		"10.9.9.1:80": {[]string{"forwarded", "x-request-id", "", ""}, true},
		"10.9.9.2:80": {make([]string, kernel.Watches), false},
		"10.9.9.3:80": {make([]string, kernel.Watches), false},
	} {
		if v := got.VIPs[netip.MustParseAddrPort(address)]; !slices.Equal(v.Watch[:], want.watch) || v.Hold != want.hold {
			t.Errorf("%s: watches %q, holds %v", address, v.Watch, v.Hold)
		}
	}
}

// TestUnfit: what the proxy sends, as the kernel cannot put fields into it.
func TestUnfit(t *testing.T) {
	s := snapshotOf(t, withFields)
	const plain = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, tt := range map[string]struct {
		segments []string
		outcome  outcome.Outcome // before a leg is waited for
		given    outcome.Outcome // when the kernel gives up
	}{
		"plain":          {[]string{plain}, "", outcome.NotInsertable},
		"in two packets": {[]string{plain[:20], plain[20:]}, outcome.NotInsertable, outcome.NotInsertable},
		"a client's own": {[]string{"GET / HTTP/1.1\r\nHost: h\r\nX-Request-Id: 1\r\n\r\n"}, outcome.ClientField, outcome.ClientField},
		"chunked":        {[]string{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"}, outcome.NotInsertable, outcome.NotInsertable},
	} {
		t.Run(name, func(t *testing.T) {
			request, first := []byte(strings.Join(tt.segments, "")), len(tt.segments[0])
			req, n, err := head.Parse(request)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Unfit(0, &route.Result{Pool: 0}, &req, n, first); got != tt.outcome {
				t.Errorf("outcome %q, want %q", got, tt.outcome)
			}
			if got := s.Unfit(0, &route.Result{Pool: 1}, &req, n, first); got != "" {
				t.Errorf("outcome %q for the pool without fields", got)
			}
			if got := s.UnfitForKernel(0, request, first); got != tt.given {
				t.Errorf("outcome %q after the kernel's, want %q", got, tt.given)
			}
		})
	}
	if got := s.UnfitForKernel(0, nil, 0); got != outcome.NotInsertable {
		t.Errorf("outcome %q without the request's first byte", got)
	}
}
