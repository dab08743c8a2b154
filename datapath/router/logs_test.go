package router

import (
	"net/netip"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/datapath"
	"baton/packet"
)

// logged is newRig with a VIP that is logged, a leg of surrogate 1, and a client.
func logged(t *testing.T, f family, change ...func(*VIP)) (*rig, *client, *surrogate) {
	t.Helper()
	k := newRig(t)
	k.tap()
	k.vip(f, append(change, func(v *VIP) { v.Log = true })...)
	s := k.idle(1, f)
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	k.emptyLogs()
	return k, c, s
}

// emptyLogs forgets all records, those that are not over too.
func (k *rig) emptyLogs() {
	k.t.Helper()
	k.records()
	for n := range k.logs.pages {
		var page *ebpf.Map
		k.must(k.maps.LogPages.Lookup(n, &page))
		for i := range uint32(testSessions) {
			k.must(page.Update(i, &routerRequestLog{}, ebpf.UpdateAny))
		}
		k.must(page.Close())
	}
	k.must(replace(k.maps.LogHeads, map[routerTuple]routerLogHead{}, all))
}

// records empties the ring.
func (k *rig) records() (all []LogRecord) {
	k.t.Helper()
	l, err := k.Logs()
	k.must(err)
	defer l.Close()
	for done := false; !done; {
		done, err = l.Rest(func(r *LogRecord) {
			r.Name, r.Head = append([]byte{}, r.Name...), append([]byte{}, r.Head...)
			all = append(all, *r)
		})
		k.must(err)
	}
	return all
}

// wantRecords compares the records that are over but for their times, which must be in order.
func (k *rig) wantRecords(want ...LogRecord) {
	k.t.Helper()
	got := k.records()
	for _, r := range got {
		if age := time.Since(r.Time); age < r.Duration || age > time.Minute || r.Duration < r.FirstByte || r.FirstByte < 0 || (r.ToClient > 0) != (r.FirstByte > 0) {
			k.t.Errorf("%v old, first byte after %v, over after %v", age, r.FirstByte, r.Duration)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(LogRecord{}, "Time", "FirstByte", "Duration", "Name", "ID"), cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		k.t.Errorf("(-want +got):\n%s", diff)
	}
	for i, r := range got[:min(len(got), len(want))] {
		if !strings.HasPrefix(string(r.Name), string(want[i].Name)) || (len(want[i].Name) == 0) != (len(r.Name) == 0) {
			k.t.Errorf("name %q, want %q", r.Name, want[i].Name)
		}
	}
}

// recordOf is what a client's complete exchange leaves.
func (c *client) recordOf(s *surrogate, request, response string, status uint16, change ...func(*LogRecord)) LogRecord {
	r := LogRecord{
		Client: c.f.client, VIP: c.f.vip, Server: s.f.surrogate, Surrogate: 1, Pool: 1, Status: status, Minor: '1', Complete: true,
		ToServer: uint64(len(request)), ToClient: uint64(len(response)), Name: []byte("a\r\n"), Head: []byte(request[:min(len(request), int(routerBoundLOG_HEAD))]),
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func (c *client) acks(s *surrogate) {
	c.k.t.Helper()
	s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
}

// Requests of one session are a record each, once the response is acknowledged.
func TestLogRequests(t *testing.T) {
	long := "GET /" + strings.Repeat("p", 1000) + " HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, tt := range []struct {
		name      string
		request   string
		responses []string
		status    uint16
	}{
		{"GET", plainRequest, []string{plainResponse}, 200},
		{"HEAD", headReq, []string{"HTTP/1.1 404 Not Found\r\nContent-Length: 300\r\n\r\n"}, 404},
		{"POST", post4 + "body", []string{ok + "Content-Length: 0\r\n\r\n"}, 200},
		{"long", long, []string{plainResponse}, 200},
		{"304", plainRequest, []string{"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"}, 304},
		{"chunked", plainRequest, []string{ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "0\r\n\r\n"}, 200},
		{"head in two packets", plainRequest, []string{"HTTP/1.1 503 ", "No\r\nContent-Length: 0\r\n\r\n"}, 503},
		{"interim response", plainRequest, []string{"HTTP/1.1 103 Early Hints\r\n\r\n", ok + "Content-Length: 1\r\n\r\n", "x"}, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T, f family) {
				k, c, s := logged(t, f)
				exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
				k.wantRecords(c.recordOf(s, plainRequest, plainResponse, 200))
				request := func(before ...LogRecord) LogRecord {
					s.takes(c.send(packet.ACK, tt.request, routerVerdictTO_SERVER, actRedirect))
					k.wantRecords(before...)
					for _, part := range tt.responses {
						c.takes(s.send(packet.ACK, part, routerVerdictTO_CLIENT, actRedirect))
					}
					k.wantRecords()
					return c.recordOf(s, tt.request, strings.Join(tt.responses, ""), tt.status)
				}
				first := request()
				c.acks(s)
				k.wantRecords(first)
				second := request()
				third := request(second) // which acknowledges the second response
				c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect)
				k.wantRecords(third)
			})
		})
	}
}

// A session that ends leaves a record of its request, which says how.
func TestLogEnds(t *testing.T) {
	const begun = ok + "Content-Length: 9\r\n\r\nx"
	const closes = ok + "\r\nx"
	half := func(end End, change ...func(*LogRecord)) func(*LogRecord) {
		return func(r *LogRecord) {
			r.Complete, r.End = false, end
			for _, f := range change {
				f(r)
			}
		}
	}
	unfinished := func(r *LogRecord) { r.Unfinished = true }
	clientFirst, serverFirst := func(r *LogRecord) { r.ClientFirst = true }, func(r *LogRecord) { r.ServerFirst = true }
	both := func(c *client, s *surrogate, client bool) {
		for range 2 {
			if client {
				s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect))
			} else {
				c.takes(s.send(packet.ACK|packet.FIN, "", routerVerdictTO_CLIENT, actRedirect))
			}
			client = !client
		}
		if client {
			c.acks(s)
		} else {
			s.send(packet.ACK, "", routerVerdictTO_CLIENT, actRedirect)
		}
	}
	clientReset := func(_ *rig, c *client, s *surrogate) { c.send(packet.RST, "", routerVerdictTO_SERVER, actRedirect) }
	serverReset := func(_ *rig, c *client, s *surrogate) { s.send(packet.RST, "", routerVerdictTO_CLIENT, actRedirect) }
	clientCloses := func(_ *rig, c *client, s *surrogate) { both(c, s, true) }
	serverCloses := func(_ *rig, c *client, s *surrogate) { both(c, s, false) }
	for _, tt := range []struct {
		name     string
		response string
		end      func(k *rig, c *client, s *surrogate)
		want     func(*LogRecord)
	}{
		{"client's reset", begun, clientReset, half(ClientReset, unfinished)},
		{"surrogate's reset", begun, serverReset, half(ServerReset, unfinished)},
		{"client closes", begun, clientCloses, half(Closed, unfinished, clientFirst)},
		{"surrogate closes", begun, serverCloses, half(Closed, unfinished, serverFirst)},
		{"timeout", begun, func(k *rig, c *client, s *surrogate) {
			k.aged(1, 2*testTimeouts.Idle)
			if n, err := k.Sweep(testTimeouts); n != 1 || err != nil {
				k.t.Fatal(n, err)
			}
		}, half(Expired, unfinished)},
		{"timeout of a complete request", plainResponse, func(k *rig, c *client, s *surrogate) {
			k.aged(1, 2*testTimeouts.Idle)
			if n, err := k.Sweep(testTimeouts); n != 1 || err != nil {
				k.t.Fatal(n, err)
			}
		}, func(*LogRecord) {}},
		{"reset of a complete request", plainResponse, clientReset, func(*LogRecord) {}},
		{"surrogate's reset after a complete request", plainResponse, serverReset, func(*LogRecord) {}},
		{"response that ends with its connection", closes, serverCloses, func(r *LogRecord) { r.ServerFirst = true }},
		{"response that ends with its connection, which the client closes", closes, func(k *rig, c *client, s *surrogate) {
			clientReset(k, c, s)
		}, half(ClientReset)},
		{"pipelined", begun, func(_ *rig, c *client, s *surrogate) {
			s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
			both(c, s, true)
		}, half(Closed, clientFirst, func(r *LogRecord) { r.Whole, r.ToServer = true, 2*r.ToServer })},
		{"unsolicited", begun, func(k *rig, c *client, s *surrogate) {
			p := s.packet(packet.ACK, "x")
			p.Ack = packet.Seq(k.splice(1).SndBase)
			k.want(packet.Build(p), routerVerdictRESET_SENT, actRedirect)
		}, half(Cut, unfinished)},
		{"surrogate that is down", "", func(k *rig, c *client, s *surrogate) {
			if n, err := k.Abandon(1); n != 1 || err != nil {
				k.t.Fatal(n, err)
			}
		}, half(Abandoned, unfinished, func(r *LogRecord) { r.Status, r.ToClient = 0, 0 })},
		{"surrogate that refuses", "", func(k *rig, c *client, s *surrogate) {
			p := s.packet(packet.RST|packet.ACK, "")
			p.Ack = packet.Seq(k.splice(1).SndBase)
			k.want(packet.Build(p), routerVerdictCONSUMED, actShot)
		}, half(Failed, unfinished, func(r *LogRecord) { r.Status, r.ToClient = 0, 0 })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T, f family) {
				k, c, s := logged(t, f)
				s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
				if tt.response != "" {
					c.takes(s.send(packet.ACK, tt.response, routerVerdictTO_CLIENT, actRedirect))
				}
				k.wantRecords()
				tt.end(k, c, s)
				k.wantRecords(c.recordOf(s, plainRequest, tt.response, 200, tt.want))
			})
		})
	}
}

// A session that gives way to the next one from its port leaves a record.
func TestLogReplaced(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := logged(t, f)
		next := c.reconnect(40_000)
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
		k.want(packet.Build(next.packet(packet.ACK, plainRequest)), routerVerdictDROP_RACE, actShot)
		k.wantRecords(c.recordOf(s, plainRequest, "", 0, func(r *LogRecord) { r.Complete, r.End, r.Unfinished = false, Replaced, true }))
	})
}

// Segments that either end sends again are counted, and their bytes once. Those of an earlier request are not this one's.
func TestLogRetransmissions(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := logged(t, f)
		exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		k.records()
		sent := c.packet(packet.ACK, post4)
		s.takes(c.send(packet.ACK, post4, routerVerdictTO_SERVER, actRedirect))
		late := s.packet(packet.ACK, "")
		late.Seq, late.Payload = late.Seq-2, []byte("ok")
		k.want(packet.Build(late), routerVerdictTO_CLIENT, actRedirect)
		k.want(packet.Build(sent), routerVerdictTO_SERVER, actRedirect)
		sent.Payload = append(sent.Payload, "bo"...)
		k.want(packet.Build(sent), routerVerdictTO_SERVER, actRedirect)
		c.seq += 2
		s.ack += 2
		s.takes(c.send(packet.ACK, "dy", routerVerdictTO_SERVER, actRedirect))
		answer := s.packet(packet.ACK, plainResponse)
		c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		for range 3 {
			k.want(packet.Build(answer), routerVerdictTO_CLIENT, actRedirect)
		}
		k.wantRecords()
		c.acks(s)
		want := c.recordOf(s, post4, plainResponse, 200, func(r *LogRecord) {
			r.ToServer += 4
			r.ClientRetransmissions, r.ServerRetransmissions = 2, 3
		})
		k.wantRecords(want)
	})
}

// A client that moves leaves the record of each request with the leg that answered it.
func TestLogMoves(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, one, two := twoPools(t, f)
		k.vip(f, func(v *VIP) { v.OnePool, v.Log = false, true })
		k.emptyLogs()
		to := map[*surrogate]func(*LogRecord){
			one: func(*LogRecord) {}, two: func(r *LogRecord) { r.Surrogate, r.Pool = 2, 2 },
		}
		s, from := two, one
		for range 4 {
			request := map[*surrogate]string{one: plainRequest, two: otherRequest}[s]
			s.takes(c.send(packet.ACK, request, routerVerdictMOVED, actRedirect))
			c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
			c.acks(s)
			k.wantRecords(c.recordOf(s, request, plainResponse, 200, to[s]))
			s.takes(c.send(packet.ACK, request, routerVerdictTO_SERVER, actRedirect))
			c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
			k.wantRecords()
			// the next one takes this response's ACK along
			next := map[*surrogate]string{one: otherRequest, two: plainRequest}[s]
			c.send(packet.ACK, next, routerVerdictMOVED, actRedirect) // what comes out is the last ACK for the leg that it leaves
			from.ack += packet.Seq(len(next))
			k.wantRecords(c.recordOf(s, request, plainResponse, 200, to[s]))
			c.takes(from.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
			c.acks(from)
			k.wantRecords(c.recordOf(from, next, plainResponse, 200, to[from]))
		}
	})
}

// What user space decides has the name and the head that it read; the time is that of the upcall.
func TestLogDecisionOfUserSpace(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for head, want := range map[string]string{"": "GET / HTTP/1.1\r\nHost: ", "GET / HTTP/1.1\r\nHost: a\r\n\r\n": "GET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
			k, c, s := logged(t, f)
			frame := packet.Build(c.packet(packet.ACK, "GET / HTTP/1.1\r\nHost: "))
			k.want(frame, routerVerdictUPCALL, actRedirect)
			p, _ := k.pending(f.client, f.vip)
			p.Since -= 5000
			k.must(k.maps.Clients.Update(tuple(f.client, f.vip), &p, ebpf.UpdateExist))
			k.KeepHead(f.client, f.vip, []byte("a.test"), []byte(head))
			k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 4, Method: uint8(routerMethodMETHOD_GET), Request: 27}))
			s.takes(k.want(frame, routerVerdictHANDOFF, actRedirect))
			c.seq += 22
			s.takes(c.send(packet.ACK, "a\r\n\r\n", routerVerdictTO_SERVER, actRedirect))
			c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
			c.acks(s)
			got := k.records()
			if len(got) != 1 || got[0].Duration < 4900*time.Millisecond || got[0].Duration > 20*time.Second || string(got[0].Name) != "a.test" || got[0].Pool != 4 ||
				string(got[0].Head) != want || got[0].ToServer != 27 || !got[0].Complete || got[0].Minor != 0 {
				t.Errorf("%+v", got)
			}
			if n := count(k, k.maps.LogHeads); n != 0 {
				t.Errorf("%d heads are left", n)
			}
		}
	})
}

// A session of TLS is one record, with the name as sent.
func TestLogSessions(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := helloRig(t, f)
		k.vip(f, func(v *VIP) { v.OnePool, v.TLS, v.Log = false, true, true })
		s := k.idle(0, f, func(s *routerSplice) { s.Surrogate = wildcard })
		k.emptyLogs()
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		hello := string(firstFlight(t, clientOf("WWW.example.net")))
		s.takes(c.send(packet.ACK, hello, routerVerdictHANDOFF, actRedirect))
		c.takes(s.send(packet.ACK, "hello", routerVerdictTO_CLIENT, actRedirect))
		s.takes(c.send(packet.ACK, "12", routerVerdictTO_SERVER, actRedirect))
		c.takes(s.send(packet.ACK|packet.FIN, "3", routerVerdictTO_CLIENT, actRedirect))
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect))
		k.wantRecords()
		s.send(packet.ACK, "", routerVerdictTO_CLIENT, actRedirect)
		k.wantRecords(LogRecord{
			Client: f.client, VIP: f.vip, Server: f.surrogate, Surrogate: wildcard, Pool: wildcard, TLS: true, Whole: true,
			ToServer: uint64(len(hello) + 2), ToClient: 6, End: Closed, ServerFirst: true, Name: []byte("WWW.example.net"),
		})
	})
}

// The header before a client's bytes, and its repetition, are not the client's.
func TestLogBehindAHeader(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := proxied(t, f, ProxyV2, f.usual())
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {ID: 3, MSS: 1400, OnePool: true, Pool: 1, Log: true}}))
		k.emptyLogs()
		first := packet.Build(c.packet(packet.ACK, plainRequest))
		s.takes(k.want(first, routerVerdictHANDOFF, actRedirect))
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		k.want(first, routerVerdictTO_SERVER, actRedirect) // again, with the header
		c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		c.acks(s)
		k.wantRecords(c.recordOf(s, plainRequest, plainResponse, 200, func(r *LogRecord) { r.ClientRetransmissions = 1 }))
		exchange(c, s, otherRequest, plainResponse, routerVerdictTO_SERVER)
		k.wantRecords(c.recordOf(s, otherRequest, plainResponse, 200))
	})
}

// Without a VIP that is logged there are no records.
func TestLogNothing(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := logged(t, f)
		k.vip(f)
		exchange(c, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		c.send(packet.ACK|packet.FIN, "", routerVerdictRECYCLED, actRedirect)
		k.wantRecords()
	})
}

// Records that the ring has no room for are counted, and the others are whole.
func TestLogRingIsFull(t *testing.T) {
	k, c, s := logged(t, families[0])
	before, err := k.LostLogs()
	k.must(err)
	s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
	c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	size := (int(unsafe.Offsetof(routerRequestLog{}.Head))+len(plainRequest)+7)/8*8 + 8 // header of a record in a ring
	sent := 1
	for ; sent < logRing/size+1000; sent++ {
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictTO_SERVER, actRedirect))
		c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	}
	c.acks(s)
	lost, err := k.LostLogs()
	k.must(err)
	lost -= before
	got := len(k.records())
	if lost == 0 || got+int(lost) != sent {
		t.Errorf("%d requests, %d records, %d lost", sent, got, lost)
	}
}

// Places for records follow the splices, and a later process finds them.
func TestLogPages(t *testing.T) {
	const n = 2*int(routerBoundLOG_PAGE) + 1
	k := sized(t, Options{Sessions: n, Pending: 1, Legs: 1})
	k.must(k.used(uint32(n) / 2))
	if k.HasLogs() || k.logs.pages != 0 {
		t.Errorf("%d pages without a VIP that is logged", k.logs.pages)
	}
	k.vip(families[0], func(v *VIP) { v.Log = true })
	if !k.HasLogs() || k.logs.pages != 2 {
		t.Errorf("%d pages, want 2", k.logs.pages)
	}
	k.must(k.used(uint32(n) - 1))
	if k.logs.pages != 3 {
		t.Errorf("%d pages, want 3", k.logs.pages)
	}
	k.logs.ring.Close()
	k.logs.pages, k.logs.ring, k.logs.on = 0, nil, false
	k.must(k.adoptLogs())
	if !k.logs.on || k.logs.pages != 3 || !k.HasLogs() {
		t.Errorf("adopted %d pages, %t", k.logs.pages, k.logs.on)
	}
}

// The kernel's clock, and the program's of records, are the same.
func TestLogClock(t *testing.T) {
	if ms := int64(datapath.Clock()) - int64(uint32(monotonicNow()/1e6)); ms > 0 || ms < -20 {
		t.Errorf("%d ms apart", ms)
	}
}
