package test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// told is what nginx answers to /who: what it has got of a request.
const told = `location /who { return 200 "$http_x_forwarded_for|$http_x_request_id|$http_host|$request_uri"; }`

// editing is a configuration in which heads are edited: %[1]s addresses a surrogate, %[2]q and %[3]q the VIP of what is spliced and that of what
// is not, %[4]s is their interface, %[5]q a log, %[6]q the VIP whose clients' own words stay.
const editing = `log: {access: [{to: file, path: %[5]q}]}
vips:
  - {address: %[2]q, interfaces: [%[4]s], routes: &routes [
      {match: {host: r.test, path_prefix: /old/}, rewrite: {host: "origin.test:8080", path_prefix: /who/}, pool: replacing},
      {match: {host: s.test, path_prefix: /much/longer/old/}, rewrite: {path_prefix: /who/}, pool: replacing},
      {pool: replacing}]}
  - {address: %[3]q, interfaces: [%[4]s], routes: *routes}
  - {address: %[6]q, interfaces: [%[4]s], routes: [{pool: appending}]}
pools:
  replacing: {client_address: x-forwarded-for, add_fields: [x-request-id], surrogates: [{name: a, address: %[1]q}]}
  appending: {client_address: x-forwarded-for, client_address_mode: append, add_fields: [x-request-id], surrogates: [{name: b, address: %[1]q}]}
`

// edited is a request and what the surrogate gets of it: the field without the client's own address, host and target.
type edited struct {
	host, path, lines, body string
	said, host2, path2      string // "": as the client's
}

func (e *edited) request(n int) string {
	method := "GET"
	if e.body != "" {
		method = "POST"
	}
	return fmt.Sprintf("%s %s?n=%d HTTP/1.1\r\nHost: %s\r\n%s\r\n%s", method, e.path, n, e.host, e.lines, e.body)
}

// answer is what nginx must answer, with the request's id apart.
func (e *edited) answer(n int, client netip.Addr) string {
	host, path := e.host, e.path
	if e.host2 != "" {
		host = e.host2
	}
	if e.path2 != "" {
		path = e.path2
	}
	return fmt.Sprintf("%s%s|%s|%s?n=%d", e.said, client, host, path, n)
}

const posted = "Content-Length: 5\r\n"

var (
	cookie = func(n int) string { return "Cookie: " + strings.Repeat("c", n) + "\r\n" }
	// splicedEdits are edited in the kernel.
	splicedEdits = []edited{
		{host: "a.test", path: "/who"},
		{host: "a.test", path: "/who/x", lines: posted, body: "hello"},
		{host: "r.test", path: "/old/x", host2: "origin.test:8080", path2: "/who/x"},
		{host: "s.test", path: "/much/longer/old/", path2: "/who/", lines: "Accept: */*\r\n"}, // shorter than the client's
		{host: "a.test", path: "/who", lines: cookie(1250)},                                   // that leaves no room in a segment
		{host: "r.test", path: "/old/", lines: cookie(1150) + posted, body: "hello", host2: "origin.test:8080", path2: "/who/"},
	}
	// appendedEdits are, too, behind the client's own words.
	appendedEdits = []edited{
		{host: "a.test", path: "/who"},
		{host: "a.test", path: "/who", lines: "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 7.7.7.7\r\n", said: "6.6.6.6, 7.7.7.7, "},
	}
	// proxiedEdits are not.
	proxiedEdits = []edited{
		{host: "a.test", path: "/who", lines: "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nx-request-id: mine\r\n"},
		{host: "a.test", path: "/who", lines: "Transfer-Encoding: chunked\r\n", body: "5\r\nhello\r\n0\r\n\r\n"},
		{host: "a.test", path: "/who", lines: "Connection: x-forwarded-for, keep-alive\r\n"},
		{host: "r.test", path: "/old/x", lines: "X-Forwarded-For: 6.6.6.6\r\n", host2: "origin.test:8080", path2: "/who/x"},
		{host: "a.test", path: "/who", lines: cookie(2500)},
	}
)

// TestEditedHeads: nginx gets the fields and the rewritten target of each request, once and right, whoever edits its head: on kept connections
// and legs that are used again, with and without offloads, and over lossy links.
func TestEditedHeads(t *testing.T) {
	t.Parallel() // judges by results
	for _, link := range []struct {
		name     string
		options  lab.LinkOptions
		sessions int
	}{
		{"offloads", lab.LinkOptions{}, 60},
		{"no offloads", lab.LinkOptions{NoOffloads: true}, 30},
		{"loss", lab.LinkOptions{AtoB: lossy, BtoA: lossy, NoOffloads: true}, 12},
	} {
		t.Run(link.name, func(t *testing.T) {
			t.Run("IPv4", func(t *testing.T) {
				editHeads(t, link.options, link.sessions, false, "10.9.9.9:80", "10.9.9.10:80", "10.9.9.11:80")
			})
			t.Run("IPv6", func(t *testing.T) {
				editHeads(t, link.options, link.sessions/2, true, "[fd09::9]:80", "[fd09::a]:80", "[fd09::b]:80")
			})
		})
	}
}

// ids are the requests' ids as the surrogates have got them, by number, and the numbers by id.
type ids struct {
	mu       sync.Mutex
	got, had map[string]string
}

func editHeads(t *testing.T, o lab.LinkOptions, sessions int, v6 bool, spliced, proxied, appended string) {
	n := &network{Lab: lab.New(t), t: t}
	n.router, n.client = n.Host("router"), n.Host("client")
	n.router.Forward()
	n.front = n.Link(clientEnd(n.client, 0), routerEnd(n.router, 0), o).B
	toRouter(n.client, 0)
	s := n.site("s", o)
	peers.Nginx(s.Host, peers.NginxOptions{Requests: 100_000, Server: told})
	log := filepath.Join(t.TempDir(), "access.log")
	r := n.start(fmt.Sprintf(editing, s.address(v6), spliced, proxied, n.front.Name, log, appended))
	all := ids{got: make(map[string]string), had: make(map[string]string)}
	const clients, requests = 6, 12
	var work errgroup.Group
	for c := range clients {
		work.Go(func() error {
			for i := range sessions {
				vip, kinds := spliced, splicedEdits
				switch i % 6 {
				case 4:
					vip, kinds = appended, appendedEdits
				case 5:
					vip, kinds = proxied, proxiedEdits
				}
				if err := n.askEdited(vip, kinds, (c*sessions+i)*requests, requests, &all); err != nil {
					return fmt.Errorf("%s, session %d of client %d: %w", vip, i, c, err)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(all.got) != clients*sessions*requests {
		t.Errorf("%d answers, want %d", len(all.got), clients*sessions*requests)
	}
	if o.AtoB == (emulator.Shape{}) {
		if left := r.fallbacks(spliced) + r.fallbacks(appended); left != 0 {
			t.Errorf("%v requests passed the proxy that should have been edited in the kernel", left)
		}
	}
	all.compare(t, log, v6)
}

// askEdited makes requests from the first on, over one connection.
func (n *network) askEdited(vip string, kinds []edited, first, requests int, all *ids) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := n.client.Dial(ctx, "tcp", vip)
	if err != nil {
		return err
	}
	defer c.Close()
	if at, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(at)
	}
	client := netip.MustParseAddrPort(c.LocalAddr().String()).Addr().Unmap()
	r := bufio.NewReader(c)
	for i := first; i < first+requests; i++ {
		e := &kinds[i%len(kinds)]
		if _, err := io.WriteString(c, e.request(i)); err != nil {
			return err
		}
		got, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("%q: %w", e.request(i), err)
		}
		body, err := io.ReadAll(got.Body)
		if err != nil {
			return err
		}
		said := strings.Split(string(body), "|")
		if len(said) != 4 || said[0]+"|"+said[2]+"|"+said[3] != e.answer(i, client) {
			return fmt.Errorf("%q: the surrogate has got %q, want %q", e.request(i), body, e.answer(i, client))
		}
		if err := all.add(fmt.Sprint(i), said[1]); err != nil {
			return err
		}
	}
	return nil
}

func (a *ids) add(number, id string) error {
	if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return fmt.Errorf("request %s: %q is not an id", number, id)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if other, twice := a.had[id]; twice {
		return fmt.Errorf("requests %s and %s have the same id %s", number, other, id)
	}
	a.got[number], a.had[id] = id, number
	return nil
}

// compare: the router's log has what clients have asked for, and the ids that their surrogates have got.
func (a *ids) compare(t *testing.T, log string, v6 bool) {
	client := map[bool]string{false: "10.1.0.2", true: "fd01::2"}[v6]
	wrong := 0
	for _, e := range logEntries(t, log, len(a.got)) {
		path, number, _ := strings.Cut(e.Path, "?n=")
		asked := strings.HasPrefix(path, "/who") || strings.HasPrefix(path, "/old/") || strings.HasPrefix(path, "/much/longer/old/")
		if e.Request_id != a.got[number] || !asked || e.Host == "origin.test" || e.Client_address != client || e.Status != 200 {
			if wrong++; wrong < 5 {
				t.Errorf("logged %+v, the surrogate has id %s", e, a.got[number])
			}
		}
	}
}

// TestRewriteReload: a kept connection's next request is rewritten as a reload says.
func TestRewriteReload(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	s := n.site("s", lab.LinkOptions{})
	peers.Nginx(s.Host, peers.NginxOptions{Server: told})
	config := func(prefix string) string {
		return fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{match: {path_prefix: /a}, rewrite: {path_prefix: %s}, pool: s}]}]\npools: {s: {surrogates: [{name: s, address: %q}]}}\n",
			vip4, n.front.Name, prefix, s.v4)
	}
	r := n.start(config("/who/1"))
	c, err := n.client.Dial(t.Context(), "tcp", vip4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	for _, want := range []string{"/who/1", "/who/other/2", "/who/3"} {
		r.hangup(t, config(want))
		io.WriteString(c, "GET /a/x HTTP/1.1\r\nHost: h\r\n\r\n")
		got, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(got.Body); !strings.HasSuffix(string(body), "|h|"+want+"/x") {
			t.Errorf("the surrogate has got %q, want %s/x", body, want)
		}
	}
	if left := r.fallbacks(vip4); left != 0 {
		t.Errorf("%v requests were proxied", left)
	}
}
