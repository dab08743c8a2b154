package router

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// Whatever happens to sessions, each request has one record.
func TestLogRequestsOnce(t *testing.T) {
	r := kerneltest.Rand(t)
	for _, f := range families {
		k, _, _ := logged(t, f)
		for round := range 200 {
			k.empty()
			k.must(k.SetConfig(Config{MSS: testMSS, TSOffset: 0x7fff0000, Tap: 1}))
			k.vip(f, func(v *VIP) { v.Log = true })
			s := k.idle(1, f)
			c := newClient(k, f, f.usual())
			c.connect(routerVerdictSYN_ANSWERED)
			sent := k.randomSession(r, c, s)
			var got []string
			for _, rec := range k.records() {
				line, _, _ := strings.Cut(string(rec.Head), "\r\n")
				got = append(got, line)
			}
			if diff := cmp.Diff(sent, got); diff != "" {
				t.Fatalf("%s, round %d (-sent +got):\n%s", f.name, round, diff)
			}
		}
	}
}

// randomSession sends requests, in pieces and with repetitions, and ends in one of the ways. It returns their request lines.
func (k *rig) randomSession(r *rand.Rand, c *client, s *surrogate) (sent []string) {
	k.t.Helper()
	verdict := routerVerdictHANDOFF
	for range 1 + r.IntN(6) {
		line := fmt.Sprintf("GET /%d HTTP/1.1", r.Uint32())
		sent = append(sent, line)
		s.takes(c.send(packet.ACK, line+"\r\nHost: a\r\n\r\n", verdict, actRedirect))
		verdict = routerVerdictTO_SERVER
		response := plainResponse
		if r.IntN(3) == 0 {
			response = ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
		}
		for _, part := range pieces(r, response) {
			if r.IntN(30) == 0 {
				break // the session ends here
			}
			again := s.packet(packet.ACK, part)
			c.takes(s.send(packet.ACK, part, routerVerdictTO_CLIENT, actRedirect))
			if r.IntN(3) == 0 {
				k.want(packet.Build(again), routerVerdictTO_CLIENT, actRedirect)
			}
			if r.IntN(2) == 0 {
				c.acks(s)
			}
		}
		if got := k.splice(1); routerFraming(got.Request) != routerFramingFRAMING_QUIET {
			break
		}
	}
	switch r.IntN(5) {
	case 0:
		k.run(packet.Build(c.packet(packet.ACK|packet.FIN, "")))
	case 1:
		k.run(packet.Build(c.packet(packet.RST, "")))
	case 2:
		k.run(packet.Build(s.packet(packet.RST, "")))
	case 3:
		k.run(packet.Build(s.packet(packet.ACK|packet.FIN, "")))
	}
	k.aged(1, time.Hour)
	if _, err := k.Sweep(testTimeouts); err != nil {
		k.t.Fatal(err)
	}
	if State(k.splice(1).State) != Dead && State(k.splice(1).State) != Idle {
		k.t.Fatalf("the session is still there: %v", State(k.splice(1).State))
	}
	return sent
}

// Clients come, move between two pools, and leave their legs to others, in random order: each request has one record, of its surrogate.
func TestLogRequestsOfManyOnce(t *testing.T) {
	r := kerneltest.Rand(t)
	for _, f := range families {
		for round := range 15 {
			k, _, one, two := twoPools(t, f)
			k.vip(f, func(v *VIP) { v.OnePool, v.Log = false, true })
			k.emptyLogs()
			m := many{k: k, r: r, legs: map[uint32]*surrogate{1: one, 2: two}, want: make(map[string]uint16)}
			for n := range 40 {
				if n < 20 || len(m.clients) > 0 {
					m.step(f, n)
				}
			}
			for len(m.clients) > 0 {
				m.leave(0)
			}
			for n := range m.legs {
				if State(k.splice(n).State) == Active {
					k.aged(n, time.Hour)
				}
			}
			if _, err := k.Sweep(testTimeouts); err != nil {
				t.Fatal(err)
			}
			got := make(map[string]uint16)
			for _, rec := range k.records() {
				line, _, _ := strings.Cut(string(rec.Head), "\r\n")
				if _, twice := got[line]; twice {
					t.Errorf("%s is there twice", line)
				}
				got[line] = rec.Surrogate
			}
			if diff := cmp.Diff(m.want, got); diff != "" {
				t.Fatalf("%s, round %d (-want +got):\n%s", f.name, round, diff)
			}
		}
	}
}

// many is clients on the legs of two pools.
type many struct {
	k       *rig
	r       *rand.Rand
	legs    map[uint32]*surrogate
	clients []*client
	want    map[string]uint16 // surrogates by request line
}

// step has a new client connect, or another one make a request or leave.
func (m *many) step(f family, n int) {
	m.k.t.Helper()
	switch at := m.r.IntN(len(m.clients) + 1); {
	case at == len(m.clients):
		c := newClient(m.k, f.nth(n+10), f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		m.clients = append(m.clients, c)
		m.ask(c)
	case m.r.IntN(3) == 0:
		m.leave(at)
	default:
		for range 1 + m.r.IntN(3) {
			m.ask(m.clients[at])
		}
	}
}

// ask makes a request of one of the pools, for which there is a leg.
func (m *many) ask(c *client) {
	m.k.t.Helper()
	pool := uint16(1 + m.r.IntN(2))
	if number := uint32(len(m.legs) + 1); m.k.surrogate(pool).Idle[c.f.class()] == 0 {
		m.legs[number] = m.k.idle(number, c.f, func(s *routerSplice) { s.Surrogate = pool })
	}
	path := map[uint16]string{1: "/a", 2: "/b"}[pool]
	line := fmt.Sprintf("GET %s%d HTTP/1.1", path, m.r.Uint32())
	m.k.run(packet.Build(c.packet(packet.ACK, line+"\r\nHost: a\r\n\r\n")))
	c.seq += packet.Seq(len(line) + 13)
	flow, ok := m.k.flow(c.f.client, c.f.vip)
	if !ok || routerSide(flow.Side) != routerSideSIDE_CLIENT {
		m.k.t.Fatalf("%s: flow %+v, %t", line, flow, ok)
	}
	s, at := m.legs[flow.Splice], m.k.splice(flow.Splice)
	m.want[line] = at.Surrogate
	s.seq, s.ack = packet.Seq(at.RcvNxt), packet.Seq(at.SndNxt)
	c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
	if m.r.IntN(2) == 0 {
		c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect)
	}
}

// leave has a client close its session, reset it or vanish.
func (m *many) leave(at int) {
	m.k.t.Helper()
	c := m.clients[at]
	m.clients = append(m.clients[:at], m.clients[at+1:]...)
	if flags := []packet.Flags{packet.ACK | packet.FIN, packet.RST, 0}[m.r.IntN(3)]; flags != 0 {
		m.k.run(packet.Build(c.packet(flags, "")))
	}
}
