package route

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"baton/packet/hello"
	"baton/router/config"
)

func encryptedVIP(routes ...string) string {
	return `  - {address: "10.9.9.9:443", interfaces: [eth0], protocol: tls, routes: [` + strings.Join(routes, ", ") + "]}\n"
}

// protocols is an ALPN list as it is on the wire.
func protocols(names ...string) (p hello.Protocols) {
	for _, name := range names {
		p = append(append(p, byte(len(name))), name...)
	}
	return p
}

func TestMatchHello(t *testing.T) {
	table := compile(t, encryptedVIP(
		"{match: {sni: a.net, alpn: [h2]}, pool: a}", `{match: {sni: "*.a.net"}, pool: b}`, "{match: {sni: a.net}, pool: c}",
		"{match: {alpn: [acme-tls/1]}, pool: a}", "{match: {no_sni: true}, pool: c}"))
	for _, tt := range []struct {
		name   string
		offers hello.Protocols
		want   string // pool, reason
	}{
		{"a.net", protocols("http/1.1", "h2"), "a: sni a.net, alpn h2"},
		{"a.net", protocols("http/1.1"), "c: sni a.net"},
		{"a.net", nil, "c: sni a.net"},
		{"x.a.net", protocols("h2"), "b: sni *.a.net"},
		{"y.x.a.net", nil, ""},
		{"y.x.a.net", protocols("acme-tls/1"), "a: alpn acme-tls/1"},
		{"", protocols("acme-tls/1"), "c: no sni"},
		{"b.net", nil, ""},
	} {
		got := ""
		if r, ok := table.MatchHello(0, &hello.Hello{ServerName: tt.name, Protocols: tt.offers}); ok {
			got = r.PoolName + ": " + r.Reason
		}
		if got != tt.want {
			t.Errorf("%q offering %q: %q, want %q", tt.name, []byte(tt.offers), got, tt.want)
		}
	}
}

// TestNameOnly: a route without conditions is for hellos with a name; one without is refused unless a route says otherwise.
func TestNameOnly(t *testing.T) {
	table := compile(t, encryptedVIP("{pool: a}"))
	if _, ok := table.MatchHello(0, &hello.Hello{ServerName: "b.net"}); !ok {
		t.Error("no route for a name")
	}
	misses, count := table.MissesHello(0, &hello.Hello{}, 10)
	if len(misses) != 1 || count != 1 || misses[0].Why != "no match on no_sni" {
		t.Errorf("misses of a hello without a name: %+v", misses)
	}
}

// TestKernelAgreesWithMatchHello: for random routes and hellos the kernel's result is MatchHello's or an upcall; never an upcall
// for a name that is not too long, under routes by names that end in one for every name.
func TestKernelAgreesWithMatchHello(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	label := func() string { return []string{"a", "b", "c-d", strings.Repeat("x", 30)}[r.IntN(4)] }
	name := func() string {
		out := label()
		for range r.IntN(3) {
			out += "." + label()
		}
		return out
	}
	decided, upcalls := 0, 0
	for round := range 400 {
		static := round%2 == 0
		cfg := &config.Config{Pools: []config.Pool{{Name: "0"}, {Name: "1"}, {Name: "2"}, {Name: "3"}}, VIPs: []config.VIP{{Mode: config.Handoff, Protocol: config.TLS}}}
		v := &cfg.VIPs[0]
		for i := range 1 + r.IntN(8) {
			m := config.Match{SNI: name()}
			switch {
			case r.IntN(3) == 0:
				m.SNI = "*." + m.SNI
			case !static && r.IntN(5) == 0:
				m.SNI = ""
			case !static && r.IntN(8) == 0:
				m = config.Match{NoSNI: true}
			}
			if !static && r.IntN(4) == 0 {
				m.ALPN = []string{"h2"}
			}
			v.Routes = append(v.Routes, config.Route{Match: m, Pool: fmt.Sprint(r.IntN(4)), Line: i})
		}
		if static {
			v.Routes = append(v.Routes, config.Route{Pool: "0"})
		}
		table, err := Compile(cfg)
		if err != nil {
			t.Fatal(err)
		}
		k := table.Kernel(RoomOf(MaxHosts))
		for range 60 {
			h := &hello.Hello{ServerName: name()}
			if r.IntN(10) == 0 {
				h.ServerName = ""
			}
			if r.IntN(2) == 0 {
				h.Protocols = protocols("h2")
			}
			want, ok := table.MatchHello(0, h)
			got := k.LookupHello(0, h)
			switch {
			case got.Upcall && static && h.ServerName != "" && len(h.ServerName) <= MaxKernelHost:
				t.Fatalf("asks on static routes: %+v\nroutes %+v\nname %s", got, v.Routes, h.ServerName)
			case got.Upcall:
				upcalls++
				continue
			case !ok || int(got.Pool) != want.Pool:
				t.Fatalf("kernel says pool %d, MatchHello says %+v, %v\nroutes %+v\nname %s", got.Pool, want, ok, v.Routes, h.ServerName)
			}
			decided++
		}
	}
	t.Logf("%d decided, %d upcalls", decided, upcalls)
	if decided < 5000 || upcalls < 1000 {
		t.Errorf("%d decided and %d upcalls: the routes do not test both", decided, upcalls)
	}
}
