package test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// TestModes runs the three modes next to each other, in both families, and what a handoff VIP can only proxy.
func TestModes(t *testing.T) {
	n := newNetwork(t)
	a, b := n.site("a", lab.LinkOptions{}), n.site("b", lab.LinkOptions{})
	serve(t, a.Host, a.name)
	serve(t, b.Host, b.name)
	local, err := n.router.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: &origin{name: "local"}}
	go server.Serve(local)
	t.Cleanup(func() { server.Close() })

	r := n.start(fmt.Sprintf(`vips:
  - address: "10.9.9.9:80"
    interfaces: [%[1]s]
    routes:
      - {match: {host: local.test}, pool: local}
      - {match: {host: family.test}, pool: b6}
      - {match: {path_prefix: /b/}, pool: b}
      - {match: {host: a.test}, pool: a}
  - {address: "10.9.9.10:80", mode: redirect, interfaces: [%[1]s], routes: [{match: {path_prefix: /b/}, pool: b}, {pool: a}]}
  - {address: "10.9.9.11:80", mode: proxy, interfaces: [%[1]s], routes: [{match: {path_prefix: /b/}, pool: b}, {pool: a}]}
  - {address: "[fd09::9]:80", interfaces: [%[1]s], routes: [{pool: b6}]}
  - {address: "[fd09::10]:80", mode: redirect, interfaces: [%[1]s], routes: [{pool: b6}]}
  - {address: "[fd09::11]:80", mode: proxy, interfaces: [%[1]s], routes: [{pool: b6}]}
pools:
  a: {surrogates: [{name: a, address: %[2]q}]}
  b: {surrogates: [{name: b, address: %[3]q, public: "http://b.example"}]}
  b6: {surrogates: [{name: b6, address: %[4]q}]}
  local: {surrogates: [{name: local, address: "127.0.0.1:8080"}]}
`, n.front.Name, a.v4, b.v4, b.v6))

	// ask makes one request on a new connection, and returns whether the VIP's user-space server counts it.
	ask := func(t *testing.T, address, request string, proxied bool) (answer, bool) {
		t.Helper()
		before := r.fallbacks(address)
		got, err := n.open(t, address).ask("GET", request)
		if err != nil {
			t.Fatal(err)
		}
		// The server counts a request after it has finished it, a moment after its client.
		patience := answersWithin / 40
		if proxied {
			patience = answersWithin
		}
		err = lab.Poll(patience, func() error {
			if r.fallbacks(address) == before {
				return fmt.Errorf("not counted")
			}
			return nil
		})
		return got, err == nil
	}
	get := func(path, host string) string { return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }

	for _, tt := range []struct {
		name, address, request string
		status                 int
		surrogate, location    string
		proxied                bool
		size                   int
	}{
		{"handoff", "10.9.9.9:80", get("/bytes/100000", "a.test"), 200, "a", "", false, 100_000},
		{"handoff by path", "10.9.9.9:80", get("/b/x", "x"), 200, "b", "", false, -1},
		{"handoff, IPv6", "[fd09::9]:80", get("/bytes/100000", "x"), 200, "b", "", false, 100_000},
		{"redirect", "10.9.9.10:80", get("/x?q=1", "a.test"), 302, "", "http://10.2.1.2:80/x?q=1", true, -1},
		{"redirect to a public name", "10.9.9.10:80", get("/b/x", "a.test"), 302, "", "http://b.example/b/x", true, -1},
		{"redirect, IPv6", "[fd09::10]:80", get("/x", "a.test"), 302, "", "http://[fd02:0:0:2::2]:80/x", true, -1},
		{"proxy", "10.9.9.11:80", get("/bytes/100000", "x"), 200, "a", "", true, 100_000},
		{"proxy by path", "10.9.9.11:80", get("/b/x", "x"), 200, "b", "", true, -1},
		{"proxy, IPv6", "[fd09::11]:80", get("/bytes/100000", "x"), 200, "b", "", true, 100_000},
		{"surrogate on loopback", "10.9.9.9:80", get("/bytes/100000", "local.test"), 200, "local", "", true, 100_000},
		{"surrogate of another family", "10.9.9.9:80", get("/bytes/100000", "family.test"), 200, "b", "", true, 100_000},
		{"no route", "10.9.9.9:80", get("/", "nobody.test"), 404, "", "", true, -1},
		{"CONNECT", "10.9.9.9:80", "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n", 501, "", "", true, -1},
		{"malformed", "10.9.9.9:80", "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n", 400, "", "", true, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, proxied := ask(t, tt.address, tt.request, tt.proxied)
			if got.StatusCode != tt.status || got.surrogate != tt.surrogate || got.Header.Get("Location") != tt.location {
				t.Errorf("%d from %q to %q, want %d from %q to %q: %.100q", got.StatusCode, got.surrogate, got.Header.Get("Location"),
					tt.status, tt.surrogate, tt.location, got.body)
			}
			if proxied != tt.proxied {
				t.Errorf("counted as fallback: %v, want %v", proxied, tt.proxied)
			}
			if tt.size >= 0 && got.body != patternText(tt.size) {
				t.Errorf("%d bytes that are not the %d of the pattern", len(got.body), tt.size)
			}
		})
	}

	t.Run("warned once", func(t *testing.T) {
		for _, text := range []string{"127.0.0.1:8080 is on loopback and cannot be spliced: its sessions are proxied", "is of another address family than VIP"} {
			if count := strings.Count(r.Log(), text); count != 1 {
				t.Errorf("%q is logged %d times:\n%s", text, count, r.Log())
			}
		}
	})
	t.Run("one connection, spliced and proxied", func(t *testing.T) {
		// A spliced session can be handed over to the proxy between two requests; the proxy keeps it.
		c := n.open(t, "10.9.9.9:80")
		for _, want := range []string{"a", "a", "local", "a", "local"} {
			got, err := c.get(want+".test", "/bytes/20000")
			got.expect(t, err, want, 200, patternText(20_000))
		}
	})
	for _, address := range []string{"10.9.9.9:80", "10.9.9.11:80", "[fd09::9]:80"} {
		t.Run("upgrade/"+address, func(t *testing.T) {
			c := n.open(t, address)
			got, err := c.ask("GET", "GET /upgrade HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			if err != nil || got.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%+v %v, want 101", got.Response, err)
			}
			for i := range 20 {
				message := strings.Repeat(string(rune('a'+i)), 1+i*500)
				if _, err := io.WriteString(c, message); err != nil {
					t.Fatal(err)
				}
				echo := make([]byte, len(message))
				if _, err := io.ReadFull(c.r, echo); err != nil || string(echo) != message {
					t.Fatalf("message %d: %v", i, err)
				}
			}
		})
	}
	t.Run("redirect followed", func(t *testing.T) {
		for address, want := range map[string]string{"10.9.9.10:80": "a", "[fd09::10]:80": "b"} {
			got, err := peers.Curl(deadline(t), n.client, "-L", "http://"+address+"/bytes/100000")
			if err != nil {
				t.Fatal(err)
			}
			if got.Surrogate != want || got.Redirects != 1 || got.Body != patternText(100_000) {
				t.Errorf("%s: %d bytes from %s after %d redirects", address, len(got.Body), got.Surrogate, got.Redirects)
			}
		}
	})
	t.Run("another port of the VIP's address", func(t *testing.T) {
		if c, err := dial(t.Context(), n.client, "10.9.9.9:81"); err == nil {
			c.Close()
			t.Error("connected")
		}
	})
	if status := r.status(); !slices.ContainsFunc(status.Pools, func(p api.RouterPool) bool {
		return p.Name == "local" && p.Surrogates[0].Proxied != ""
	}) {
		t.Errorf("status does not say that the surrogate on loopback is proxied: %+v", status.Pools)
	}
}
