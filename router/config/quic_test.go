package config

import (
	"strings"
	"testing"

	"baton/packet/quic"
)

// both is a file with a VIP of protocol tls and one of protocol quic at one address, with one pool.
const both = `vips:
  - address: "10.9.9.9:443"
    interfaces: [eth0]
    protocol: tls
    routes: [{match: {sni: a.test}, pool: a}]
  - address: "10.9.9.9:443"
    interfaces: [eth0]
    protocol: quic
    routes: [{match: {sni: a.test, alpn: [h3]}, pool: a}, {match: {no_sni: true}, pool: q}]
pools:
  a: {policy: hash, surrogates: [{name: a1, address: "10.2.1.2:443"}]}
  q:
    source: keep
    server_id: {layout: quic-lb, rotation: 1, length: 4, map: {q1: "0a0b0c0d", q2: "00000002"}}
    surrogates: [{name: q1, address: "10.2.1.3:443"}, {name: q2, address: "10.2.1.4:443"}]
`

func TestParseQUIC(t *testing.T) {
	cfg, err := Parse("f", []byte(both))
	if err != nil {
		t.Fatal(err)
	}
	if v := cfg.VIPs[1]; v.Protocol != QUIC || !v.Protocol.Encrypted() || v.Pipelining != "" {
		t.Errorf("VIP %+v", v)
	}
	a, q := cfg.Pools[0], cfg.Pools[1]
	if !a.Encrypted || a.QUICOnly || a.Source != SourceRouter || a.ServerID != nil {
		t.Errorf("pool of both: %+v", a)
	}
	if !q.Encrypted || !q.QUICOnly || q.Source != SourceKeep || q.ServerID == nil {
		t.Fatalf("pool of QUIC: %+v", q)
	}
	layout, err := quic.QUICLB(1, 4)
	if err != nil || q.ServerID.Layout != layout || q.ServerID.IDs["q1"].String() != "0a0b0c0d" || len(q.ServerID.IDs) != 2 {
		t.Errorf("server ids %+v, %v", q.ServerID, err)
	}
	for text, want := range map[string]quic.Layout{
		"{offset: 1, length: 2, map: {q1: '0001', q2: '0002'}}":                quic.Bytes(1, 2),
		"{layout: aws, map: {q1: '0000000000000001', q2: '0000000000000002'}}": quic.AWS(),
		"{layout: mvfst, version: 1, map: {q1: '0001', q2: '0002'}}":           {Mask: 0xc0, Value: 0x40, Offset: 2, Length: 16},
		"{layout: quic-lb, rotation: 0, length: 1, map: {q1: '01', q2: 'ff'}}": {Mask: 0xe0, Offset: 8, Length: 8},
	} {
		cfg, err := Parse("f", []byte(serverID(text)))
		if err != nil || cfg.Pools[1].ServerID.Layout != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func serverID(text string) string {
	return strings.Replace(both, `{layout: quic-lb, rotation: 1, length: 4, map: {q1: "0a0b0c0d", q2: "00000002"}}`, text, 1)
}

func TestRefuseQUIC(t *testing.T) {
	replaced := func(old, now string) string {
		if !strings.Contains(both, old) {
			t.Fatalf("no %q in the file", old)
		}
		return strings.Replace(both, old, now, 1)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"a proxy": {replaced("protocol: quic", "protocol: quic\n    mode: proxy"),
			"f:9:11: vips[1].mode: proxy is not for protocol quic (handoff: datagrams are forwarded, never proxied)"},
		"one address twice": {replaced("protocol: tls", "protocol: quic"), "f:6:5: vips[1].address: 10.9.9.9:443 is the address of vips[0] already (an address and port of its own)"},
		"a path":            {replaced("sni: a.test, alpn: [h3]", "path_prefix: /"), "f:9:36: vips[1].routes[0].match.path_prefix: is a part of the request, which TLS encrypts (sni or alpn)"},
		"loopback":          {replaced("10.9.9.9:443\"\n    interfaces: [eth0]\n    protocol: quic", "127.0.0.1:443\"\n    interfaces: [eth0]\n    protocol: quic"), "f:6:14: vips[1].address: 127.0.0.1:443 is on loopback, where QUIC is not forwarded (an address that clients reach)"},
		"another family": {replaced("10.2.1.4:443", "[fd02::4]:443"),
			"f:15:75: pools.q.surrogates[1].address: [fd02::4]:443 cannot serve VIP 10.9.9.9:443 of protocol quic: the surrogate is of another address family than the VIP (a pool for each address family)"},
		"a source that is none": {replaced("source: keep", "source: client"), `f:13:13: pools.q.source: "client" is not a source (router or keep)`},
		"a header for TCP":      {replaced("source: keep", "client_address: proxy-v2"), "f:13:21: pools.q.client_address: is for TCP, and only VIPs of protocol quic have this pool (source: keep)"},
		"no id":                 {serverID("{offset: 1, length: 2, map: {q1: '0001'}}"), `f:14:45: pools.q.server_id.map: lacks surrogate "q2" (an id for each surrogate)`},
		"an id too many":        {serverID("{offset: 1, length: 1, map: {q1: '01', q2: '02', q3: '03'}}"), `f:14:65: pools.q.server_id.map.q3: "q3" is not a surrogate of this pool (did you mean q1?)`},
		"one id twice":          {serverID("{offset: 1, length: 1, map: {q1: '01', q2: '01'}}"), "f:14:55: pools.q.server_id.map.q2: server id 01 is there twice (an id of its own, of the layout's length)"},
		"an id of another length": {serverID("{offset: 1, length: 1, map: {q1: '01', q2: '0102'}}"),
			"f:14:55: pools.q.server_id.map.q2: server id 0102 has 2 bytes, the layout 1 (an id of its own, of the layout's length)"},
		"an id that is none":     {serverID("{offset: 1, length: 1, map: {q1: '01', q2: xy}}"), `f:14:59: pools.q.server_id.map.q2: "xy" is not hexadecimal (such as "0a1b")`},
		"beyond the id":          {serverID("{offset: 19, length: 2, map: {q1: '0001', q2: '0002'}}"), "f:14:17: pools.q.server_id: server id ends behind byte 20 of the connection id (an id that fits into the 20 bytes of a connection id)"},
		"another layout's key":   {serverID("{layout: aws, length: 8, map: {q1: '01', q2: '02'}}"), "f:14:38: pools.q.server_id.length: is not a part of layout aws (without it)"},
		"a layout without a key": {serverID("{layout: mvfst, map: {q1: '01', q2: '02'}}"), "f:14:17: pools.q.server_id.version: is missing (version: a whole number from 1 to 3)"},
	} {
		_, err := Parse("f", []byte(tt.text))
		if err == nil {
			t.Errorf("%s: accepted, want %s", name, tt.want)
		} else if first, _, _ := strings.Cut(err.Error(), "\n"); first != tt.want {
			t.Errorf("%s:\n%s, want\n%s", name, first, tt.want)
		}
	}
	cfg := strings.Replace(strings.Replace(both, "protocol: quic", "protocol: tls", 1), "10.9.9.9:443", "10.9.9.8:443", 1)
	want := []string{"f:14:17: pools.q.server_id: is for pools of VIPs of protocol quic (without it)"}
	if _, err := Parse("f", []byte(cfg)); err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("keys of QUIC without a VIP for it: %v", err)
	}
}
