// Package discovertest has a name server for tests.
package discovertest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// Server is a name server that answers as it is told. Its zone may change.
type Server struct {
	Address netip.AddrPort

	mu    sync.Mutex
	zone  map[Question]Reply
	asked map[string]int // by network and question
}

// Reply is an answer of a Server. The zero value has no records.
type Reply struct {
	Code    dnsmessage.RCode
	Records []dnsmessage.Resource
	Silent  bool
	Cut     bool                        // TC over UDP
	Spoil   func(message []byte) []byte // the last word
	Before  []byte                      // another datagram, sent first
	SOA     uint32                      // seconds for which there is nothing
}

// Question is what a Server is asked.
type Question struct {
	Name string // without a dot at its end
	Kind dnsmessage.Type
}

func (q Question) String() string { return strings.TrimPrefix(q.Kind.String(), "Type") + " " + q.Name }

// Target is a record of SRV.
type Target struct {
	Priority, Weight, Port uint16
	Name                   string
}

// Serve answers on both sockets, which have the same address, until stop is called. It closes them.
func Serve(udp net.PacketConn, tcp net.Listener) (s *Server, stop func()) {
	s = &Server{Address: udp.LocalAddr().(*net.UDPAddr).AddrPort(), zone: make(map[Question]Reply), asked: make(map[string]int)}
	var wg sync.WaitGroup
	wg.Go(func() { s.serveUDP(udp) })
	wg.Go(func() { s.serveTCP(tcp) })
	return s, func() {
		udp.Close()
		tcp.Close()
		wg.Wait()
	}
}

func (s *Server) serveUDP(c net.PacketConn) {
	b := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		for _, m := range s.answer(b[:n], "udp") {
			_, _ = c.WriteTo(m, from)
		}
	}
}

func (s *Server) serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err == nil {
			b := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(c, b); err == nil {
				for _, m := range s.answer(b, "tcp") {
					_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...))
				}
			}
		}
		c.Close()
	}
}

func (s *Server) answer(query []byte, network string) [][]byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	asked, err := p.AllQuestions()
	if err != nil || len(asked) != 1 || !h.RecursionDesired {
		return nil
	}
	q := Question{strings.TrimSuffix(asked[0].Name.String(), "."), asked[0].Type}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[network+" "+q.String()]++
	r, ok := s.zone[q]
	if !ok {
		r.Code = dnsmessage.RCodeNameError
	}
	if r.Silent {
		return nil
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, RCode: r.Code}, Questions: asked, Answers: r.Records}
	if r.Cut && network == "udp" {
		m.Truncated, m.Answers = true, nil
	}
	if r.SOA > 0 {
		m.Authorities = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("example.net."), Class: dnsmessage.ClassINET, TTL: 3600},
			Body:   &dnsmessage.SOAResource{NS: dnsmessage.MustNewName("ns."), MBox: dnsmessage.MustNewName("m."), MinTTL: r.SOA},
		}}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	if r.Spoil != nil {
		packed = r.Spoil(packed)
	}
	if r.Before != nil {
		return [][]byte{r.Before, packed}
	}
	return [][]byte{packed}
}

// Set changes the answer to a question.
func (s *Server) Set(name string, kind dnsmessage.Type, r Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[Question{name, kind}] = r
}

func (s *Server) Asked(network string, q Question) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[network+" "+q.String()]
}

// Record makes a record of a name without a dot at its end.
func Record(name string, ttl uint32, body dnsmessage.ResourceBody) dnsmessage.Resource {
	return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name + "."), Class: dnsmessage.ClassINET, TTL: ttl}, Body: body}
}

// Hosts are A and AAAA records of a name.
func Hosts(name string, ttl uint32, addresses ...string) Reply {
	var r Reply
	for _, text := range addresses {
		if a := netip.MustParseAddr(text); a.Is4() {
			r.Records = append(r.Records, Record(name, ttl, &dnsmessage.AResource{A: a.As4()}))
		} else {
			r.Records = append(r.Records, Record(name, ttl, &dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	return r
}

// SRV are records of a service.
func SRV(name string, ttl uint32, targets ...Target) Reply {
	var r Reply
	for _, t := range targets {
		r.Records = append(r.Records, Record(name, ttl, &dnsmessage.SRVResource{Priority: t.Priority, Weight: t.Weight, Port: t.Port, Target: dnsmessage.MustNewName(t.Name + ".")}))
	}
	return r
}
