package test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
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

// marks is the format of nginx's log: the fields that tell it the client, for each request.
const marks = `log_format marks escape=none '$arg_n|$http_x_forwarded_for|$http_forwarded|$http_x_real_ip|$http_x_client|$http_x_forwarded_proto|$http_x_request_id|$connection';`

// marked is the configuration: %[1]q and %[2]q are VIPs, %[3]s their interface, %[4]q the surrogate, %[5]q the router's log.
const marked = `log: {access: [{to: file, path: %[5]q}]}
vips:
  - {address: %[1]q, interfaces: [%[3]s], routes: [{match: {host: for.test}, pool: for}, {match: {host: forwarded.test}, pool: forwarded}]}
  - {address: %[2]q, interfaces: [%[3]s], routes: [{match: {host: real.test}, pool: real}, {match: {host: client.test}, pool: client}]}
pools:
  for: {client_address: x-forwarded-for, add_fields: [x-request-id, x-forwarded-proto], surrogates: [{name: a, address: %[4]q}]}
  forwarded: {client_address: forwarded, add_fields: [x-request-id], surrogates: [{name: b, address: %[4]q}]}
  real: {client_address: x-real-ip, client_address_mode: append, add_fields: [x-request-id], surrogates: [{name: c, address: %[4]q}]}
  client: {client_address: X-Client, add_fields: [x-request-id], surrogates: [{name: d, address: %[4]q}]}
`

// columns are those of the log's fields that have the address, by pool.
var columns = map[string]int{"for": 1, "forwarded": 2, "real": 3, "client": 4}

// clientAddresses are those of the client's host, from which its connections start.
const clientAddresses = 6

// mark is a request and what nginx must be told with it.
type mark struct {
	pool    string
	client  netip.Addr
	proxied bool
}

// marking is a run of one configuration.
type marking struct {
	*network
	t       *testing.T
	r       *running
	vips    [2]string
	own     string // nginx's log
	log     string // the router's
	v6      bool
	mu      sync.Mutex
	sent    []mark
	proxied int // connections' requests that the proxy has to pass on
}

// TestFieldsInLogs: nginx logs each request once, with the address of its client and an id that the router logs, too: of clients from several
// addresses that share legs and change pools, over IPv4 and IPv6, with and without offloads, and with loss; also what clients pipeline, and
// what they say themselves.
func TestFieldsInLogs(t *testing.T) {
	t.Parallel() // judges by results
	for _, link := range []struct {
		name     string
		options  lab.LinkOptions
		sessions int // of each address
	}{
		{"offloads", lab.LinkOptions{}, 8},
		{"no offloads", lab.LinkOptions{NoOffloads: true}, 8},
		{"loss", lab.LinkOptions{AtoB: lossy, BtoA: lossy, NoOffloads: true}, 2},
	} {
		for _, family := range []string{"IPv4", "IPv6"} {
			t.Run(link.name+"/"+family, func(t *testing.T) {
				m := newMarking(t, link.options, family == "IPv6")
				m.sessions(link.sessions)
				m.pipelined()
				m.judge(link.options.AtoB == (emulator.Shape{}))
			})
		}
	}
}

func newMarking(t *testing.T, o lab.LinkOptions, v6 bool) *marking {
	n := &network{Lab: lab.New(t), t: t}
	n.router, n.client = n.Host("router"), n.Host("client")
	n.router.Forward()
	end := lab.End{Host: n.client}
	for i := range clientAddresses {
		end.Addrs = append(end.Addrs, fmt.Sprintf("10.1.0.%d/24", 2+i), fmt.Sprintf("fd01::%x/64", 2+i))
	}
	n.front = n.Link(end, routerEnd(n.router, 0), o).B
	toRouter(n.client, 0)
	s := n.site("s", o)
	m := &marking{network: n, t: t, v6: v6, vips: [2]string{"10.9.9.9:80", "10.9.9.10:80"}, own: filepath.Join(n.Dir(), "marks.log"), log: filepath.Join(t.TempDir(), "access.log")}
	if v6 {
		m.vips = [2]string{"[fd09::9]:80", "[fd09::a]:80"}
	}
	peers.Nginx(s.Host, peers.NginxOptions{Requests: 1_000_000, HTTP: marks, Server: "location /m { access_log " + m.own + " marks; return 200 ok; }"})
	m.r = n.start(fmt.Sprintf(marked, m.vips[0], m.vips[1], n.front.Name, s.address(v6), m.log))
	return m
}

// number is a new request's.
func (m *marking) number(k mark) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, k)
	if k.proxied {
		m.proxied++
	}
	return len(m.sent) - 1
}

// kinds are requests by what is in them: a method, further lines, and a body.
var kinds = []func(r *rand.Rand) (method, lines, body string){
	func(*rand.Rand) (string, string, string) { return "GET", "", "" },
	func(*rand.Rand) (string, string, string) { return "HEAD", "", "" },
	func(*rand.Rand) (string, string, string) { return "OPTIONS", "", "" }, // user space decides
	func(*rand.Rand) (string, string, string) { return "POST", posted, "hello" },
	func(r *rand.Rand) (string, string, string) { return "GET", cookie(900 + r.IntN(450)), "" }, // that fills a segment, about
	func(r *rand.Rand) (string, string, string) { return "PUT", sized(1200 + r.IntN(400)), "" },
	func(r *rand.Rand) (string, string, string) { return "POST", sized(20000), "" }, // more than a segment at once
	// From here on the proxy sends them.
	func(*rand.Rand) (string, string, string) {
		return "GET", "X-Forwarded-For: 6.6.6.6\r\nX_FORWARDED_PROTO: https\r\nforwarded: for=6.6.6.6\r\nx_client: 6.6.6.6\r\nx-request-id: 6\r\n", ""
	},
	func(*rand.Rand) (string, string, string) {
		return "POST", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"
	},
	func(*rand.Rand) (string, string, string) {
		return "GET", "Connection: x-forwarded-for, x-client, x-real-ip, forwarded, keep-alive\r\n", ""
	},
	func(*rand.Rand) (string, string, string) { return "GET", cookie(2500), "" },
}

const splicedKinds = 7

// sized are the line of a body of so many bytes, and the body in place of further lines.
func sized(n int) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n, strings.Repeat("b", n))
}

// request is one of the kind, with its number.
func request(n int, pool, method, lines, body string) string {
	head := fmt.Sprintf("%s /m?n=%d HTTP/1.1\r\nHost: %s.test\r\n%s", method, n, pool, lines)
	if strings.Contains(lines, "\r\n\r\n") { // with its body
		return head
	}
	return head + "\r\n" + body
}

// dial connects from one of the client's addresses.
func (m *marking) dial(ctx context.Context, address int, vip string) (net.Conn, netip.Addr, error) {
	from := netip.MustParseAddr(fmt.Sprintf("10.1.0.%d", 2+address))
	if m.v6 {
		from = netip.MustParseAddr(fmt.Sprintf("fd01::%x", 2+address))
	}
	c, err := m.client.DialFrom(ctx, "tcp", netip.AddrPortFrom(from, 0).String(), vip)
	return c, from, err
}

// sessions are so many kept connections from each address.
func (m *marking) sessions(count int) {
	var work errgroup.Group
	for address := range clientAddresses {
		work.Go(func() error {
			r := rand.New(rand.NewPCG(uint64(address), 1))
			for i := range count {
				if err := m.session(r, address, i); err != nil {
					return fmt.Errorf("session %d from address %d: %w", i, address, err)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		m.t.Fatal(err)
	}
}

// session makes requests over a connection, to alternating pools. The last of some are the proxy's.
func (m *marking) session(r *rand.Rand, address, i int) error {
	const requests, last = 10, 2
	ctx, cancel := context.WithTimeout(m.t.Context(), answersWithin)
	defer cancel()
	at := r.IntN(2)
	c, from, err := m.dial(ctx, address, m.vips[at])
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answersWithin))
	answers := bufio.NewReader(c)
	pools := [][]string{{"for", "forwarded"}, {"real", "client"}}[at]
	proxied := false
	for j := range requests {
		kind := r.IntN(splicedKinds)
		if i%2 == 1 && j >= requests-last {
			kind = splicedKinds + r.IntN(len(kinds)-splicedKinds)
		}
		proxied = proxied || kind >= splicedKinds // and then all that follow
		pool := pools[r.IntN(2)]
		method, lines, body := kinds[kind](r)
		text := request(m.number(mark{pool, from, proxied}), pool, method, lines, body)
		if _, err := io.WriteString(c, text); err != nil {
			return err
		}
		if err := answered(answers, method); err != nil {
			return fmt.Errorf("%.200q: %w", text, err)
		}
	}
	return nil
}

func answered(r *bufio.Reader, method string) error {
	got, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return err
	}
	body, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s of %s: %s", got.Status, got.Header.Get("Server"), body)
	}
	return err
}

// pipelined sends requests without waiting for answers, in packets of several sizes, one of them with a field of the client's own.
func (m *marking) pipelined() {
	const depth = 20
	var work errgroup.Group
	for i, size := range []int{1 << 20, 700, 97} { // bytes at once
		work.Go(func() error {
			ctx, cancel := context.WithTimeout(m.t.Context(), answersWithin)
			defer cancel()
			c, from, err := m.dial(ctx, i, m.vips[0])
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(answersWithin))
			var all strings.Builder
			for j := range depth {
				kind, pool := 0, []string{"for", "forwarded"}[j%2]
				if j == depth/2 {
					kind = splicedKinds
				}
				method, lines, body := kinds[kind](nil)
				all.WriteString(request(m.number(mark{pool, from, false}), pool, method, lines, body))
			}
			for rest := all.String(); rest != ""; rest = rest[min(size, len(rest)):] {
				if _, err := io.WriteString(c, rest[:min(size, len(rest))]); err != nil {
					return err
				}
			}
			answers := bufio.NewReader(c)
			for j := range depth {
				if err := answered(answers, http.MethodGet); err != nil {
					return fmt.Errorf("pipelined by %d bytes, answer %d: %w", size, j, err)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		m.t.Error(err)
	}
}

// judge compares the logs with what was sent. clean: over links that lose nothing the kernel splices all that it can.
func (m *marking) judge(clean bool) {
	ids := m.judgeOwn(clean)
	wrong := 0
	for _, e := range logEntries(m.t, m.log, len(m.sent)) {
		_, n, _ := strings.Cut(e.Path, "?n=")
		if id := ids[n]; (e.Request_id != id || id == "") && wrong < 5 {
			wrong++
			m.t.Errorf("request %s (%s): the router logs id %s, and nginx was told %s", n, e.Served, e.Request_id, id)
		}
	}
	if !clean {
		return
	}
	const pipelined = 3 * 20 // which the proxy may or may not have
	if got := int(m.r.fallbacks(m.vips[0]) + m.r.fallbacks(m.vips[1])); got < m.proxied || got > m.proxied+pipelined {
		m.t.Errorf("%d requests were proxied, want %d and up to %d that were pipelined", got, m.proxied, pipelined)
	}
}

// judgeOwn returns the ids that nginx has logged, by number.
func (m *marking) judgeOwn(clean bool) map[string]string {
	var text []byte
	lab.Eventually(m.t, answersWithin, func() (err error) { // it logs after it has answered
		if text, err = os.ReadFile(m.own); err == nil && strings.Count(string(text), "\n") < len(m.sent) {
			err = fmt.Errorf("nginx logs %d requests, of %d", strings.Count(string(text), "\n"), len(m.sent))
		}
		return err
	})
	ids, seen := make(map[string]string), make(map[string]bool)
	clients := make(map[string]map[string]bool) // by connection
	wrong := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		var n int
		if _, err := fmt.Sscan(f[0], &n); err != nil || n >= len(m.sent) || len(f) != 8 {
			m.t.Errorf("nginx logs %q", line)
			continue
		}
		k := m.sent[n]
		want := k.client.String()
		if k.pool == "forwarded" && m.v6 {
			want = `for="[` + want + `]";proto=http`
		} else if k.pool == "forwarded" {
			want = "for=" + want + ";proto=http"
		}
		id := f[6]
		if (f[columns[k.pool]] != want || len(id) != 32 || seen[id] || ids[f[0]] != "" || k.pool == "for" && f[5] != "http") && wrong < 5 {
			wrong++
			m.t.Errorf("request %d of %+v: nginx logs %q, want %s, once, with an id of its own", n, k, line, want)
		}
		ids[f[0]], seen[id] = id, true
		if clients[f[7]] == nil {
			clients[f[7]] = make(map[string]bool)
		}
		clients[f[7]][k.client.String()] = true
	}
	if len(ids) != len(m.sent) {
		m.t.Errorf("nginx logs %d requests, of %d", len(ids), len(m.sent))
	}
	most := 0
	for _, of := range clients {
		most = max(most, len(of))
	}
	if clean && most < 2 {
		m.t.Errorf("no leg has served two clients")
	}
	return ids
}
