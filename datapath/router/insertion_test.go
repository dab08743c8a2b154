package router

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/pires/go-proxyproto"

	"baton/datapath"
	"baton/packet"
)

// proxied prepares a pool whose surrogate expects a header, and a connected client.
func proxied(t *testing.T, f family, h Header, options packet.Options) (*rig, *client, *surrogate) {
	t.Helper()
	k := newRig(t)
	k.tap()
	k.vip(f)
	k.must(k.SetPool(1, Pool{Policy: RoundRobin, Table: []uint16{1}, Reuse: ReuseNever, Header: h}))
	s := k.idle(1, f)
	c := newClient(k, f, options)
	c.connect(routerVerdictSYN_ANSWERED)
	return k, c, s
}

// introduced checks a header, and returns its bytes.
func introduced(t *testing.T, f packet.Frame, c *client, version byte) []byte {
	t.Helper()
	b := f.Payload()
	r := bufio.NewReader(bytes.NewReader(b))
	h, err := proxyproto.Read(r)
	if err != nil {
		t.Fatalf("not a header: %v: %q", err, b)
	}
	if rest, _ := io.ReadAll(r); len(rest) != 0 || h.Version != version || h.Command != proxyproto.PROXY {
		t.Fatalf("version %d, command %v, %d bytes behind", h.Version, h.Command, len(rest))
	}
	from, to := h.SourceAddr.(*net.TCPAddr).AddrPort(), h.DestinationAddr.(*net.TCPAddr).AddrPort()
	if netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != c.f.client || netip.AddrPortFrom(to.Addr().Unmap(), to.Port()) != c.f.vip {
		t.Fatalf("from %v to %v, want %v to %v", from, to, c.f.client, c.f.vip)
	}
	if version == 2 {
		checkTLVs(t, h, b)
	}
	return b
}

func checkTLVs(t *testing.T, h *proxyproto.Header, b []byte) {
	t.Helper()
	tlvs, err := h.TLVs()
	if err == nil && len(tlvs) > 0 && tlvs[0].Type == proxyproto.PP2_TYPE_AUTHORITY {
		tlvs = tlvs[1:]
	}
	if err != nil || len(tlvs) != 2 || tlvs[0].Type != proxyproto.PP2_TYPE_UNIQUE_ID || len(tlvs[0].Value) != 16 ||
		tlvs[1].Type != proxyproto.PP2_TYPE_CRC32C {
		t.Fatalf("TLVs %+v: %v", tlvs, err)
	}
	zeroed := append([]byte(nil), b...)
	clear(zeroed[len(b)-4:])
	if want := crc32.Checksum(zeroed, crc32.MakeTable(crc32.Castagnoli)); binary.BigEndian.Uint32(tlvs[1].Value) != want {
		t.Fatalf("CRC-32C % x, want %08x", tlvs[1].Value, want)
	}
}

var headers = map[string]struct {
	header  Header
	version byte
}{"v1": {ProxyV1, 1}, "v2": {ProxyV2, 2}}

// TestHeader: the header goes first, in a segment of its own; then the client's packet, which is received again, and the session
// goes on as any other.
func TestHeader(t *testing.T) {
	for name, h := range headers {
		for kind, options := range map[string]func(family) packet.Options{"full": family.usual, "bare": func(family) packet.Options { return bareOptions }} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				eachFamily(t, func(t *testing.T, f family) {
					k, c, s := proxied(t, f, h.header, options(f))
					if kind == "bare" {
						s = k.idle(2, f, func(s *routerSplice) {
							s.LegClass = Pending{MSS: 1460}.Class(testMSS)
							s.Flags &^= uint32(routerSpliceFlagSPLICE_TS)
						})
					}
					first := packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest))
					introduced(t, s.takes(k.want(first, routerVerdictHANDOFF, actRedirect)), c, h.version)
					if got := s.takes(k.want(first, routerVerdictTO_SERVER, actRedirect)); string(got.Payload()) != plainRequest {
						t.Fatalf("then %q", got.Payload())
					}
					c.seq += packet.Seq(len(plainRequest))
					c.takes(s.send(packet.ACK|packet.PSH, plainResponse, routerVerdictTO_CLIENT, actRedirect))
					s.takes(c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect))
					exchange(c, s, plainRequest, plainResponse, routerVerdictTO_SERVER)
					if got := k.splice(s.number); got.InsLen != 0 || got.Flags&uint32(routerSpliceFlagSPLICE_SPOILT) == 0 {
						t.Errorf("insertion of %d bytes open, flags %#x", got.InsLen, got.Flags)
					}
				})
			})
		}
	}
}

// TestLostHeader: the surrogate's duplicate acknowledgement draws the header at once, without the client, who hears nothing of it;
// and the client's retransmission takes it along.
func TestLostHeader(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, c, s := proxied(t, f, ProxyV2, f.usual())
		lost := s.ack
		first := packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest))
		header := introduced(t, k.want(first, routerVerdictHANDOFF, actRedirect).parsed(t), c, 2)
		behind := k.want(first, routerVerdictTO_SERVER, actRedirect).parsed(t)
		if at := behind.TCP().Seq(); at != lost+packet.Seq(len(header)) {
			t.Fatalf("the request has number %d, want %d", at, lost+packet.Seq(len(header)))
		}
		// A SACK block for the request: the hole is the router's.
		sack := s.packet(packet.ACK, "")
		sack.Options = sack.Options.AppendNOP(2).AppendSACK(packet.SACKBlock{Left: behind.TCP().Seq(), Right: behind.TCP().Seq() + packet.Seq(len(plainRequest))})
		again := s.takes(k.want(packet.Build(sack), routerVerdictINSERTED_AGAIN, actRedirect))
		if !bytes.Equal(again.Payload(), header) {
			t.Fatalf("again % x\nwant  % x", again.Payload(), header)
		}
		s.ack = lost
		// The client's retransmission: its own bytes, then the header.
		repeated := k.want(first, routerVerdictTO_SERVER, actRedirect).parsed(t)
		if !bytes.Equal(repeated.Payload(), header) || repeated.TCP().Seq() != lost {
			t.Fatalf("with the repetition goes % x at %d", repeated.Payload(), repeated.TCP().Seq())
		}
		if repeated.TCP().Checksum() != repeated.TransportChecksum() {
			t.Error("bad checksum")
		}
		// A duplicate acknowledgement of part of it, as of a receiver that takes parts.
		s.ack = lost + 5
		k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictINSERTED_AGAIN, actRedirect)
		// All of it and the request.
		s.ack = lost + packet.Seq(len(header)+len(plainRequest))
		c.seq += packet.Seq(len(plainRequest))
		got := c.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		if got.TCP().Ack() != c.seq {
			t.Errorf("the client is told %d, want %d", got.TCP().Ack(), c.seq)
		}
	})
}

// TestInFrontOfHeader: a client's bytes never take the place of the header's.
func TestInFrontOfHeader(t *testing.T) {
	f := families[0]
	k, c, s := proxied(t, f, ProxyV2, f.usual())
	first := packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest))
	header := introduced(t, k.want(first, routerVerdictHANDOFF, actRedirect).parsed(t), c, 2)
	begins := s.ack
	keepalive := c.packet(packet.ACK, "x")
	keepalive.Seq--
	got := k.want(packet.Build(keepalive), routerVerdictTO_SERVER, actRedirect).parsed(t)
	if got.TCP().Seq() != begins-1 {
		t.Errorf("a keepalive has number %d, want %d: one that the surrogate has", got.TCP().Seq(), begins-1)
	}
	forged := c.packet(packet.ACK, "xy"+plainRequest)
	forged.Seq -= 2
	k.want(packet.Build(forged), routerVerdictDROP_WINDOW, actShot)
	s.ack = begins + packet.Seq(len(header))
	k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictTO_CLIENT, actRedirect)
	got = k.want(packet.Build(forged), routerVerdictTO_SERVER, actRedirect).parsed(t)
	if got.TCP().Seq() != s.ack-2 {
		t.Errorf("behind the header it has number %d, want %d", got.TCP().Seq(), s.ack-2)
	}
}

// TestHeaderIsSilent: an acknowledgement within the header is not passed on, and a challenged client is told its own numbers.
func TestHeaderIsSilent(t *testing.T) {
	f := families[0]
	k, c, s := proxied(t, f, ProxyV2, f.usual())
	introduced(t, k.want(packet.Build(c.packet(packet.ACK|packet.PSH, plainRequest)), routerVerdictHANDOFF, actRedirect).parsed(t), c, 2)
	k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictCONSUMED, actShot)
	challenged := c.packet(packet.SYN, "")
	challenged.Options = c.options
	got := k.want(packet.Build(challenged), routerVerdictCHALLENGED, actRedirect).parsed(t)
	if got.TCP().Ack() != c.seq {
		t.Errorf("acknowledged %d, want %d", got.TCP().Ack(), c.seq)
	}
}

// TestHeadersOfAll compares headers of random clients with those of the library.
func TestHeadersOfAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f := families[r.IntN(len(families))]
		address := f.client.Addr().As16()
		for i := 12; i < 16; i++ {
			address[i] = byte(r.IntN(256))
		}
		if f.client.Addr().Is6() {
			for i := 2; i < 16; i++ { // with runs of zeros
				address[i] = byte(r.IntN(256)) & byte(r.IntN(2)*0xff)
			}
			for from := 2 + 2*r.IntN(7); from < 2+2*r.IntN(8); from++ {
				address[from] = 0
			}
		}
		f.client = datapath.AddrPort(address, datapath.BigEndian(uint16(1+r.IntN(65535))))
		h := []Header{ProxyV1, ProxyV2}[r.IntN(2)]
		k, c, s := proxied(t, f, h, f.usual())
		b := introduced(t, s.takes(k.want(packet.Build(c.packet(packet.ACK, plainRequest)), routerVerdictHANDOFF, actRedirect)), c, byte(h))
		if h == ProxyV1 && !bytes.HasPrefix(b[len("PROXY TCP4 "):], []byte(f.client.Addr().String()+" "+f.vip.Addr().String()+" ")) {
			t.Errorf("%q: not the usual text of %v", b, f.client)
		}
	}
}
