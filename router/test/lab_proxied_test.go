package test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"baton/api"
	"baton/lab"
)

// proxiedAt returns the numbers of a VIP's proxied connections and requests, without reasons that have not occurred.
func (r *running) proxiedAt(vip string) (connections map[string]uint64, requests uint64, interfaces []string) {
	r.n.t.Helper()
	for _, v := range r.status().VIPs {
		if v.Address.String() != vip || v.Proxied == nil {
			continue
		}
		for why, n := range v.Proxied.Connections {
			if n == 0 {
				delete(v.Proxied.Connections, why)
			}
		}
		return v.Proxied.Connections, v.Proxied.Requests, v.Proxied.Interfaces
	}
	r.n.t.Fatalf("nothing is said of what is proxied at %s", vip)
	return nil, 0, nil
}

// ask sends a request from a host to a VIP, over a connection of its own.
func ask(t *testing.T, from *lab.Host, vip, host string) {
	t.Helper()
	c, err := dial(t.Context(), from, vip)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.get(host, "/128"); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%s at %s: %+v, %v", host, vip, got, err)
	}
}

// TestProxiedIsVisible: clients that come in on an interface that is not one of the VIP's are proxied, and status,
// metrics, the log, check and explain say so, as they do of other reasons.
func TestProxiedIsVisible(t *testing.T) {
	n := newNetwork(t)
	far := n.site("far", lab.LinkOptions{})
	serve(t, far.Host, far.name)
	other, end := n.clientHost("other", lab.LinkOptions{})
	n.router.Route("default", "10.1.1.2") // the other client's
	l, err := n.router.Listen("tcp", "10.2.1.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: &origin{name: "own"}}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	r := n.start(fmt.Sprintf(`vips:
  - {address: %q, interfaces: [%[2]s], routes: [{match: {host: own.test}, pool: own}, {pool: far}]}
  - {address: %[3]q, interfaces: [%[2]s], routes: [{match: {host: four.test}, pool: far}, {pool: far6}]}
  - {address: "10.9.9.10:80", interfaces: [%[2]s], mode: proxy, routes: [{pool: far}]}
pools:
  far: {surrogates: [{name: far, address: %[4]q}]}
  far6: {surrogates: [{name: far6, address: %[5]q}]}
  own: {surrogates: [{name: own, address: "10.2.1.1:8080"}]}
`, vip4, n.front.Name, vip6, far.v4, far.v6))

	for _, tt := range []struct {
		from      *lab.Host
		vip, host string
		times     int
	}{
		{n.client, vip4, "a.test", 3}, {n.client, vip6, "a.test", 3}, // spliced
		{other, vip4, "a.test", 5}, {other, vip6, "a.test", 4}, {n.router, vip4, "a.test", 1},
		{n.client, vip4, "own.test", 2}, {n.client, vip6, "four.test", 2}, {other, "10.9.9.10:80", "a.test", 3},
	} {
		for range tt.times {
			ask(t, tt.from, tt.vip, tt.host)
		}
	}
	for _, tt := range []struct {
		vip        string
		want       string
		requests   uint64
		interfaces string
	}{
		{vip4, "map[interface:5 local client:1 local surrogate:2]", 8, end.Name},
		{vip6, "map[interface:4 other family:2]", 6, end.Name},
		{"10.9.9.10:80", "map[mode:3]", 3, ""},
	} {
		lab.Eventually(t, answersWithin, func() error { // a request is counted a moment after its answer
			connections, requests, interfaces := r.proxiedAt(tt.vip)
			got := fmt.Sprintf("%v, %d requests, %v", connections, requests, interfaces)
			if want := fmt.Sprintf("%v, %d requests, [%s]", tt.want, tt.requests, tt.interfaces); got != want {
				return fmt.Errorf("%s: %s; want %s", tt.vip, got, want)
			}
			return nil
		})
		line := fmt.Sprintf("connections for VIP %s come in on %s, which is not in its interfaces: proxied", tt.vip, end.Name)
		if got := strings.Count(r.Log(), line); got != len(strings.Fields(tt.interfaces)) {
			t.Errorf("%s: the log says it %d times:\n%s", tt.vip, got, r.Log())
		}
	}
	metric := fmt.Sprintf(`baton_router_proxied_connections_total{reason="interface",vip=%q}`, vip4)
	if got := r.metrics()[metric]; got != 5 {
		t.Errorf("the metric is %v, want 5", got)
	}
	saysOfProxied(t, r, end.Name)
}

// saysOfProxied: explain and check name the interface on which clients come in.
func saysOfProxied(t *testing.T, r *running, name string) {
	t.Helper()
	client := api.NewClient(r.socket)
	defer client.Close()
	e, err := client.RouterExplain(t.Context(), api.RouterQuestion{URL: "http://" + vip4 + "/"})
	if err != nil || !strings.Contains(strings.Join(e.Steps, "\n"), "proxied, if it comes in on "+name) {
		t.Errorf("explain: %v\n%s", err, strings.Join(e.Steps, "\n"))
	}
	out, err := r.n.baton(t.Context(), "router", "check", "-c", r.file, "-o", "json")
	if err != nil || !strings.Contains(out, "the default route leaves by "+name+", which is not one of them") {
		t.Errorf("check: %v\n%s", err, out)
	}
}

// TestFullTableIsVisible: when limits.sessions is reached, status, metrics, explain and the log say so, and when it is
// over, too.
func TestFullTableIsVisible(t *testing.T) {
	const places = 4
	n := newNetwork(t)
	far := n.site("far", lab.LinkOptions{})
	serve(t, far.Host, far.name)
	r := n.start(fmt.Sprintf(`limits: {sessions: %d}
vips:
  - {address: %q, interfaces: [%s], routes: [{pool: far}]}
pools:
  far: {legs: {min: 1}, surrogates: [{name: far, address: %q}]}
`, places, vip4, n.front.Name, far.v4))
	client := api.NewClient(r.socket)
	defer client.Close()
	const full = "the table of sessions is full"
	says := func() bool {
		e, err := client.RouterExplain(t.Context(), api.RouterQuestion{URL: "http://" + vip4 + "/"})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(strings.Join(e.Steps, "\n"), "now        no place: "+full)
	}

	var held []*connection
	for range places + 3 {
		c := n.open(t, vip4)
		if got, err := c.get("h", "/128"); err != nil || got.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", got, err)
		}
		held = append(held, c)
	}
	lab.Eventually(t, answersWithin, func() error {
		m := r.metrics()
		got := []any{
			r.status().Full, r.status().Places, m["baton_router_session_places"], m["baton_router_sessions_limit"],
			m["baton_router_sessions"], r.decisions("no place"), says(),
		}
		if want := []any{true, places, 4., 4., 4., 3., true}; !slices.Equal(got, want) {
			return fmt.Errorf("full, places, their metrics, decisions, explained: %v; want %v", got, want)
		}
		if connections, _, _ := r.proxiedAt(vip4); connections["no place"] != 3 {
			return fmt.Errorf("proxied: %v", connections)
		}
		return nil
	})
	if got := strings.Count(r.Log(), full); got != 1 {
		t.Errorf("the log says %d times that it is full:\n%s", got, r.Log())
	}
	for _, c := range held {
		c.Close()
	}
	lab.Eventually(t, 3*answersWithin, func() error {
		if r.status().Full || says() || strings.Count(r.Log(), "the table of sessions has places again") != 1 {
			return fmt.Errorf("it is still said to be full:\n%s", r.Log())
		}
		return nil
	})
}
