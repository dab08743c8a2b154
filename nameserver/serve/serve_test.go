package serve

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/miekg/dns"

	"baton/nameserver/answer"
	"baton/nameserver/zone"
)

const patience = 10 * time.Second

// start serves a zone with 600 names on all loopback addresses that are given, and returns where.
func start(t *testing.T, o Options, at ...string) (*Sockets, []string) {
	t.Helper()
	text := "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\nbig TXT " + strings.Repeat(" "+strings.Repeat("x", 250), 20) + "\n$GENERATE 1-600 h$ A 10.0.$.1\n"
	text = strings.Replace(text, "10.0.$.1", "10.0.0.1", 1)
	z, err := zone.Parse(fstest.MapFS{"z": {Data: []byte(text)}}, zone.Options{Origin: "test.", File: "z"})
	if err != nil {
		t.Fatal(err)
	}
	tables, err := answer.Compile([]*answer.Zone{{Data: z, Transfer: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}})
	if err != nil {
		t.Fatal(err)
	}
	s := answer.New(answer.Options{Size: 1232})
	s.Set(tables)
	for _, a := range at {
		o.Addresses = append(o.Addresses, netip.MustParseAddrPort(a))
	}
	if o.TCP == (TCP{}) {
		o.TCP = TCP{Connections: 100, PerNetwork: 100, Idle: patience}
	}
	o.Size, o.Sockets = 1232, 2
	ctx, cancel := context.WithCancel(t.Context())
	sockets, err := Listen(ctx, s, o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { sockets.Serve(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	var where []string
	for _, a := range sockets.Addresses() {
		where = append(where, a.String())
	}
	return sockets, where
}

func query(name string, kind uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, kind)
	return m
}

// TestBothTransports: each address answers over UDP and TCP; what does not fit comes over TCP.
func TestBothTransports(t *testing.T) {
	_, where := start(t, Options{}, "127.0.0.1:0", "[::1]:0")
	for _, at := range where {
		for _, network := range []string{"udp", "tcp"} {
			c := &dns.Client{Net: network, Timeout: patience}
			a, _, err := c.Exchange(query("h7.test.", dns.TypeA), at)
			if err != nil || len(a.Answer) != 1 {
				t.Errorf("%s %s: %v, %v", network, at, a, err)
			}
			a, _, err = c.Exchange(query("big.test.", dns.TypeTXT), at)
			if err != nil || a.Truncated != (network == "udp") || (len(a.Answer) == 1) != (network == "tcp") {
				t.Errorf("%s %s: %v, %v", network, at, a, err)
			}
		}
	}
}

// TestSameAddress: a server on all addresses answers from the one that was asked.
func TestSameAddress(t *testing.T) {
	_, where := start(t, Options{}, "0.0.0.0:0", "[::]:0")
	for i, host := range []string{"127.0.0.77", "::1"} {
		_, port, _ := net.SplitHostPort(where[i])
		c, err := net.Dial("udp", net.JoinHostPort(host, port)) // connected: it hears nobody else
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		dc := &dns.Conn{Conn: c}
		if err := dc.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if err := dc.WriteMsg(query("ns.test.", dns.TypeA)); err != nil {
			t.Fatal(err)
		}
		if a, err := dc.ReadMsg(); err != nil || len(a.Answer) != 1 {
			t.Errorf("%s: %v, %v", host, a, err)
		}
	}
}

// TestBurst: of many queries at once each gets its own answer.
func TestBurst(t *testing.T) {
	_, where := start(t, Options{}, "127.0.0.1:0")
	c, err := net.Dial("udp", where[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 500 // below what a socket's default buffer holds
	want := make(map[uint16]string)
	for i := range n {
		m := query(fmt.Sprintf("h%d.test.", i+1), dns.TypeA)
		m.Id = uint16(i)
		want[m.Id] = m.Question[0].Name
		raw, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(raw); err != nil {
			t.Fatal(err)
		}
		if i%50 != 49 {
			continue
		}
		for range 50 {
			buf := make([]byte, 2000)
			_ = c.SetReadDeadline(time.Now().Add(patience))
			n, err := c.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			var a dns.Msg
			if err := a.Unpack(buf[:n]); err != nil || a.Question[0].Name != want[a.Id] || len(a.Answer) != 1 {
				t.Fatalf("%v: %v", err, a)
			}
			delete(want, a.Id)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d queries were not answered", len(want))
	}
}

// TestPipelining: queries of one connection, sent at once and in odd pieces, are answered in order.
func TestPipelining(t *testing.T) {
	s, where := start(t, Options{}, "127.0.0.1:0")
	c, err := net.Dial("tcp", where[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all []byte
	const n = 300
	for i := range n {
		m := query(fmt.Sprintf("h%d.test.", i+1), dns.TypeA)
		m.Id = uint16(i)
		raw, _ := m.Pack()
		all = binary.BigEndian.AppendUint16(all, uint16(len(raw)))
		all = append(all, raw...)
	}
	go func() {
		for len(all) > 0 {
			k := min(len(all), 777)
			if _, err := c.Write(all[:k]); err != nil {
				return
			}
			all = all[k:]
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	for i := range n {
		var length [2]byte
		if _, err := io.ReadFull(c, length[:]); err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(c, raw); err != nil {
			t.Fatal(err)
		}
		var a dns.Msg
		if err := a.Unpack(raw); err != nil || a.Id != uint16(i) {
			t.Fatalf("%d: %v, %v", i, err, a)
		}
	}
	if n := s.Counts().Connections; n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestTransfer: the whole zone, and only for those who may have it.
func TestTransfer(t *testing.T) {
	_, where := start(t, Options{}, "127.0.0.1:0")
	fetch := func(from string) (n int, err error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
		c, err := d.Dial("tcp", where[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		in, err := (&dns.Transfer{Conn: &dns.Conn{Conn: c}}).In(new(dns.Msg).SetAxfr("test."), where[0])
		if err != nil {
			return 0, err
		}
		for e := range in {
			if e.Error != nil {
				return n, e.Error
			}
			n += len(e.RR)
		}
		return n, nil
	}
	if n, err := fetch("127.0.0.1"); n != 605 || err != nil { // SOA twice
		t.Errorf("%d records, %v", n, err)
	}
	if n, err := fetch("127.0.0.2"); err == nil {
		t.Errorf("%d records for a stranger", n)
	}
}

// TestBounds: connections above the limits are closed at once, idle ones after their time, and slow ones do not hold others up.
func TestBounds(t *testing.T) {
	s, where := start(t, Options{TCP: TCP{Connections: 4, PerNetwork: 3, Idle: time.Second}}, "127.0.0.1:0")
	closed := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, err := c.Read(make([]byte, 1))
		return err == io.EOF
	}
	var open []net.Conn
	for range 4 {
		c, err := net.Dial("tcp", where[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	if !closed(open[3]) {
		t.Error("a fourth connection of a network stays")
	}
	if _, err := open[0].Write([]byte{0, 40, 1}); err != nil { // a query that never ends
		t.Fatal(err)
	}
	for i := 2; i >= 0; i-- {
		if !closed(open[i]) {
			t.Errorf("connection %d stays", i)
		}
	}
	if c := s.Counts(); c.Refused != 1 || c.Opened != 3 {
		t.Errorf("%+v", c)
	}
	m, _, err := (&dns.Client{Net: "tcp", Timeout: patience}).Exchange(query("ns.test.", dns.TypeA), where[0])
	if err != nil || len(m.Answer) != 1 {
		t.Errorf("afterwards: %v, %v", m, err)
	}
}

// TestFlood: garbage over UDP and TCP, also in large datagrams and in messages that break off, does not keep others from their answers.
func TestFlood(t *testing.T) {
	s, where := start(t, Options{}, "127.0.0.1:0")
	random := rand.New(rand.NewPCG(1, 2))
	garbage := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	c, err := net.Dial("udp", where[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3000 {
		b := garbage(random.IntN(600))
		if i%100 == 0 {
			b = garbage(9000)
		}
		_, _ = c.Write(b) // an ICMP error of an earlier one is none of this one
		if i%500 == 0 {
			if tc, err := net.Dial("tcp", where[0]); err == nil {
				_, _ = tc.Write(garbage(3000))
				tc.Close()
			}
		}
	}
	for _, network := range []string{"udp", "tcp"} {
		var a *dns.Msg
		for until := time.Now().Add(patience); time.Now().Before(until); { // a datagram may meet a full buffer
			if a, _, err = (&dns.Client{Net: network, Timeout: time.Second}).Exchange(query("h7.test.", dns.TypeA), where[0]); err == nil {
				break
			}
		}
		if err != nil || len(a.Answer) != 1 {
			t.Errorf("%s: %v, %v", network, a, err)
		}
	}
	if n := s.Counts().TooLong; n == 0 {
		t.Error("no datagram was too long")
	}
}
