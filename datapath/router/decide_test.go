package router

import (
	"hash/fnv"
	"net/netip"
	"strings"
	"testing"

	"baton/datapath"
	"baton/packet"
)

// handedTo sends a request of a new client and returns the surrogate that got it; -1: upcall.
func (k *rig) handedTo(c *client, request string) int {
	k.t.Helper()
	c.connect(routerVerdictSYN_ANSWERED)
	r := k.run(packet.Build(c.packet(packet.ACK, request)))
	switch r.verdict {
	case Verdict(routerVerdictUPCALL):
		return -1
	case Verdict(routerVerdictHANDOFF):
		fl, ok := k.flow(c.f.client, c.f.vip)
		if !ok {
			k.t.Fatal("no flow")
		}
		return int(k.splice(fl.Splice).Surrogate)
	}
	k.t.Fatalf("got verdict %v", r.verdict)
	return 0
}

// nth is the family with another client port.
func (f family) nth(n int) family {
	f.client = datapath.AddrPort(f.client.Addr().As16(), datapath.BigEndian(f.client.Port()+uint16(n)))
	return f
}

// legsOf returns each surrogate up to n a few legs.
func (k *rig) legsOf(f family, surrogates uint16, each uint32) {
	for id := range surrogates {
		for i := range each {
			k.idle(uint32(id)*each+i, f, func(s *routerSplice) { s.Surrogate = id })
		}
	}
}

func TestRoutes(t *testing.T) {
	const (
		catchAll = iota
		video
		api
		named
		posts
		deep
		seven
		eight
	)
	methods := map[string]routerMethod{
		"GET": routerMethodMETHOD_GET, "HEAD": routerMethodMETHOD_HEAD, "POST": routerMethodMETHOD_POST,
		"PUT": routerMethodMETHOD_PUT, "DELETE": routerMethodMETHOD_DELETE,
	}
	hosts := []Host{{VIP: 3, Name: "cdn.example.net", ID: 7}, {VIP: 3, Name: strings.Repeat("h", 63), ID: 8}, {VIP: 4, Name: "other", ID: 9},
		{VIP: 3, Name: "seven.e", ID: 10}, {VIP: 3, Name: "eight.eu", ID: 11}, {VIP: 3, Name: strings.Repeat("h", 62), ID: 12}}
	var routes []Route
	for name, m := range methods {
		all := []Route{{Prefix: "/", Pool: catchAll}, {Prefix: "/video/", Pool: video}, {Prefix: "/api/", Pool: api}, {Prefix: "/upcall", Upcall: true}}
		if name == "POST" {
			all = append(all, Route{Prefix: "/video/up", Pool: posts})
		}
		all = append(all, Route{Host: 7, Prefix: "/", Pool: named}, Route{Host: 7, Prefix: "/video/", Pool: video},
			Route{Host: 7, Prefix: "/" + strings.Repeat("d", 127), Pool: deep}, Route{Host: 8, Prefix: "/", Pool: deep},
			Route{Host: 10, Prefix: "/", Pool: seven}, Route{Host: 11, Prefix: "/", Pool: eight}, Route{Host: 12, Prefix: "/", Pool: posts})
		for _, r := range all {
			r.VIP, r.Method = 3, uint8(m)
			routes = append(routes, r)
		}
	}
	long := "/" + strings.Repeat("d", 127)
	for _, tc := range []struct {
		name, request string
		want          int
	}{
		{"catch-all", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", catchAll},
		{"prefix", "GET /video/1 HTTP/1.1\r\nHost: a\r\n\r\n", video},
		{"prefix itself", "GET /video/ HTTP/1.1\r\nHost: a\r\n\r\n", video},
		{"prefix cut short", "GET /video HTTP/1.1\r\nHost: a\r\n\r\n", catchAll},
		{"prefix in other case", "GET /Video/1 HTTP/1.1\r\nHost: a\r\n\r\n", catchAll},
		{"query", "GET /video/1?x=/api/ HTTP/1.1\r\nHost: a\r\n\r\n", video},
		{"method", "POST /video/up HTTP/1.1\r\nHost: a\r\n\r\n", posts},
		{"other method", "GET /video/up HTTP/1.1\r\nHost: a\r\n\r\n", video},
		{"HEAD", "HEAD /api/ HTTP/1.1\r\nHost: a\r\n\r\n", api},
		{"PUT", "PUT /api/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", api},
		{"DELETE", "DELETE /api/ HTTP/1.1\r\nHost: a\r\n\r\n", api},
		{"upcall", "GET /upcall/me HTTP/1.1\r\nHost: a\r\n\r\n", -1},
		{"host", "GET / HTTP/1.1\r\nHost: cdn.example.net\r\n\r\n", named},
		{"host in other case", "GET / HTTP/1.1\r\nhOST: CDN.Example.NET\r\n\r\n", named},
		{"host with port", "GET / HTTP/1.1\r\nHost: cdn.example.net:8080\r\n\r\n", named},
		{"host with the dot of the root", "GET / HTTP/1.1\r\nHost: cdn.example.net.\r\n\r\n", named},
		{"host with the dot of the root and a port", "GET / HTTP/1.1\r\nHost: cdn.example.net.:80\r\n\r\n", named},
		{"host with two dots", "GET / HTTP/1.1\r\nHost: cdn.example.net..\r\n\r\n", catchAll},
		{"host that is a dot", "GET / HTTP/1.1\r\nHost: .\r\n\r\n", catchAll},
		{"host of 8 bytes and a dot", "GET / HTTP/1.1\r\nHost: eight.eu.\r\n\r\n", eight},
		{"host of 7 bytes and a dot", "GET / HTTP/1.1\r\nHost: seven.e.\r\n\r\n", seven},
		{"host of 62 bytes and a dot", "GET / HTTP/1.1\r\nHost: " + strings.Repeat("h", 62) + ".\r\n\r\n", posts},
		{"host of 63 bytes and a dot", "GET / HTTP/1.1\r\nHost: " + strings.Repeat("h", 63) + ".\r\n\r\n", deep},
		{"host without blank", "GET / HTTP/1.1\r\nHost:cdn.example.net\r\n\r\n", named},
		{"host behind other headers", "GET / HTTP/1.1\r\nAccept: */*\r\nX-Host: b\r\nHostile: c\r\nHost: cdn.example.net\r\n\r\n", named},
		{"host with two blanks", "GET / HTTP/1.1\r\nHost:  cdn.example.net\r\n\r\n", -1},
		{"host behind a tab", "GET / HTTP/1.1\r\nHost:\tcdn.example.net\r\n\r\n", -1},
		{"host before a blank", "GET / HTTP/1.1\r\nHost: cdn.example.net \r\n\r\n", -1},
		{"two hosts in one", "GET / HTTP/1.1\r\nHost: cdn.example.net b\r\n\r\n", -1},
		{"empty host", "GET / HTTP/1.1\r\nHost: \r\n\r\n", catchAll},
		{"literal IPv6 host", "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n", -1},
		{"host that begins alike", "GET / HTTP/1.1\r\nHost: cdn.example.net.evil\r\n\r\n", catchAll},
		{"host cut short", "GET / HTTP/1.1\r\nHost: cdn.example.ne\r\n\r\n", catchAll},
		{"host of another VIP", "GET / HTTP/1.1\r\nHost: other\r\n\r\n", catchAll},
		{"host of 63 bytes", "GET / HTTP/1.1\r\nHost: " + strings.Repeat("h", 63) + "\r\n\r\n", deep},
		{"host of 64 bytes", "GET / HTTP/1.1\r\nHost: " + strings.Repeat("h", 64) + "\r\n\r\n", -1},
		{"host and prefix", "GET /video/ HTTP/1.1\r\nHost: cdn.example.net\r\n\r\n", video},
		{"other host's prefix does not match", "GET /api/ HTTP/1.1\r\nHost: cdn.example.net\r\n\r\n", named},
		{"longest prefix", "GET " + long + "x HTTP/1.1\r\nHost: cdn.example.net\r\n\r\n", deep},
		{"one byte less", "GET " + long[1:] + " HTTP/1.1\r\nHost: cdn.example.net\r\n\r\n", -1},
		{"HTTP/1.0 without Host", "GET /video/ HTTP/1.0\r\n\r\n", video},
		{"HTTP/1.0 with Host", "GET / HTTP/1.0\r\nHost: cdn.example.net\r\n\r\n", named},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, f := range families {
				k := newRig(t)
				k.tap()
				k.vip(f, func(v *VIP) { v.OnePool = false })
				k.must(k.SetRoutes(hosts, routes))
				for pool := range uint16(8) {
					k.must(k.SetPool(pool, Pool{Policy: RoundRobin, Table: []uint16{pool}}))
				}
				k.legsOf(f, 8, 1)
				if got := k.handedTo(newClient(k, f, f.usual()), tc.request); got != tc.want {
					t.Errorf("got %d, want %d", got, tc.want)
				}
			}
		})
	}
}

func TestNoRoute(t *testing.T) {
	k := newRig(t)
	f := families[0]
	k.tap()
	k.vip(f, func(v *VIP) { v.OnePool = false })
	if got := k.handedTo(newClient(k, f, f.usual()), plainRequest); got != -1 {
		t.Errorf("got %d, want user space", got)
	}
}

// The host is ignored for a VIP whose routes name none.
func TestNoHosts(t *testing.T) {
	k := newRig(t)
	f := families[0]
	k.tap()
	k.vip(f, func(v *VIP) { v.OnePool, v.NoHosts = false, true })
	k.must(k.SetRoutes(nil, []Route{{VIP: 3, Method: uint8(routerMethodMETHOD_GET), Prefix: "/", Pool: 1}}))
	k.legsOf(f, 2, 1)
	if got := k.handedTo(newClient(k, f, f.usual()), "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n"); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func TestPolicyRoundRobin(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		table := []uint16{1, 2, 2, 3}
		k.must(k.SetPool(1, Pool{Policy: RoundRobin, Table: table}))
		k.legsOf(f, 4, 8)
		for n := range 2 * len(table) {
			if got := k.handedTo(newClient(k, f.nth(n), f.usual()), plainRequest); got != int(table[n%len(table)]) {
				t.Errorf("request %d: got %d, want %d", n, got, table[n%len(table)])
			}
		}
	})
}

// The slot is chosen by the path's hash, FNV-1a folded, without the query.
func TestPolicyHash(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		k.tap()
		table := make([]uint16, TableSlots)
		for i := range table {
			table[i] = uint16(i % 8)
		}
		k.must(k.SetPool(1, Pool{Policy: Hash, Table: table}))
		k.legsOf(f, 8, 8)
		for n, path := range []string{"/", "/a", "/a?q=1", "/a?q=2", "/b", "/" + strings.Repeat("x", 1000), "/c", "/d/e/f"} {
			h := fnv.New64a()
			bare, _, _ := strings.Cut(path, "?")
			h.Write([]byte(bare))
			sum := h.Sum64()
			want := int(table[uint32(sum^sum>>32)%uint32(TableSlots)])
			if got := k.handedTo(newClient(k, f.nth(n), f.usual()), "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); got != want {
				t.Errorf("%.20s: got %d, want %d", path, got, want)
			}
		}
		path := "/" + strings.Repeat("x", int(routerBoundHASH_BYTES))
		if got := k.handedTo(newClient(k, f.nth(100), f.usual()), "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); got != -1 {
			t.Errorf("path of %d bytes: got %d, want user space", len(path), got)
		}
	})
}

func TestPolicyNearest(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		k.must(k.SetPool(1, Pool{Policy: Nearest, Table: []uint16{0}}))
		bits := f.client.Addr().BitLen()
		near, host := netip.PrefixFrom(f.client.Addr(), bits-8), netip.PrefixFrom(f.client.Addr(), bits)
		k.legsOf(f, 4, 4)
		for n, tc := range []struct {
			name  string
			zones []Zone
			want  int
		}{
			{"no zone", nil, 0},
			{"zone", []Zone{{Pool: 1, Prefix: near, Table: []uint16{1}}}, 1},
			{"smaller zone", []Zone{{Pool: 1, Prefix: near, Table: []uint16{1}}, {Pool: 1, Prefix: host, Table: []uint16{2}}}, 2},
			{"zone of another pool", []Zone{{Pool: 2, Prefix: host, Table: []uint16{3}}}, 0},
		} {
			k.must(k.SetZones(tc.zones))
			if got := k.handedTo(newClient(k, f.nth(n), f.usual()), plainRequest); got != tc.want {
				t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
			}
		}
	})
}

// The member with the fewest sessions; ties are broken by round-robin.
func TestPolicyLeast(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		k.must(k.SetPool(1, Pool{Policy: Least, Members: []uint16{0, 1, 2}}))
		k.legsOf(f, 3, 8)
		for id, active := range []uint32{5, 3, 4} {
			k.count(uint16(id), func(c *routerSurrogate) { c.Active = active })
		}
		given := make(map[int]int)
		for n := range 3 {
			given[k.handedTo(newClient(k, f.nth(n), f.usual()), plainRequest)]++
		}
		if given[1] != 2 || given[2] != 1 { // 3 → 4, tie of 4 and 4, then the other
			t.Errorf("given to %v, want 1 twice and 2 once", given)
		}
		for id := range uint16(3) {
			if got := k.surrogate(id).Active; got != 5 {
				t.Errorf("surrogate %d: %d active, want 5", id, got)
			}
		}
	})
}

func TestPolicyUpcall(t *testing.T) {
	for _, p := range []Pool{{Policy: Upcall}, {Policy: RoundRobin}, {Policy: Least}, {Policy: Least, Members: make([]uint16, PoolMembers+1)}} {
		k := newRig(t)
		f := families[0]
		k.tap()
		k.vip(f)
		k.must(k.SetPool(1, p))
		if got := k.handedTo(newClient(k, f, f.usual()), plainRequest); got != -1 {
			t.Errorf("%+v: got %d, want user space", p, got)
		}
	}
}

// A route for any method applies where none of the request's method does, also to hosts that share a number.
func TestRouteForAnyMethod(t *testing.T) {
	const other, posts, any, deep = 0, 1, 2, 3
	hosts := []Host{{VIP: 3, Name: "a.net", ID: 7}, {VIP: 3, Name: "b.net", ID: 7}, {VIP: 3, Name: "c.net", ID: 65535}}
	routes := append(everyMethod(Route{VIP: 3, Host: 7, Prefix: "/deep/", Pool: deep}),
		Route{VIP: 3, Host: 7, Method: AnyMethod, Pool: any},
		Route{VIP: 3, Host: 7, Method: uint8(routerMethodMETHOD_POST), Prefix: "/post", Pool: posts},
		Route{VIP: 3, Method: AnyMethod, Pool: other})
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.tap()
		k.vip(f, func(v *VIP) { v.OnePool = false })
		k.must(k.SetRoutes(hosts, routes))
		for pool := range uint16(4) {
			k.must(k.SetPool(pool, Pool{Policy: RoundRobin, Table: []uint16{pool}}))
		}
		k.legsOf(f, 4, 8)
		for n, tc := range []struct {
			method, path, host string
			want               int
		}{
			{"GET", "/", "a.net", any}, {"POST", "/", "b.net", any},
			{"DELETE", "/post", "a.net", any}, {"POST", "/post", "b.net", posts},
			{"PUT", "/deep/x", "b.net", deep}, {"HEAD", "/x", "d.net", other},
			{"GET", "/", "c.net", -1}, {"PATCH", "/", "a.net", -1},
		} {
			request := tc.method + " " + tc.path + " HTTP/1.1\r\nHost: " + tc.host + "\r\n\r\n"
			if got := k.handedTo(newClient(k, f.nth(n), f.usual()), request); got != tc.want {
				t.Errorf("%s %s of %s: got %d, want %d", tc.method, tc.path, tc.host, got, tc.want)
			}
		}
		k.must(k.SetRoutes(nil, nil))
		if left := count(k, k.maps.Routes); left != 0 {
			t.Errorf("%d routes are left", left)
		}
	})
	if err := (&Router{}).writeRoutes(0, nil, []Route{{Method: AnyMethod, Prefix: "/a"}}); err == nil {
		t.Error("a prefix for any method is accepted")
	}
}
