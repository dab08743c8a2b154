package explain

import (
	"net/netip"
	"strings"
	"testing"

	"baton/packet/hello"
	"baton/router/choose"
	"baton/router/config"
)

const secureFile = `vips:
  - address: "10.9.9.9:443"
    interfaces: [eth0]
    protocol: tls
    routes:
      - {match: {sni: h2.example.net, alpn: [h2]}, pool: a}
      - {match: {sni: "*.example.net"}, pool: b}
      - {match: {no_sni: true}, pool: a}
  - {address: "10.9.9.10:443", mode: proxy, protocol: tls, routes: [{pool: a}]}
  - {address: "10.9.9.9:80", interfaces: [eth0], routes: [{pool: plain}]}
pools:
  a: {surrogates: [{name: a1, address: "10.2.1.1:443"}]}
  b: {policy: hash, surrogates: [{name: b1, address: "10.2.1.2:443"}, {name: b2, address: "10.2.1.3:443"}]}
  plain: {surrogates: [{name: p1, address: "10.2.1.4:80"}]}
`

func TestExplainHello(t *testing.T) {
	cfg, err := config.Parse("f", []byte(secureFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		question Question
		want     []string // lines, or their beginnings
	}{
		"by name and protocol": {Question{URL: "https://H2.example.net./path?x"}, []string{
			"request    hello for h2.example.net, offering h2 http/1.1", "vip        10.9.9.9:443, mode handoff",
			"route      line 6: sni h2.example.net, alpn h2", "chosen     a1, spliced", "decided    in user space: the route on line 6 matches alpn",
		}},
		"another protocol": {Question{URL: "https://h2.example.net", ALPN: []string{"http/1.1"}}, []string{
			"           not the route on line 6: no match on alpn", "route      line 7: sni *.example.net",
		}},
		"by wildcard": {Question{URL: "https://www.example.net"}, []string{
			"route      line 7: sni *.example.net", "decided    in the kernel: the name is in its tables, or no route has it",
		}},
		"no name":      {Question{URL: "https://10.9.9.9/"}, []string{"request    hello without a name", "route      line 8: no sni", "chosen     a1, spliced"}},
		"unknown name": {Question{URL: "https://a.b.example.net"}, []string{"answer     alert unrecognized_name: no route matches"}},
		"no route without a name": {Question{URL: "https://10.9.9.10/"}, []string{
			"           not the route on line 9: no match on no_sni", "answer     alert missing_extension: no route is for hellos without a name",
		}},
		"by a socket": {Question{URL: "https://any.test", VIP: netip.MustParseAddrPort("10.9.9.10:443")}, []string{
			"chosen     a1, proxied", "decided    in user space: mode proxy reads hellos from a socket",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := explained(t, cfg, tt.question, AllUp)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains("\n"+e.String(), "\n"+want) {
					t.Errorf("no line %q in\n%s", want, e)
				}
			}
		})
	}
}

// TestExplainHelloHash: policy hash takes what hello.Hash says.
func TestExplainHelloHash(t *testing.T) {
	cfg, err := config.Parse("f", []byte(secureFile))
	if err != nil {
		t.Fatal(err)
	}
	client := netip.MustParseAddr("192.0.2.7")
	e, err := explained(t, cfg, Question{URL: "https://www.example.net", Client: client}, AllUp)
	if err != nil {
		t.Fatal(err)
	}
	table := choose.Table(config.Hash, choose.Candidates(&cfg.Pools[1], func(string) (bool, bool) { return true, false }))
	at, _ := choose.Slot(table, hello.Hash(client, "www.example.net"))
	if want := cfg.Pools[1].Surrogates[at].Name; len(e.Chosen) != 1 || e.Chosen[0] != want {
		t.Errorf("chosen %v, want %s", e.Chosen, want)
	}
}

// TestExplainProtocolTooLong: a hello has a byte for the length of a protocol's name.
func TestExplainProtocolTooLong(t *testing.T) {
	cfg, err := config.Parse("f", []byte(secureFile))
	if err != nil {
		t.Fatal(err)
	}
	for length, valid := range map[int]bool{0: false, 1: true, 255: true, 256: false, 258: false} {
		_, err := explained(t, cfg, Question{URL: "https://h2.example.net", ALPN: []string{strings.Repeat("h", length)}}, AllUp)
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "not 1 to 255 (such as h2)") {
			t.Errorf("a protocol of %d bytes: %v", length, err)
		}
	}
}
