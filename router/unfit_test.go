package router

import (
	"net/netip"
	"slices"
	"testing"

	kernel "baton/datapath/router"
	"baton/packet"
	"baton/router/config"
	"baton/router/fields"
	"baton/router/head"
	"baton/router/health"
	"baton/router/legs"
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

func stateOf(t *testing.T, file string) *state {
	t.Helper()
	cfg, err := config.Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	s, err := newState(cfg, &numbers{})
	if err != nil {
		t.Fatal(err)
	}
	s.choose(func(string) health.State { return health.State{Up: true} }, nil)
	return s
}

// TestFieldsInTables: the kernel gets the lines, and the names to look for at the VIPs that it splices.
func TestFieldsInTables(t *testing.T) {
	if config.MaxReplaced != kernel.Watches {
		t.Errorf("%d names are allowed, and the kernel looks for %d", config.MaxReplaced, kernel.Watches)
	}
	s := stateOf(t, withFields)
	got := s.tables(1500, func(uint16) legs.Facts { return legs.Facts{} }, func(string) bool { return false })
	text := "Forwarded: for=" + kernel.MarkNode + ";proto=http\r\nX-Request-Id: " + kernel.MarkRequestID + "\r\n"
	if p := got.Pools[s.pools[0].id]; p.Header != kernel.NoHeader || p.Edit != (kernel.Edit{Fields: text}) || p.Reuse != kernel.ReuseAlways {
		t.Errorf("pool with fields: %+v", p)
	}
	if p := got.Pools[s.pools[1].id]; p.Header != kernel.NoHeader || p.Edit != (kernel.Edit{}) {
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
	s := stateOf(t, withFields)
	const plain = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, tt := range map[string]struct {
		segments []string
		outcome  string // before a leg is waited for
		given    string // when the kernel gives up
	}{
		"plain":          {[]string{plain}, "", fields.OutcomeNotInsertable},
		"in two packets": {[]string{plain[:20], plain[20:]}, fields.OutcomeNotInsertable, fields.OutcomeNotInsertable},
		"a client's own": {[]string{"GET / HTTP/1.1\r\nHost: h\r\nX-Request-Id: 1\r\n\r\n"}, fields.OutcomeClientField, fields.OutcomeClientField},
		"chunked":        {[]string{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"}, fields.OutcomeNotInsertable, fields.OutcomeNotInsertable},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pending{vip: netip.MustParseAddrPort("10.9.9.1:80"), base: 7}
			next := p.base
			for _, data := range tt.segments {
				p.add(segment{seq: next, data: []byte(data)})
				next = next.Add(uint32(len(data)))
			}
			req, n, err := head.Parse(p.contiguous())
			if err != nil {
				t.Fatal(err)
			}
			if got := s.unfitAt(0, &route.Result{Pool: 0}, p, &req, n); got != tt.outcome {
				t.Errorf("outcome %q, want %q", got, tt.outcome)
			}
			if got := s.unfitAt(0, &route.Result{Pool: 1}, p, &req, n); got != "" {
				t.Errorf("outcome %q for the pool without fields", got)
			}
			if got := s.unfit(p); got != tt.given {
				t.Errorf("outcome %q after the kernel's, want %q", got, tt.given)
			}
		})
	}
	gap := &pending{vip: netip.MustParseAddrPort("10.9.9.1:80"), base: 7}
	gap.add(segment{seq: packet.Seq(9), data: []byte("x")})
	if got := s.unfit(gap); got != fields.OutcomeNotInsertable {
		t.Errorf("outcome %q without the request's first byte", got)
	}
}
