package test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
)

// Possible results of a request. The kernel checks what affects the message's end or the route; other oddities of a head go to
// the surrogate unchanged, while user space, which handles split heads, refuses them.
type fate int

const (
	refused fate = iota // by the router: no byte reaches a surrogate
	passed              // to a surrogate, unchanged
	either
)

// badRequest is a message of the table. ID is replaced by a random id.
type badRequest struct {
	name, text string
	status     int // of the response
	fate       fate
	second     string // a separate message right after it
	tail       string // no message, right after it
}

const (
	getID = "GET /ID HTTP/1.1\r\n"
	hostA = "Host: a.test\r\n"
)

// badRequests are requests that the router must not misinterpret.
func badRequests() []badRequest {
	with := func(fields string) string { return "POST /ID HTTP/1.1\r\n" + hostA + fields + "\r\n" }
	table := []badRequest{
		// Versions and other protocols.
		{"HTTP/0.9", "GET /ID\r\n\r\n", 400, refused, "", ""},
		{"version 0.9", "GET /ID HTTP/0.9\r\n" + hostA + "\r\n", 505, refused, "", ""},
		{"version 1.2", "GET /ID HTTP/1.2\r\n" + hostA + "\r\n", 505, refused, "", ""},
		{"version 2.0", "GET /ID HTTP/2.0\r\n" + hostA + "\r\n", 505, refused, "", ""},
		{"version in lower case", "GET /ID http/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"version of two digits", "GET /ID HTTP/1.10\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 505, refused, "", ""},
		{"TLS", "\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + strings.Repeat("\x5a", 189), 400, refused, "", ""},
		{"CONNECT", "CONNECT a.test:80 HTTP/1.1\r\n" + hostA + "\r\n", 501, refused, "", ""},
		{"upgrade", getID + hostA + "Connection: Upgrade\r\nUpgrade: echo\r\n\r\n", 200, passed, "", ""},
		{"upgrade to HTTP/2", getID + hostA + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200, passed, "", ""},

		// The end of the message, given twice or not at all.
		{"two lengths", with("Content-Length: 4\r\nContent-Length: 4\r\n") + "abcd", 400, refused, "", ""},
		{"two lengths that differ", with("Content-Length: 0\r\nContent-Length: 4\r\n") + "abcd", 400, refused, "", ""},
		{"list of lengths", with("Content-Length: 4, 4\r\n") + "abcd", 400, refused, "", ""},
		{"length with a sign", with("Content-Length: +4\r\n") + "abcd", 400, refused, "", ""},
		{"negative length", with("Content-Length: -4\r\n") + "abcd", 400, refused, "", ""},
		{"hexadecimal length", with("Content-Length: 0x4\r\n") + "abcd", 400, refused, "", ""},
		{"no length", with("Content-Length:\r\n"), 400, refused, "", ""},
		{"length beyond 63 bits", with("Content-Length: 9223372036854775808\r\n"), 400, refused, "", ""},
		{"length with a blank inside", with("Content-Length: 4 4\r\n") + "abcd", 400, refused, "", ""},
		{"length, blank before the colon", with("Content-Length : 4\r\n") + "abcd", 400, refused, "", ""},
		{"length, tab before the colon", with("Content-Length\t: 4\r\n") + "abcd", 400, refused, "", ""},
		{"length in zeros", with("Content-Length: 0000000000000000004 \r\n") + "abcd", 200, passed, "", ""},
		{"length and chunks", with("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400, refused, "", ""},
		{"chunks and length", with("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n") + "0\r\n\r\n", 400, refused, "", ""},
		{"chunks twice", with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400, refused, "", ""},
		{"chunks, not last", with("Transfer-Encoding: chunked, identity\r\n") + "0\r\n\r\n", 400, refused, "", ""},
		{"another coding", with("Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n", 501, refused, "", ""},
		{"coding that only ends so", with("Transfer-Encoding: xchunked\r\n") + "0\r\n\r\n", 501, refused, "", ""},
		{"coding, blank before the colon", with("Transfer-Encoding : chunked\r\n") + "0\r\n\r\n", 400, refused, "", ""},
		{"coding, control byte", with("Transfer-Encoding:\x0bchunked\r\n") + "0\r\n\r\n", 400, refused, "", ""},
		{"coding, folded", with("Transfer-Encoding:\r\n chunked\r\n") + "0\r\n\r\n", 400, refused, "", ""},
		{"coding in HTTP/1.0", "POST /ID HTTP/1.0\r\n" + hostA + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, refused, "", ""},
		{"trailer that frames", with("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n") + "0\r\n\r\n", 400, refused, "", ""},
		{"chunks, tab before", with("Transfer-Encoding:\tCHUNKED\r\n") + "4\r\nabcd\r\n0\r\n\r\n", 200, passed, "", ""},
		{"chunk of a size that wraps", with("Transfer-Encoding: chunked\r\n") + "10000000000000004\r\nabcd\r\n0\r\n\r\n", 400, either, "", ""},
		{"chunk of a negative size", with("Transfer-Encoding: chunked\r\n") + "-4\r\nabcd\r\n0\r\n\r\n", 400, either, "", ""},
		{"chunk longer than its size", with("Transfer-Encoding: chunked\r\n") + "2\r\nabcd\r\n0\r\n\r\n", 400, either, "", ""},

		// Bytes that parsers treat differently.
		{"bare CR in a value", getID + hostA + "X: a\rb\r\n\r\n", 400, refused, "", ""},
		{"bare CR in the line", "GET /ID\r HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"bare CR ends a header", getID + "X: a\rContent-Length: 4\r\n" + hostA + "\r\nabcd", 400, refused, "", ""},
		{"NUL in a value", getID + hostA + "X: a\x00b\r\n\r\n", 400, refused, "", ""},
		{"NUL in a name", getID + hostA + "X\x00: a\r\n\r\n", 400, refused, "", ""},
		{"NUL in the target", "GET /ID\x00 HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"LF alone", "GET /ID HTTP/1.1\nHost: a.test\n\n", 400, refused, "", ""},
		{"LF ends a header", getID + "X: a\n" + hostA + "\r\n", 400, refused, "", ""},
		{"LF ends the head", getID + hostA + "\n", 400, refused, "", ""},
		{"folded header", getID + hostA + "X: a\r\n b\r\n\r\n", 400, refused, "", ""},
		{"folded by a tab", getID + hostA + "X: a\r\n\tContent-Length: 4\r\n\r\nabcd", 400, refused, "", ""},
		{"folded first", getID + " X: a\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"two empty lines first", "\r\n\r\n" + getID + hostA + "\r\n", 400, refused, "", ""},
		{"empty line first", "\r\n" + getID + hostA + "\r\n", 200, passed, "", ""},
		{"blank before a colon", getID + hostA + "X : a\r\n\r\n", 400, refused, "", ""},
		{"no colon", getID + hostA + "X\r\n\r\n", 400, refused, "", ""},
		{"no name", getID + hostA + ": a\r\n\r\n", 400, refused, "", ""},
		{"name that is no token", getID + hostA + "X(): a\r\n\r\n", 400, refused, "", ""},
		{"DEL in a value", getID + hostA + "X: \x7f\r\n\r\n", 400, refused, "", ""},

		// Targets and hosts.
		{"no Host", getID + "\r\n", 400, refused, "", ""},
		{"two Hosts", getID + hostA + hostA + "\r\n", 400, refused, "", ""},
		{"two Hosts that differ", getID + hostA + "Host: b.test\r\n\r\n", 400, refused, "", ""},
		{"Host with a blank", getID + "Host: a.test b.test\r\n\r\n", 400, refused, "", ""},
		{"Host, blank before the colon", getID + "Host : b.test\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"Host that is a list", getID + "Host: a.test,b.test\r\n\r\n", 400, refused, "", ""},
		{"Host with a user", getID + "Host: a.test@b.test\r\n\r\n", 400, refused, "", ""},
		{"Host with a port and a user", getID + "Host: a.test:80@b.test\r\n\r\n", 400, refused, "", ""},
		{"Host with a path", getID + "Host: a.test/b.test\r\n\r\n", 400, refused, "", ""},
		{"Host with a dot at the end and a port", getID + "Host: A.test.:80\r\n\r\n", 200, passed, "", ""},
		{"Host in half a bracket", getID + "Host: [::1\r\n\r\n", 400, refused, "", ""},
		{"absolute target", "GET http://a.test/ID HTTP/1.1\r\n" + hostA + "\r\n", 200, passed, "", ""},
		{"absolute target of another host", "GET http://a.test/ID HTTP/1.1\r\nHost: b.test\r\n\r\n", 200, passed, "", ""},
		{"absolute target with a user", "GET http://x@a.test/ID HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"absolute target without a host", "GET http:///ID HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"target of another scheme", "GET ftp://a.test/ID HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"target without a slash", "GET ID HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"asterisk", "GET * HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"asterisk of OPTIONS", "OPTIONS * HTTP/1.1\r\nX: ID\r\n" + hostA + "\r\n", 200, passed, "", ""},
		{"blank in the target", "GET /ID x HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"two blanks", "GET  /ID HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"tab for a blank", "GET\t/ID HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"blank at the end", "GET /ID HTTP/1.1 \r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"broken escape", "GET /ID%zz HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"fragment", "GET /ID#x HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"DEL in the target", "GET /ID\x7f HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"two versions", "GET /ID HTTP/1.0 HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},

		// Methods.
		{"unknown method", "FROB /ID HTTP/1.1\r\n" + hostA + "\r\n", 200, passed, "", ""},
		{"method in lower case", "get /ID HTTP/1.1\r\n" + hostA + "\r\n", 200, passed, "", ""},
		{"method that is no token", "G@T /ID HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"no method", " /ID HTTP/1.1\r\n" + hostA + "\r\n", 400, refused, "", ""},
		{"endless method", strings.Repeat("M", 33) + " /ID HTTP/1.1\r\n" + hostA + "\r\n", 501, refused, "", ""},

		// Sizes.
		{"long line", "GET /ID" + strings.Repeat("x", 9000) + " HTTP/1.1\r\n" + hostA + "\r\n", 414, refused, "", ""},
		{"many headers", getID + hostA + strings.Repeat("X-Header: a value of some length\r\n", 101) + "\r\n", 431, refused, "", ""},
		{"many short headers", getID + hostA + strings.Repeat("X: a\r\n", 150) + "\r\n", 431, refused, "", ""},

		// What follows.
		{"expects 100", with("Content-Length: 4\r\nExpect: 100-continue\r\n") + "abcd", 200, passed, "", ""},
		{"expects something else", with("Content-Length: 4\r\nExpect: 200-ok\r\n") + "abcd", 417, refused, "", ""},
		{"junk behind", getID + hostA + "\r\n", 200, passed, "", "junk\r\n\r\n"},
		{"junk behind a body", with("Content-Length: 4\r\n") + "abcd", 200, passed, "", "\x00\x01\r\n\r\n"},
		{"a request of no length hides another", with(""), 200, passed, "DELETE /ID HTTP/1.1\r\nHost: b.test\r\n\r\n", ""},
		{"a body hides another", with("Content-Length: 4\r\n") + "abcd", 200, passed, "GET /ID HTTP/1.1\r\nHost: b.test\r\n\r\n", ""},
		{"chunks hide another", with("Transfer-Encoding: chunked\r\n") + "4\r\nabcd\r\n0\r\n\r\n", 200, passed, "GET /ID HTTP/1.1\r\nHost: b.test\r\n\r\n", ""},
		{"a GET with a body", getID + hostA + "Content-Length: 4\r\n\r\nGET ", 200, passed, "GET /ID HTTP/1.1\r\nHost: b.test\r\n\r\n", ""},
	}
	for i := range table {
		if !strings.Contains(table[i].text, "ID") && table[i].fate != refused {
			panic(table[i].name + " has no id")
		}
	}
	return table
}

// TestBadRequests sends each request of the table in one piece, byte by byte, and in pieces, as the first of its connection and
// after a good one. Each is refused as the table says, or reaches one surrogate as sent; the next request on any server leg is
// another client's, complete. HTTP/2 and TLS are recognized by their first bytes.
func TestBadRequests(t *testing.T) {
	n := newNetwork(t)
	l := &ledger{t: t}
	var pools strings.Builder
	for _, name := range []string{"a", "b"} {
		s := n.site(name, lab.LinkOptions{})
		l.recorder(t, s.Host, name)
		fmt.Fprintf(&pools, "\n  %[1]s: {legs: {min: 2, max: 200}, surrogates: [{name: %[1]s, address: %[2]q}]}", name, s.v4)
	}
	n.start(fmt.Sprintf("timeouts: {handshake: 60s, closing: 2s}\nvips:\n  - address: %q\n    interfaces: [%s]\n    pipelining: pass\n    routes: [{match: {host: b.test}, pool: b}, {pool: a}]\npools:%s\n",
		vip4, n.front.Name, &pools))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	var work errgroup.Group
	work.SetLimit(8)
	tries := 0
	for _, q := range badRequests() {
		for _, behind := range []bool{false, true} {
			for _, cuts := range cutsOf(len(q.text+q.second+q.tail), random) {
				tries++
				work.Go(func() error {
					v := &badVisit{badRequest: q, n: n, l: l, behind: behind, cuts: cuts}
					if err := v.run(t); err != nil {
						t.Errorf("%s, behind a good one: %v, cut at %v: %v", q.name, behind, cuts[:min(len(cuts), 20)], err)
					}
					return nil
				})
			}
		}
	}
	_ = work.Wait()
	t.Logf("%d requests", tries)
	l.audit()
}

// cutsOf are positions at which to split a request of so many bytes: none, everywhere, and some at random. A client sends at most
// ten segments before an ACK, so a long head must not be in more.
func cutsOf(size int, random *rand.Rand) [][]int {
	all := make([]int, size-1)
	if size > 1000 {
		all = all[:2]
	}
	for i := range all {
		all[i] = i + 1
	}
	out := [][]int{nil, all}
	for range 4 {
		out = append(out, []int{1 + random.IntN(size-1)})
	}
	for range 2 {
		if a, b := 1+random.IntN(size-1), 1+random.IntN(size-1); a != b {
			out = append(out, []int{min(a, b), max(a, b)})
		}
	}
	return out
}

// badVisit is a connection with a request of the table, followed by another client.
type badVisit struct {
	badRequest
	n      *network
	l      *ledger
	behind bool // a good request on the same connection
	cuts   []int
}

func (v *badVisit) run(t *testing.T) error {
	c, err := dial(t.Context(), v.n.client, vip4)
	if err != nil {
		return err
	}
	defer c.Close()
	if v.behind {
		if err := v.good(c); err != nil {
			return fmt.Errorf("request before it: %w", err)
		}
	}
	write := func(text string, m message) string {
		m.id = v.l.draw()
		m.text = strings.ReplaceAll(text, "ID", m.id)
		if m.text != text {
			v.l.enter(m)
		}
		return m.text
	}
	bytes := write(v.text, message{tail: v.tail, must: v.fate == passed, never: v.fate == refused, partial: v.fate == either})
	if v.second != "" {
		bytes += write(v.second, message{must: true})
	}
	bytes += v.tail
	at := 0
	for _, cut := range append(v.cuts[:len(v.cuts):len(v.cuts)], len(bytes)) {
		_, _ = io.WriteString(c, bytes[at:cut]) // the response may have arrived already, followed by the close
		at = cut
	}
	if err := v.answers(c); err != nil {
		return err
	}
	c.Close()
	next, err := dial(t.Context(), v.n.client, vip4)
	if err != nil {
		return err
	}
	defer next.Close()
	if err := v.good(next); err != nil {
		return fmt.Errorf("the next client: %w", err)
	}
	return nil
}

// good makes a request that is answered with its target.
func (v *badVisit) good(c *connection) error {
	m := message{id: v.l.draw(), must: true}
	m.text = "GET /" + m.id + " HTTP/1.1\r\n" + hostA + "\r\n"
	v.l.enter(m)
	got, err := c.ask("GET", m.text)
	if err == nil && (got.StatusCode != http.StatusOK || got.surrogate != "a" || got.body != "/"+m.id) {
		err = fmt.Errorf("%s from %q: %.100q, want /%s", got.Status, got.surrogate, got.body, m.id)
	}
	return err
}

// final reads a response that is not 1xx.
func (c *connection) final() (answer, error) {
	for {
		if got, err := c.read("GET"); err != nil || got.StatusCode >= 200 {
			return got, err
		}
	}
}

// answers reads what the table says.
func (v *badVisit) answers(c *connection) error {
	got, err := c.final()
	if err != nil {
		return err
	}
	by := got.surrogate
	switch {
	case by == "" && v.fate != passed && got.StatusCode == v.status && got.Header.Get("Server") == "baton":
		return c.ends()
	case by == "a" && v.fate == passed && got.StatusCode == v.status:
	case by == "a" && v.fate == either && got.StatusCode < 500:
		return nil
	default:
		return fmt.Errorf("%s from %q, want %d: %.100q", got.Status, by, v.status, got.body)
	}
	if v.second != "" {
		got, err := c.final()
		if err != nil {
			return fmt.Errorf("second answer: %w", err)
		}
		if got.StatusCode != http.StatusOK || !messageID.MatchString(got.body) {
			return fmt.Errorf("second answer: %s from %q: %.100q", got.Status, got.surrogate, got.body)
		}
	}
	if v.tail != "" {
		if got, err := c.final(); err != nil || got.StatusCode != http.StatusBadRequest {
			return fmt.Errorf("answer to what is behind it: %+v %w", got.Response, err)
		}
		return c.ends()
	}
	return nil
}
