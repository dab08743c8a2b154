package test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"baton/api"
	"baton/lab"
	"baton/policy"
	policyconfig "baton/policy/config"
)

// sharing is a network whose handoffs, redirects and proxied requests have one policy: clients of 10.1.0.0/24 are at site a with s1 and s2, others at
// b with s3.
type sharing struct {
	*network
	*running
	far    *lab.Host
	policy *policy.Policy
}

// The VIPs of each kind.
const (
	sharedHandoff  = "10.9.9.9:8001"
	sharedRedirect = "10.9.9.9:8002"
	sharedProxy    = "10.9.9.9:8003"
)

const sharedPolicy = `sites:
  a:
    capacity: 3
    clients: [10.1.0.0/24]
    surrogates: {s1: , s2: }
  b: {surrogates: {s3: {host: s3.test}}}
default: b
query: [id]
bypass: origin.test
services: [{hosts: [sticky.test], spread: key}]
`

func newSharing(t *testing.T) *sharing {
	t.Helper()
	s := &sharing{network: newNetwork(t)}
	var front *lab.Interface
	s.far, front = s.clientHost("far", lab.LinkOptions{})
	file := filepath.Join(s.Dir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(sharedPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := policyconfig.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.policy, err = policy.New(*cfg); err != nil {
		t.Fatal(err)
	}
	var vips, pools strings.Builder
	for _, name := range []string{"s1", "s2", "s3"} {
		serve(t, s.site(name, lab.LinkOptions{}).Host, name)
	}
	for _, v := range []struct{ address, mode, pool string }{{sharedHandoff, "handoff", "h"}, {sharedRedirect, "redirect", "r"}, {sharedProxy, "proxy", "p"}} {
		fmt.Fprintf(&vips, "  - {address: %q, mode: %s, interfaces: [%s, %s], routes: [{pool: %s}]}\n", v.address, v.mode, s.front.Name, front.Name, v.pool)
		fmt.Fprintf(&pools, "  %s:\n    policy: {file: %s, cookie: sid}\n    legs: {min: 4}\n    health: {path: /healthz, interval: 200ms, rise: 1, fall: 1}\n    surrogates:\n", v.pool, file)
		for _, one := range s.sites {
			fmt.Fprintf(&pools, "      - {name: %s/%s, address: %q}\n", v.pool, one.name, one.v4)
		}
	}
	s.running = s.start("vips:\n" + vips.String() + "pools:\n" + pools.String())
	return s
}

// decides is the policy's surrogate for a request from the first client; "": none.
func (s *sharing) decides(seen map[string]policy.Observed, host, target, cookie string) string {
	path, query, _ := strings.Cut(target, "?")
	d := s.policy.State(nil, seen, nil).Explain(&policy.Query{Client: policy.Whole(netip.MustParseAddr("10.1.0.2")), Host: host, Path: path, RawQuery: query, Sticky: cookie})
	if len(d.Choices) == 0 {
		return ""
	}
	return d.Choices[0].Surrogate.Name
}

// asks is the surrogate that answers a request on a connection of its own, or is redirected to.
func (s *sharing) asks(t *testing.T, from *lab.Host, vip, host, target, cookie string) (string, error) {
	t.Helper()
	c, err := dial(t.Context(), from, vip)
	if err != nil {
		return "", err
	}
	defer c.Close()
	got, err := c.ask("GET", "GET "+target+" HTTP/1.1\r\nHost: "+host+"\r\nCookie: sid="+cookie+"\r\n\r\n")
	if err != nil {
		return "", err
	}
	if got.StatusCode != http.StatusFound {
		return got.surrogate, nil
	}
	to, err := url.Parse(got.Header.Get("Location"))
	if err != nil || to.RequestURI() != target {
		return "", fmt.Errorf("redirected to %q, %v", got.Header.Get("Location"), err)
	}
	for _, one := range s.sites {
		if one.v4.String() == to.Host+":80" || one.v4.String() == to.Host || one.name+".test" == to.Host {
			return one.name, nil
		}
	}
	return to.Host, nil
}

// TestOnePolicy: a handoff, a redirect and a proxied request have the surrogate that the policy decides, for many objects, parameters and cookies.
func TestOnePolicy(t *testing.T) {
	s := newSharing(t)
	seen := make(map[string]bool)
	for i := range 30 {
		host, target, cookie := "h", fmt.Sprintf("/bytes/%d?t=%d&id=%d", 10+i%7, i, i%3), fmt.Sprint(i)
		if i%5 == 0 {
			host = "sticky.test"
		}
		want := s.decides(nil, host, target, cookie)
		for _, vip := range []string{sharedHandoff, sharedRedirect, sharedProxy} {
			if got, err := s.asks(t, s.client, vip, host, target, cookie); err != nil || got != want {
				t.Errorf("%s of %s by %s: %q, %v, the policy says %s", target, host, vip, got, err, want)
			}
			if got, err := s.asks(t, s.far, vip, host, target, cookie); err != nil || got != "s3" {
				t.Errorf("from far, %s of %s by %s: %q, %v, want s3", target, host, vip, got, err)
			}
		}
		seen[want] = true
	}
	if len(seen) != 2 {
		t.Errorf("all requests are at %v", seen)
	}
	explained := func(client, where, because string) {
		t.Helper()
		out, err := s.baton(t.Context(), "router", "explain", "http://"+sharedHandoff+"/x", "--client", client, "--control", s.socket)
		if err != nil || !strings.Contains(out, where) || !strings.Contains(out, because) {
			t.Errorf("explain: %v, want %q and %q\n%s", err, where, because, out)
		}
	}
	explained("10.1.0.2", "user space: the kernel cannot choose by the policy: spread object of a", "coverage zone 10.1.0.0/24 -> site a")
	if n := s.metrics()[`baton_router_policy_decisions_total{method="zone",pool="r",result="served"}`]; n < 30 {
		t.Errorf("%v decisions are counted", n)
	}
	out, err := s.baton(t.Context(), "router", "decisions", "--control", s.socket)
	if err != nil || !strings.Contains(out, "redirect") || !strings.Contains(out, "handoff") || !strings.Contains(out, "hash of /bytes/") {
		t.Errorf("decisions: %v\n%s", err, out)
	}

	// One choice less, and the kernel decides for them, too.
	s.do(t, "drain", "h/s2")
	lab.Eventually(t, answersWithin, func() error {
		for i := range 12 {
			if got, err := s.asks(t, s.client, sharedHandoff, "h", fmt.Sprintf("/bytes/%d", i), ""); err != nil || got != "s1" {
				return fmt.Errorf("%q, %v", got, err)
			}
		}
		return nil
	})
	explained("10.1.0.2", "the kernel:", "s2 is in maintenance")
	s.do(t, "undrain", "h/s2")
}

// TestOnePolicySpills: live sessions fill a site, whatever way they came; what cannot serve is passed over, and where nothing can clients are sent away.
func TestOnePolicySpills(t *testing.T) {
	s := newSharing(t)
	goes := func(from *lab.Host, want string, vips ...string) {
		t.Helper()
		for _, vip := range vips {
			lab.Eventually(t, answersWithin, func() error {
				for i := range 8 {
					got, err := s.asks(t, from, vip, "h", fmt.Sprintf("/bytes/%d", i), "")
					if err != nil || !strings.Contains(want, got) || got == "" {
						return fmt.Errorf("by %s: %q, %v, want %s", vip, got, err, want)
					}
				}
				return nil
			})
		}
	}
	all := []string{sharedHandoff, sharedRedirect, sharedProxy}
	goes(s.client, "s1 s2", all...)
	var kept []*connection
	for i := range 3 {
		c := s.open(t, sharedHandoff)
		if _, err := c.get("h", fmt.Sprint("/bytes/", i)); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, c)
	}
	goes(s.client, "s3", all...)
	if out, err := s.baton(t.Context(), "router", "explain", "http://"+sharedRedirect+"/x", "--client", "10.1.0.2", "--control", s.socket); err != nil ||
		!regexp.MustCompile(`a is at 1\d\d % of 3 sessions: spills to b`).MatchString(out) { // those of the requests before may not have ended
		t.Errorf("explain: %v\n%s", err, out)
	}
	for _, c := range kept {
		c.Close()
	}
	goes(s.client, "s1 s2", all...)

	s.do(t, "weight", "h/s3", "0")
	goes(s.far, "s1 s2", sharedHandoff)
	goes(s.far, "s3", sharedRedirect, sharedProxy) // of other pools
	for _, name := range []string{"h/s1", "h/s2"} {
		s.do(t, "drain", name)
	}
	goes(s.far, "origin.test", sharedHandoff)
	client := api.NewClient(s.socket)
	defer client.Close()
	redirected, err := client.RouterExplain(t.Context(), api.RouterQuestion{URL: "http://" + sharedHandoff + "/x", Client: netip.MustParseAddr("10.1.1.2")})
	if err != nil || redirected.Status != http.StatusFound || !strings.Contains(strings.Join(redirected.Steps, "\n"), "bypass to origin.test") {
		t.Errorf("%v %+v", err, redirected)
	}
}
