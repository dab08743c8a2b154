package test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"baton/lab"
	"baton/lab/peers"
)

// TestHTTP3Clients: clients other than quic-go get a download of some MiB from the Caddy of the name.
func TestHTTP3Clients(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	s := n.site("a", lab.LinkOptions{})
	certificate, key := ca.Sign("a.test")
	peers.Caddy(s.Host, peers.CaddyOptions{Site: "a.test", Certificate: certificate, Key: key})
	const vip = "10.9.9.9:443"
	r := n.start(fmt.Sprintf("vips:\n  - {address: %q, interfaces: [%s], protocol: quic, routes: [{match: {sni: a.test}, pool: p}]}\npools:\n  p: {surrogates: [{name: a, address: %q}]}\n",
		vip, n.front.Name, secure(s, false)))
	defer r.endQUIC()
	for name, client := range map[string]peers.Client{"curl": peers.CurlHTTP3, "aioquic": peers.Aioquic, "Chromium": peers.ChromiumHTTP3} {
		all, err := client(deadline(t), n.client, peers.Visit{To: netip.MustParseAddrPort(vip), Name: "a.test", Authorities: ca, Path: "/4m"})
		if err != nil || len(all) != 1 || all[0].Surrogate != "a" {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}

// TestHTTP3: HTTP/3 reaches the Caddy of the name in the hello, which logs the client's own address where its replies come back through
// the router (source: keep); the TCP VIP of the same address leads to the same servers, which log it for TCP as well.
func TestHTTP3(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	var pools, routes strings.Builder
	logs := make(map[string]string)
	for _, name := range []string{"a.test", "b.test"} {
		s := n.site(name[:1], lab.LinkOptions{})
		certificate, key := ca.Sign(name)
		logs[name] = peers.CaddyLog(peers.Caddy(s.Host, peers.CaddyOptions{Site: name, Certificate: certificate, Key: key}))
		fmt.Fprintf(&routes, "      - {match: {sni: %s}, pool: %s}\n", name, s.name)
		fmt.Fprintf(&pools, "  %s: {source: keep, surrogates: [{name: %[1]s, address: %[2]q}]}\n", s.name, secure(s, false))
	}
	const vip = "10.9.9.9:443"
	text := fmt.Sprintf("vips:\n  - address: %q\n    interfaces: [%s]\n    protocol: quic\n    routes:\n%s  - address: %[1]q\n    interfaces: [%[2]s]\n    protocol: tls\n    routes:\n%[3]spools:\n%[4]s",
		vip, n.front.Name, routes.String(), pools.String())
	r := n.start(text)
	defer r.endQUIC()
	for _, name := range []string{"a.test", "b.test"} {
		for range 3 {
			response, body, err := peers.HTTP3(deadline(t), n.client, ca.Pool, netip.MustParseAddrPort(vip), "https://"+name+"/1m")
			if err != nil {
				t.Fatal(err)
			}
			if got := response.Header.Get(peers.Header); response.StatusCode != 200 || got != name[:1] || response.ProtoMajor != 3 {
				t.Errorf("%s: %s from %q by %s", name, response.Status, got, response.Proto)
			}
			if err := peers.CheckPattern(bytes.NewReader(body), peers.Files["/1m"]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		got, err := peers.Curl(deadline(t), n.client, "--cacert", ca.File, "--resolve", name+":443:10.9.9.9", "https://"+name+"/128")
		if err != nil || got.Surrogate != name[:1] {
			t.Errorf("%s by TCP: from %q: %v", name, got.Surrogate, err)
		}
		if err := lab.Poll(answersWithin, func() error {
			log, err := os.ReadFile(logs[name])
			if err != nil {
				return err
			}
			if got := strings.Count(string(log), `"remote_ip":"10.1.0.2"`); got != 4 {
				return fmt.Errorf("%d lines of the log have the client's address, want 4:\n%s", got, log)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}
