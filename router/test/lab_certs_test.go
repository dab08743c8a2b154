package test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// TestCertificates: checks of surrogates with TLS, and what is said of their certificates: in the status, the log, the metrics, and by a
// check that connects.
func TestCertificates(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a, b, plain := n.site("a", lab.LinkOptions{}), n.site("b", lab.LinkOptions{}), n.site("plain", lab.LinkOptions{})
	secureNginx(ca, a, "a.test", "*.both.test")
	secureNginx(ca, b, "b.test", "*.both.test")
	certificate, key := ca.Sign("headed.test")
	peers.Nginx(plain.Host, peers.NginxOptions{Server: fmt.Sprintf("listen 443;\nlisten 8443 ssl proxy_protocol;\nssl_certificate %s;\nssl_certificate_key %s;", certificate, key)})
	config := func(routes, pools string) string {
		return fmt.Sprintf(`vips:
  - address: "10.9.9.9:443"
    interfaces: [%s]
    protocol: tls
    routes:
      - {match: {sni: a.test}, pool: a}
      - {match: {sni: x.both.test}, pool: a}
      - {match: {sni: "*.both.test"}, pool: b}
      - {match: {sni: other.test}, pool: b}
      - {match: {sni: headed.test}, pool: headed}
%s
pools:
  a: {health: {interval: 500ms}, surrogates: [{name: a1, address: %q}]}
  b: {health: {interval: 500ms, path: /128}, surrogates: [{name: b1, address: %q}]}
  headed: {client_address: proxy-v2, health: {interval: 500ms, path: /128}, surrogates: [{name: h1, address: "10.2.3.2:8443"}]}
%s
`, n.front.Name, routes, secure(a, false), secure(b, false), pools)
	}
	r := n.start(config("", ""))
	const overlap = ": pools.a: overlap of pools a and b by *.both.test: "
	warnings := []string{
		overlap, ": pools.a.surrogates[0]: certificate for a.test expires on ", ": pools.b.surrogates[0]: certificate does not cover other.test: it is for b.test, *.both.test",
		": pools.headed.surrogates[0]: certificate for headed.test expires on ",
	}
	client := api.NewClient(r.socket)
	defer client.Close()
	var status api.RouterStatus
	if err := lab.Poll(answersWithin, func() (err error) {
		if status, err = client.Router(context.Background()); err != nil {
			return err
		}
		for _, want := range warnings {
			if all := strings.Join(status.Warnings, "\n"); !strings.Contains(all, r.file) || !strings.Contains(all, want) {
				return fmt.Errorf("%q is not among the warnings:\n%s", want, all)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	seen := status.Pools[1].Surrogates[0].Certificates
	if len(seen) != 2 || seen[0].Protocol != "h2" || seen[0].Expires.IsZero() || len(seen[0].Names) != 2 {
		t.Errorf("certificates of b1: %+v", seen)
	}
	if got := r.metrics()[`baton_router_certificate_overlaps{other="b",pool="a",vip="10.9.9.9:443"}`]; got != 1 {
		t.Errorf("metric of overlaps is %v", got)
	}
	if n := strings.Count(r.Log(), "overlap of pools"); n != 1 {
		t.Errorf("the overlap is in the log %d times", n)
	}
	for _, command := range []string{"status --control " + r.socket, "check --connect -o json -c " + r.file} {
		out, err := n.baton(deadline(t), append([]string{"router"}, strings.Fields(command)...)...)
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		for _, want := range warnings {
			if !strings.Contains(out, r.file+":16:") || !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in\n%s", command, want, out)
			}
		}
	}
	if got, err := peers.Curl(deadline(t), n.client, "--cacert", ca.File, "--resolve", "a.test:443:10.9.9.9", "https://a.test/128"); err != nil || got.Surrogate != "a" {
		t.Errorf("answered by %q: %v", got.Surrogate, err)
	}

	// A surrogate that does not speak TLS is down, and the message says so.
	if err := r.configure(config("      - {match: {sni: plain.test}, pool: plain}",
		fmt.Sprintf("  plain: {health: {interval: 500ms}, surrogates: [{name: p1, address: %q}]}", secure(plain, false)))); err != nil {
		t.Fatal(err)
	}
	if out, err := n.baton(deadline(t), "router", "reload", "--control", r.socket); err != nil || strings.Contains(out, "pool a has changed") {
		t.Fatalf("%v\n%s", err, out)
	}
	const without = "answers without TLS on 10.2.3.2:443"
	if err := lab.Poll(answersWithin, func() error {
		out, err := n.baton(deadline(t), "router", "status", "--control", r.socket)
		if err != nil || !strings.Contains(out, "down: check 10.2.3.2:443: "+without) {
			return fmt.Errorf("%v\n%s", err, out)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if out, err := n.baton(deadline(t), "router", "check", "--connect", "-o", "json", "-c", r.file); err != nil || !strings.Contains(out, "pools.plain.surrogates[0]: "+without) {
		t.Errorf("check: %v\n%s", err, out)
	}
	if n := strings.Count(r.Log(), "overlap of pools"); n != 1 {
		t.Errorf("after a reload, the overlap is in the log %d times", n)
	}
}
