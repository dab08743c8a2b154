package router

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

// Texts of fields.
const (
	forwardedFor = "X-Forwarded-For: " + MarkAddress + "\r\n"
	allFields    = "Forwarded: for=" + MarkNode + ";proto=http\r\nX-Forwarded-Proto: http\r\nX-Request-Id: " + MarkRequestID + "\r\n"
)

// marked prepares a pool that inserts fields, and a connected client.
func marked(t testing.TB, f family, text string) (*rig, *client, *surrogate) {
	t.Helper()
	k := newRig(t)
	k.tap()
	k.vip(f, func(v *VIP) {
		v.Hold, v.Watch = true, [Watches]string{"x-forwarded-for", "x-forwarded-proto", "x-real-ip", "client-ip"}
	})
	k.must(k.SetPool(1, Pool{Policy: RoundRobin, Table: []uint16{1}, Edit: Edit{Fields: text}}))
	s := k.idle(1, f)
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	return k, c, s
}

// inserted is the request with lines at the end of its head.
func inserted(request, lines string) string {
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	return head + "\r\n" + lines + "\r\n" + body
}

// says is an exchange in which the surrogate gets the client's address.
func says(c *client, s *surrogate, request, response string, verdict routerVerdict) {
	c.k.t.Helper()
	got := s.takes(c.send(packet.ACK|packet.PSH, request, verdict, actRedirect))
	if want := inserted(request, "X-Forwarded-For: "+c.f.client.Addr().String()+"\r\n"); string(got.Payload()) != want {
		c.k.t.Fatalf("the surrogate gets %q\nwant %q", got.Payload(), want)
	}
	told := c.takes(s.send(packet.ACK|packet.PSH, response, routerVerdictTO_CLIENT, actRedirect))
	if told.TCP().Ack() != c.seq {
		c.k.t.Fatalf("the client is told %d, want %d", told.TCP().Ack(), c.seq)
	}
	s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
}

const post = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"

// TestFields: every request of a client has them, also those of the next client on the same leg.
func TestFields(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := marked(t, f, forwardedFor)
		says(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		says(c, s, post, plainResponse, routerVerdictTO_SERVER)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		if got := k.splice(1); got.InsLen != 0 || got.Flags&uint32(routerSpliceFlagSPLICE_SPOILT) != 0 {
			t.Errorf("insertion of %d bytes open, flags %#x", got.InsLen, got.Flags)
		}
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect))
		next := newClient(k, f.nth(1), f.usual())
		next.connect(routerVerdictSYN_ANSWERED)
		says(next, s, post, plainResponse, routerVerdictHANDOFF)
	})
}

// TestAllFields: the other kinds, for random clients.
func TestAllFields(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		f := families[r.IntN(len(families))]
		address := f.client.Addr().As16()
		for i := 12; i < 16; i++ {
			address[i] = byte(r.IntN(256))
		}
		f.client = datapath.AddrPort(address, datapath.BigEndian(uint16(1+r.IntN(65535))))
		_, c, s := marked(t, f, allFields)
		id := fmt.Sprintf("%08x%08x%04x%04x%x", uint32(c.seq), uint32(c.ack), f.client.Port(), f.vip.Port(), address[12:])
		node := f.client.Addr().String()
		if f.client.Addr().Is6() {
			node = `"[` + node + `]"`
		}
		got := s.takes(c.send(packet.ACK|packet.PSH, plainRequest, routerVerdictHANDOFF, actRedirect))
		want := inserted(plainRequest, "Forwarded: for="+node+";proto=http\r\nX-Forwarded-Proto: http\r\nX-Request-Id: "+id+"\r\n")
		if string(got.Payload()) != want {
			t.Fatalf("got %q\nwant %q", got.Payload(), want)
		}
	}
}

// TestFieldsInChecksums: the sum of a packet of any length is right.
func TestFieldsInChecksums(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for n := range 9 {
			_, c, s := marked(t, f, forwardedFor)
			says(c, s, "GET /"+strings.Repeat("x", n)+" HTTP/1.1\r\nHost: a\r\n\r\n", plainResponse, routerVerdictHANDOFF)
		}
	})
}

// TestHeadsWithoutFields: what a client could deceive its surrogate with goes to the proxy.
func TestHeadsWithoutFields(t *testing.T) {
	f := families[0]
	head := func(lines ...string) string {
		return "GET /a HTTP/1.1\r\nHost: a\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	for _, request := range []string{
		head("X-Forwarded-For: 192.0.2.1"),
		head("x-forwarded-for:192.0.2.1"),
		head("X_Forwarded_For: 192.0.2.1"),
		head("X-FORWARDED-PROTO: https"),
		head("Accept: */*", "X-Real-IP: 192.0.2.1"),
		head("x_real-ip: 192.0.2.1", "Accept: */*"),
		head("Client-IP:1"),
		head("Connection: close, X-Forwarded-For"),
		head("Connection: X-Forwarded-For"),
		head("Connection: Upgrade", "Upgrade: websocket"),
		"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		head("A: b") + head("A: c"),
		head("A: b")[:20],
		head("A:\x00b"),
	} {
		k, c, _ := marked(t, f, forwardedFor)
		k.want(packet.Build(c.packet(packet.ACK, request)), routerVerdictUPCALL, actRedirect)
		p, err := k.Pending(f.client, f.vip)
		if err != nil {
			t.Fatal(err)
		}
		if watched := strings.Contains(strings.ToLower(request), "x") && !strings.Contains(request, "onnection"); watched && !p.Proxy && strings.HasSuffix(request, "\r\n\r\n") && !strings.Contains(request, "chunked") {
			t.Errorf("%q: user space is not told to leave it to the proxy", request)
		}
		// If user space chooses a surrogate all the same, the request does not reach it.
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Method: uint8(routerMethodMETHOD_GET), Request: uint64(len(request))}))
		k.want(packet.Build(c.packet(packet.ACK, request)), routerVerdictUPCALL, actRedirect)
		if p, err = k.Pending(f.client, f.vip); err != nil || !p.Proxy {
			t.Errorf("%q: adopted without fields: %+v, %v", request, p, err)
		}
	}
	for _, request := range []string{head("X-Forwarded-Host: a"), head("X-Forwarded-Foo: a"), head("Client-Ips: a"), head("Accept: x-forwarded-for:")} {
		_, c, s := marked(t, f, forwardedFor)
		says(c, s, request, plainResponse, routerVerdictHANDOFF)
	}
}

// TestFieldsInLaterUpcalls: a later request that cannot have fields is an upcall, and then the proxy's.
func TestFieldsInLaterUpcalls(t *testing.T) {
	f := families[0]
	k, c, s := marked(t, f, forwardedFor)
	says(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
	c.k.want(packet.Build(c.packet(packet.ACK, strings.Replace(plainRequest, "Host: a", "Host: a\r\nX-Real-IP: 1", 1))), routerVerdictUPCALL, actRedirect)
	if p, err := k.Pending(f.client, f.vip); err != nil || !p.Proxy {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestFieldsOfDecided: requests that user space decides have them too.
func TestFieldsOfDecided(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := marked(t, f, forwardedFor)
		request := strings.Replace(plainRequest, "GET", "OPTIONS", 1)
		k.want(packet.Build(c.packet(packet.ACK, request)), routerVerdictUPCALL, actRedirect)
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(request))}))
		says(c, s, request, plainResponse, routerVerdictHANDOFF)
	})
}

// TestOneOpen: the next request waits until the head before it is acknowledged.
func TestOneOpen(t *testing.T) {
	f := families[0]
	k, c, s := marked(t, f, forwardedFor)
	begins := s.ack
	s.takes(c.send(packet.ACK|packet.PSH, plainRequest, routerVerdictHANDOFF, actRedirect))
	acked := s.ack
	s.ack = begins + 40 // of a surrogate that answers a part of it
	c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	s.ack = acked
	k.want(packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest)), routerVerdictDROP_EARLY, actShot)
	k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect)
	says(c, s, plainRequest, plainResponse, routerVerdictTO_SERVER)
}

// arrivals are what a surrogate makes of segments that arrive in any order.
type arrivals struct {
	from  packet.Seq
	bytes []byte
	have  []bool
}

func (s *arrivals) takes(t *testing.T, frame []byte, check bool) {
	t.Helper()
	f, err := packet.Parse(frame)
	if err != nil {
		t.Fatal(err)
	}
	if check && f.TCP().Checksum() != f.TransportChecksum() {
		t.Errorf("bad checksum of %d bytes", len(f.Payload()))
	}
	at := int(int32(f.TCP().Seq() - s.from))
	if at < 0 {
		t.Fatalf("bytes at %d, before the first", at)
	}
	for i, b := range f.Payload() {
		for len(s.bytes) <= at+i {
			s.bytes, s.have = append(s.bytes, 0), append(s.have, false)
		}
		if s.have[at+i] && s.bytes[at+i] != b {
			t.Fatalf("byte %d is %q, and %q", at+i, s.bytes[at+i], b)
		}
		s.bytes[at+i], s.have[at+i] = b, true
	}
}

// TestLaidOver: where a packet cannot grow, the head's last bytes with the fields take its place, and the first go in front: full
// segments, packets of many segments, short heads, first and repeated, with any checksum.
func TestLaidOver(t *testing.T) {
	r := kerneltest.Rand(t)
	eachFamily(t, func(t *testing.T, f family) {
		for _, text := range []string{forwardedFor, allFields} {
			for _, path := range []int{0, 13, 14, 100, 1000} {
				for _, body := range []int{1400, 60000} {
					for _, repeated := range []bool{false, true} {
						k := newRig(t)
						w := k.wires()
						_, c, s := marked(t, f, text)
						k.must(k.SetPaths(1, []int{w.In.Ifindex}))
						leg := k.splice(1)
						leg.ToServer.Ifindex = uint32(w.Out.Ifindex)
						k.put(1, *leg)
						head := "PUT /" + strings.Repeat("x", path) + " HTTP/1.0\r\nContent-Length: " + fmt.Sprint(body) + "\r\n\r\n"
						request := head + string(randomBytes(r, body))
						if body == 1400 { // one segment, which is full
							request = request[:1388]
						}
						spec := c.packet(packet.ACK|packet.PSH, request)
						spec.Checksum = packet.SumPartial
						mss := 0
						if len(request) > 1388 {
							mss = 1388
						}
						got := arrivals{from: s.ack}
						for range map[bool]int{false: 1, true: 2}[repeated] {
							frame := packet.Build(spec)
							w.Send(partial(f, frame, mss), frame)
							for range 2 {
								h, b := w.Receive()
								if h.Flags&kerneltest.VnetNeedsCsum == 0 {
									t.Errorf("left with %+v", h)
								}
								got.takes(t, b, false)
							}
						}
						lines := strings.NewReplacer(MarkAddress, f.client.Addr().String()).Replace(text)
						if text == allFields {
							lines = string(got.bytes[len(head)-2 : len(got.bytes)-len(request)+len(head)-2])
							if !strings.HasPrefix(lines, "Forwarded: for=") || !strings.HasSuffix(lines, "\r\n") {
								t.Fatalf("lines %q", lines)
							}
						}
						if want := inserted(request, lines); string(got.bytes) != want {
							t.Fatalf("path %d, body %d, repeated %t:\ngot  %.300q\nwant %.300q", path, body, repeated, got.bytes, want)
						}
					}
				}
			}
		}
	})
}

// TestFieldsOverSegments: a head in two segments is not spliced, though GRO makes one packet of them.
func TestFieldsOverSegments(t *testing.T) {
	f := families[0]
	k := newRig(t)
	w := k.wires()
	_, c, _ := marked(t, f, forwardedFor)
	request := "GET /" + strings.Repeat("x", 700) + " HTTP/1.1\r\nHost: a\r\nCookie: " + strings.Repeat("y", 700) + "\r\n\r\n"
	spec := c.packet(packet.ACK|packet.PSH, request)
	spec.Checksum = packet.SumPartial
	frame := packet.Build(spec)
	before := k.counts()
	w.Send(partial(f, frame, 1000), frame)
	for i := 0; k.counts()[routerVerdictUPCALL] == before[routerVerdictUPCALL]; i++ {
		if i > 1000 {
			t.Fatal("no upcall")
		}
	}
	if p, err := k.Pending(f.client, f.vip); err != nil || !p.Proxy {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestTextsKeepTheirNumbers: a text that is used again has the number that it had, and a new one takes no number in use.
func TestTextsKeepTheirNumbers(t *testing.T) {
	k := newRig(t)
	k.vip(families[0])
	number := func(text string) uint16 {
		t.Helper()
		k.must(k.SetPool(1, Pool{Edit: Edit{Fields: text}}))
		var p routerPool
		k.must(k.maps.Pools.Lookup(poolPlace(k.tables.generation, 1), &p))
		return p.Header
	}
	kept := number("Kept: " + MarkAddress + "\r\n")
	k.must(k.SetPool(2, Pool{Edit: Edit{Fields: "Kept: " + MarkAddress + "\r\n"}}))
	for i := range 2 * int(routerBoundMAX_EDITS) {
		if n := number(fmt.Sprintf("Field-%d: x\r\n", i)); n == kept {
			t.Fatal("a number in use was given away")
		}
	}
	if number("Kept: "+MarkAddress+"\r\n") != kept {
		t.Error("the same text has another number")
	}
	for _, e := range []Edit{{Fields: strings.Repeat("x", EditText+1)}, {Prefix: strings.Repeat("x", EditText+1)}, {Host: strings.Repeat("x", EditText+1)}, {Strip: -1}, {Strip: RouteBytes + 1}} {
		if err := k.SetPool(3, Pool{Edit: e}); err == nil {
			t.Errorf("%+v is taken", e)
		}
	}
}

// rewritten prepares a route that edits, and a connected client.
func rewritten(t testing.TB, f family, e Edit) (*rig, *client, *surrogate) {
	t.Helper()
	k, c, s := marked(t, f, forwardedFor)
	k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {ID: 3, MSS: 1400, NoHosts: true, Hold: true}}))
	k.must(k.SetRoutes(nil, []Route{{VIP: 3, Method: uint8(routerMethodMETHOD_GET), Prefix: "/a", Pool: 1, Edit: e}, {VIP: 3, Method: uint8(routerMethodMETHOD_POST), Prefix: "/a", Pool: 1, Edit: e}}))
	return k, c, s
}

// TestRewrite: the surrogate gets another host and path, and the client's numbers fit all the same.
func TestRewrite(t *testing.T) {
	const body = "\r\nContent-Length: 5\r\n\r\nhello"
	for name, tc := range map[string]struct {
		edit          Edit
		request, want string
	}{
		"longer host":          {Edit{Host: "origin.example.net"}, "GET /a HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n", "GET /a HTTP/1.1\r\nHost: origin.example.net\r\nA: b\r\n\r\n"},
		"shorter host":         {Edit{Host: "o"}, "GET /a HTTP/1.1\r\nA: b\r\nHost: www.example.net:80\r\n\r\n", "GET /a HTTP/1.1\r\nA: b\r\nHost: o" + strings.Repeat(" ", 18) + "\r\n\r\n"},
		"the same host":        {Edit{Host: "b"}, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a HTTP/1.1\r\nHost: b \r\n\r\n"},
		"longer path":          {Edit{Prefix: "/origin/a", Strip: 2}, "GET /a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", "GET /origin/a/b?c HTTP/1.1\r\nHost: a\r\n\r\n"},
		"shorter path":         {Edit{Prefix: "/", Strip: 7}, "GET /a/long/b HTTP/1.1\r\nHost: a\r\n\r\n", "GET /" + "/b HTTP/1.1\r\nHost: a" + strings.Repeat(" ", 7) + "\r\n\r\n"},
		"in front of the path": {Edit{Prefix: "/x"}, "POST /a HTTP/1.1\r\nHost: a" + body, "POST /x/a HTTP/1.1\r\nHost: a" + body},
		"a long host and path": {Edit{Host: "o", Prefix: "/", Strip: 100}, "GET /a" + strings.Repeat("/", 98) + " HTTP/1.1\r\nHost: " + strings.Repeat("h", EditPadding-100) + "\r\n\r\n", "GET / HTTP/1.1\r\nHost: o" + strings.Repeat(" ", EditPadding-1) + "\r\n\r\n"},
		"a very long host":     {Edit{Host: "o"}, "GET /a HTTP/1.1\r\nA: b\r\nHost: " + strings.Repeat("h", 250) + "\r\n\r\n", "GET /a HTTP/1.1\r\nA: b\r\nHost: o" + strings.Repeat(" ", 250) + "\r\n\r\n"},
		"all": {Edit{Prefix: "/xyz", Strip: 2, Host: "origin", Fields: "A: b\r\n"}, "POST /a HTTP/1.1\r\nHost: a" + body,
			"POST /xyz HTTP/1.1\r\nHost: origin\r\nContent-Length: 5\r\nA: b\r\n\r\nhello"},
	} {
		t.Run(name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T, f family) {
				_, c, s := rewritten(t, f, tc.edit)
				for _, verdict := range []routerVerdict{routerVerdictHANDOFF, routerVerdictTO_SERVER} {
					got := s.takes(c.send(packet.ACK|packet.PSH, tc.request, verdict, actRedirect))
					if string(got.Payload()) != tc.want {
						t.Fatalf("got %q\nwant %q", got.Payload(), tc.want)
					}
					told := c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
					if told.TCP().Ack() != c.seq {
						t.Fatalf("the client is told %d, want %d", told.TCP().Ack(), c.seq)
					}
					s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
				}
			})
		})
	}
}

// TestRewriteAgain: a head of the same length with a host of another length does not take the first one's place.
func TestRewriteAgain(t *testing.T) {
	k, c, _ := rewritten(t, families[0], Edit{Host: "origin"})
	first := "GET /a HTTP/1.1\r\nHost: aa\r\nA: b\r\n\r\n"
	whole := k.want(packet.Build(c.packet(packet.ACK, first)), routerVerdictHANDOFF, actRedirect).parsed(t)
	again := k.want(packet.Build(c.packet(packet.ACK, first)), routerVerdictTO_SERVER, actRedirect).parsed(t)
	if !bytes.Equal(whole.Payload(), again.Payload()) || whole.TCP().Seq() != again.TCP().Seq() {
		t.Errorf("again %q", again.Payload())
	}
	k.want(packet.Build(c.packet(packet.ACK, "GET /a HTTP/1.1\r\nHost: a\r\nA: bb\r\n\r\n")), routerVerdictRESET_SENT, actRedirect)
}

// TestRewriteRefused: what cannot be rewritten is the proxy's.
func TestRewriteRefused(t *testing.T) {
	for request, e := range map[string]Edit{
		"GET /a HTTP/1.0\r\nA: b\r\n\r\n":                                               {Host: "origin"},
		"GET /a HTTP/1.0\r\n\r\n":                                                       {Prefix: "/b", Strip: 2},
		"GET /a HTTP/1.1\r\nHost: a\r\n\r\n":                                            {Prefix: "/b", Strip: 12},
		"GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                 {Host: "b"},
		"GET /a HTTP/1.1\r\nHost: " + strings.Repeat("h", EditPadding+1) + "\r\n\r\n":   {Host: "b"},
		"GET /abc HTTP/1.1\r\nHost: " + strings.Repeat("h", EditPadding-3) + "\r\n\r\n": {Host: "b", Prefix: "/", Strip: 4},
	} {
		k, c, _ := rewritten(t, families[0], e)
		k.want(packet.Build(c.packet(packet.ACK, request)), routerVerdictUPCALL, actRedirect)
	}
}

// TestIsWatched: user space compares names as the kernel does.
func TestIsWatched(t *testing.T) {
	watch := []string{"x-forwarded-for", "x-forwarded-proto", "id"}
	for name, want := range map[string]bool{
		"X-Forwarded-For": true, "x_forwarded-for": true, "X-Forwarded-Fo": false, "X-Forwarded-Form": false, "X-Forwarded-Proto": true, "X-Forwarded-Protocol": true,
		"X-Forwarded-Prot": true, "ID": true, "I": false, "Ids": false, "": false,
	} {
		if IsWatched(name, watch) != want {
			t.Errorf("%s: %t", name, !want)
		}
		k, c, _ := marked(t, families[0], forwardedFor)
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{families[0].vip: {ID: 3, MSS: 1400, OnePool: true, Pool: 1, Hold: true, Watch: [Watches]string{watch[0], watch[1], watch[2]}}}))
		if name == "" {
			continue
		}
		verdict := k.run(packet.Build(c.packet(packet.ACK, "GET / HTTP/1.1\r\nHost: a\r\n"+name+": 1\r\n\r\n"))).verdict
		if (verdict == Verdict(routerVerdictUPCALL)) != want {
			t.Errorf("%s: the kernel says %v", name, verdict)
		}
	}
}
