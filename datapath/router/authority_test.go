package router

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/pires/go-proxyproto"

	"baton/packet"
)

// authority is the name in a header; "": none.
func authority(t *testing.T, header []byte) string {
	t.Helper()
	h, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(header)))
	if err != nil {
		t.Fatal(err)
	}
	tlvs, err := h.TLVs()
	if err != nil {
		t.Fatal(err)
	}
	if tlvs[0].Type != proxyproto.PP2_TYPE_AUTHORITY {
		return ""
	}
	return string(tlvs[0].Value)
}

// named hands over a client whose hello has a name, and returns the header that goes before it.
func named(t *testing.T, f family, name string, before ...func(*rig)) (k *rig, c *client, s *surrogate, header []byte, first []byte) {
	t.Helper()
	k = helloRig(t, f)
	for pool := range uint16(6) {
		k.must(k.SetPool(pool, Pool{Policy: RoundRobin, Table: []uint16{1}, Reuse: ReuseNever, Header: ProxyV2}))
	}
	for _, b := range before {
		b(k)
	}
	s = k.idle(1, f)
	c = newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	hello := string(firstFlight(t, clientOf(name)))
	first = packet.Build(c.packet(packet.ACK|packet.PSH, hello))
	r := k.run(first)
	if r.verdict == Verdict(routerVerdictUPCALL) {
		k.KeepName(f.client, f.vip, name)
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: others, Opaque: true}))
		r = k.want(first, routerVerdictHANDOFF, actRedirect)
	}
	header = introduced(t, s.takes(r), c, 2)
	s.ack -= packet.Seq(len(header)) // it is lost
	k.want(first, routerVerdictTO_SERVER, actRedirect)
	c.seq += packet.Seq(len(hello))
	return k, c, s, header, first
}

// TestAuthority: the header has the name in the hello as it was sent, or, where user space has read it, as that has kept it; whole, or not
// at all. It is the same when it is made again, and is forgotten with its session.
func TestAuthority(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"cdn.example.net", "cdn.example.net"}, {"CDN.Example.NET", "CDN.Example.NET"}, {"x_y.example.net", "x_y.example.net"}, {"a", "a"},
		{strings.Repeat("h", 63), strings.Repeat("h", 63)}, {strings.Repeat("long.", 20) + "net", strings.Repeat("long.", 20) + "net"},
		{strings.Repeat("longest.", 18) + "net123", strings.Repeat("longest.", 18) + "net123"}, {strings.Repeat("longest.", 18) + "net1234", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T, f family) {
				k, c, s, header, first := named(t, f, tt.name)
				if len(header) > 232 {
					t.Errorf("%d bytes", len(header))
				}
				if got := authority(t, header); got != tt.want {
					t.Fatalf("got %q, want %q", got, tt.want)
				}
				if again := k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictINSERTED_AGAIN, actRedirect).parsed(t); !bytes.Equal(again.Payload(), header) {
					t.Errorf("again % x\nwant  % x", again.Payload(), header)
				}
				if repeated := k.want(first, routerVerdictTO_SERVER, actRedirect).parsed(t); !bytes.Equal(repeated.Payload(), header) {
					t.Errorf("with a repetition % x\nwant  % x", repeated.Payload(), header)
				}
				c.send(packet.RST, "", routerVerdictTO_SERVER, actRedirect)
				if names, kept := count(k, k.maps.HelloNames), count(k, k.maps.Authorities); names+kept != 0 {
					t.Errorf("%d and %d names are left", names, kept)
				}
			})
		})
	}
}

// TestNoRoomForAuthority: a header whose name cannot be kept has none, and is the same when it is made again; so is that of a session whose
// splice has a name of an earlier one.
func TestNoRoomForAuthority(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		full := func(k *rig) {
			for i := range uint32(testSessions) {
				k.must(k.maps.Authorities.Update(100+i, &routerAuthority{Len: 3}, ebpf.UpdateAny))
			}
		}
		k, _, s, header, _ := named(t, f, "cdn.example.net", full)
		if got := authority(t, header); got != "" {
			t.Fatalf("name %q", got)
		}
		if again := k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictINSERTED_AGAIN, actRedirect).parsed(t); !bytes.Equal(again.Payload(), header) {
			t.Errorf("again % x\nwant  % x", again.Payload(), header)
		}
		old := func(k *rig) { k.must(k.maps.Authorities.Update(uint32(1), &routerAuthority{Len: 100}, ebpf.UpdateAny)) }
		if _, _, _, header, _ = named(t, f, strings.Repeat("longest.", 19)+"n", old); authority(t, header) != "" {
			t.Error("another session's name")
		}
	})
}

// TestAuthorityIsLost: a header that cannot be made again is not replaced by another one.
func TestAuthorityIsLost(t *testing.T) {
	f := families[0]
	k, _, s, _, first := named(t, f, "cdn.example.net")
	k.must(k.maps.Authorities.Delete(uint32(1)))
	k.want(packet.Build(s.packet(packet.ACK, "")), routerVerdictDROP_NOMEM, actShot)
	if got := k.want(first, routerVerdictTO_SERVER, actRedirect).parsed(t); !bytes.HasPrefix(got.Payload(), []byte{22, 3, 1}) {
		t.Errorf("with a repetition goes % x", got.Payload())
	}
}
