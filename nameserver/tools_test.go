package nameserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"baton/nameserver/answer"
	"baton/nameserver/config"
	"baton/nameserver/follow"
	"baton/nameserver/route"
	"baton/nameserver/serve"
	"baton/nameserver/sign"
)

// signed serves a signed zone, and returns its port and the file of a trust anchor.
func signed(t *testing.T) (port, anchors string) {
	t.Helper()
	n := &network{t: t, dir: t.TempDir()}
	path, key, err := sign.Generate(n.dir, "example.test")
	if err != nil {
		t.Fatal(err)
	}
	n.write("z", fmt.Sprintf(zoneText, 1, "web A 192.0.2.2\nalias CNAME web\n*.w TXT x\nchild NS ns\nchild DS 1 13 2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\nplain NS ns\n"))
	cfg, err := config.Parse(n.dir+"/n.yaml", fmt.Appendf(nil, `listen: ["127.0.0.1:1"]
name: ns1
zones: [{name: example.test, file: z, key: %s, routed: {cdn: c}}]
services: {c: {https: {alpn: [h2]}}}
policy: {sites: {w: {clients: [192.0.2.0/24], surrogates: {s: {addresses: [192.0.2.9]}}}}}
`, path))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	zones, _, err := Zones(cfg)
	if err != nil {
		t.Fatal(err)
	}
	routes, err := route.New(cfg, (*follow.Follower)(nil).View, log)
	if err != nil {
		t.Fatal(err)
	}
	zones[0].Routes = routes.Routes()
	tables, err := answer.Compile(zones)
	if err != nil {
		t.Fatal(err)
	}
	server := answer.New(Answering(cfg))
	server.Set(tables)
	ctx, cancel := context.WithCancel(t.Context())
	sockets, err := serve.Listen(ctx, server, serve.Options{
		Addresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, Size: cfg.UDP.Size, TCP: serve.TCP{Connections: 10, PerNetwork: 10, Idle: patience},
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { sockets.Serve(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	_, port, _ = net.SplitHostPort(sockets.Addresses()[0].String())
	return port, n.write("anchors", fmt.Sprintf("trust-anchors { \"example.test.\" static-key %d %d %d %q; };\n", key.Flags, key.Protocol, key.Algorithm, key.PublicKey))
}

// tool runs a program, and returns what it says.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIP: %s is not installed (make deps)", name)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil && name != "delv" { // which fails where there are no records
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestValidated: BIND's validator trusts every answer of a signed zone, also those that something does not exist.
func TestValidated(t *testing.T) {
	port, anchors := signed(t)
	for _, tt := range []struct{ name, kind, want string }{
		{"web", "A", "; fully validated"}, {"alias", "A", "; fully validated"}, {"x.w", "TXT", "; fully validated"}, {"cdn", "A", "; fully validated"},
		{"cdn", "HTTPS", "; fully validated"}, {"www", "A", "; fully validated"}, {"child", "DS", "; fully validated"}, {"web", "ANY", "; fully validated"},
		{"nothing", "A", "; negative response, fully validated"}, {"web", "MX", "; negative response, fully validated"}, {"cdn", "AAAA", "; negative response, fully validated"},
		{"x.w", "A", "; negative response, fully validated"}, {"w", "A", "; negative response, fully validated"}, {"plain", "DS", "; negative response, fully validated"},
	} {
		t.Run(tt.name+" "+tt.kind, func(t *testing.T) {
			out := tool(t, "delv", "@127.0.0.1", "-p", port, "-a", anchors, "+root=example.test", tt.name+".example.test", tt.kind)
			if !strings.Contains(out, "\n"+tt.want) && !strings.HasPrefix(out, tt.want) {
				t.Errorf("want %q\n%s", tt.want, out)
			}
		})
	}
}

// TestTools: what people ask with understands all that they ask for.
func TestTools(t *testing.T) {
	port, _ := signed(t)
	for _, tt := range []struct {
		tool string
		args string
		want []string
	}{
		{"dig", "@127.0.0.1 -p PORT cdn.example.test +subnet=192.0.2.0/24 +nsid +cookie", []string{"status: NOERROR", "192.0.2.9", "(good)", "CLIENT-SUBNET: 192.0.2.0/24/24", `("ns1")`, "flags: qr aa rd;"}},
		{"dig", "@127.0.0.1 -p PORT web.example.test +edns=1 +noednsnegotiation", []string{"status: BADVERS", "EDNS: version: 0"}},
		{"dig", "@127.0.0.1 -p PORT web.example.test +opcode=notify", []string{"status: NOTIMP"}},
		{"dig", "@127.0.0.1 -p PORT example.test axfr", []string{"Transfer failed"}},
		{"dig", "@127.0.0.1 -p PORT nothing.example.test +tcp +keepopen +dnssec", []string{"status: NOERROR", "RRSIG NSEC TYPE128"}},
		{"dig", "@127.0.0.1 -p PORT version.bind CH TXT", []string{"status: REFUSED"}},
		{"kdig", "@127.0.0.1 -p PORT web.example.test ANY +tcp", []string{"status: NOERROR", `HINFO	"RFC8482" ""`}},
		{"kdig", "@127.0.0.1 -p PORT cdn.example.test HTTPS +json", []string{`"RDATAHEX": "0001000001000302683200040004C0000209"`}}, // 1 . alpn=h2 ipv4hint=192.0.2.9
	} {
		out := tool(t, tt.tool, strings.Fields(strings.ReplaceAll(tt.args, "PORT", port))...)
		for _, want := range tt.want {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s %s lacks %q:\n%s", tt.tool, tt.args, want, out)
			}
		}
	}
}
