package test

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

// logEntry is what these tests look at in a line of JSON.
type logEntry struct {
	Client_address   string
	Protocol         string
	Host             string
	Method           string
	Path             string
	Http_version     string
	Status           int
	Surrogate        string
	Pool             string
	Bytes_received   int
	Bytes_sent       int
	Bytes_of_session bool
	Served, End      string
	User_agent       string
	Request_id       string
	Duration_seconds float64

	Client_retransmissions, Surrogate_retransmissions int
}

// logEntries waits for so many lines in a log, and for no more.
func logEntries(t *testing.T, file string, count int) (all []logEntry) {
	t.Helper()
	lab.Eventually(t, answersWithin, func() error {
		text, err := os.ReadFile(file)
		if got := strings.Count(string(text), "\n"); err != nil || got < count {
			return fmt.Errorf("%d lines in %s, want %d: %v", got, file, count, err)
		}
		return nil
	})
	time.Sleep(time.Second) // a line too many would be as late as that
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e logEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	if len(all) != count {
		t.Errorf("%d lines in %s, want %d", len(all), file, count)
	}
	return all
}

// loggingNginx serves the site with a log of its own, whose lines have what both logs tell of a request.
func loggingNginx(s *site) (log string) {
	log = filepath.Join(s.Lab().Dir(), s.name+".own.log")
	peers.Nginx(s.Host, peers.NginxOptions{
		Requests: 1_000_000,
		HTTP:     "log_format own '$request_method|$request_uri|$server_protocol|$status|$bytes_sent|$request_length|$http_host|$http_user_agent';",
		Server: "access_log " + log + " own;\nlocation = /moved { return 302 /; }\nlocation = /empty { return 204; }\n" +
			"location = /chunks { gzip on; gzip_types *; gzip_min_length 1; try_files /1m =404; }",
	})
	return log
}

const mixedBody = "0123456789"

// mixed is the nth of a mix of requests: in the kernel's and in user space's hands, with bodies and without, of all kinds of responses.
func mixed(n int) (method, request string) {
	host := []string{"a.test", "B.test:80", "c.test"}[n%3]
	method, path, more, body := "GET", fmt.Sprintf("/%d", []int{0, 128, 16}[n%3]), "", ""
	if n%3 == 2 {
		path = "/16k"
	}
	switch n % 13 {
	case 1:
		method = "HEAD"
	case 2:
		method, more, body = "POST", fmt.Sprintf("Content-Length: %d\r\n", len(mixedBody)), mixedBody
	case 3:
		path = "/none/" + strings.Repeat("x", n%300)
	case 4:
		more = "X-A: 1\r\n" // user space decides
	case 5:
		path, more = "/128", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n"
	case 6:
		path = "/moved"
	case 7:
		path = "/empty"
	case 8:
		path, more = "/chunks", "Accept-Encoding: gzip\r\n"
	case 9:
		method = "OPTIONS" // user space decides
	case 10:
		path = "/1m"
	}
	return method, fmt.Sprintf("%s %s?n=%d HTTP/1.1\r\nHost: %s\r\nUser-Agent: mixed/%d\r\n%s\r\n%s", method, path, n, host, n, more, body)
}

// ownLines are the lines of nginx's logs by the request's number.
func ownLines(t *testing.T, logs map[string]string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for surrogate, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			f := strings.Split(line, "|")
			if f[0] == "POST" { // nginx does not count a body that it discards
				length, _ := strconv.Atoi(f[5])
				f[5] = strconv.Itoa(length + len(mixedBody))
				line = strings.Join(f, "|")
			}
			if _, n, ok := strings.Cut(f[1], "?n="); ok {
				if all[n] != "" {
					t.Errorf("request %s came twice: %s", n, line)
				}
				all[n] = line + "|" + surrogate
			}
		}
	}
	return all
}

// TestSplicedLog: the router's log of what it splices has the same lines as the logs of the servers that have answered.
func TestSplicedLog(t *testing.T) {
	t.Parallel() // judges by results
	t.Run("clean", func(t *testing.T) { compareLogs(t, lab.LinkOptions{}, 40) })
	t.Run("loss", func(t *testing.T) { compareLogs(t, lab.LinkOptions{AtoB: lossy, BtoA: lossy}, 8) })
}

func compareLogs(t *testing.T, o lab.LinkOptions, sessions int) {
	n := newNetwork(t)
	a, b := n.site("a", o), n.site("b", o)
	logs := map[string]string{"a": loggingNginx(a), "b": loggingNginx(b)}
	file := filepath.Join(t.TempDir(), "access.log")
	n.start(fmt.Sprintf(`log: {access: [{to: file, path: %[4]q}, {to: file, path: "%[4]s.combined", format: combined}]}
vips:
  - address: %[1]q
    interfaces: [%[2]s]
    routes:
      - {match: {headers: [{name: X-A, value: "1"}]}, pool: b}
      - {match: {host: b.test}, pool: b}
      - {match: {path_prefix: /16k}, pool: b}
      - {pool: a}
pools:
  a: {surrogates: [{name: a, address: %[3]q}], legs: {max: 256}}
  b: {surrogates: [{name: b, address: %[5]q}], legs: {max: 256}}
`, vip4, n.front.Name, a.v4, file, b.v4))

	const clients, requests = 6, 15
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for s := range sessions {
				if err := n.askMixed((c*sessions+s)*requests, requests); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	all := clients * sessions * requests
	got := make(map[string]string)
	spliced, again := 0, 0
	for _, e := range logEntries(t, file, all) {
		_, number, _ := strings.Cut(e.Path, "?n=")
		if got[number] != "" {
			t.Errorf("request %s twice: %+v", number, e)
		}
		again += e.Client_retransmissions + e.Surrogate_retransmissions
		if e.Served == "spliced" {
			spliced++
		} else { // bytes are those of the bodies
			t.Logf("%s: %+v", e.Served, e)
		}
		if e.End != "complete" || e.Protocol != "http" || e.Pool != e.Surrogate || e.Client_address != "10.1.0.2" || e.Bytes_of_session || e.Duration_seconds <= 0 {
			t.Errorf("%+v", e)
		}
		got[number] = fmt.Sprintf("%s|%s|HTTP/%s|%d|%d|%d|%s|%s|%s", e.Method, e.Path, e.Http_version, e.Status, e.Bytes_sent, e.Bytes_received, e.Host, e.User_agent, e.Surrogate)
	}
	if spliced != all {
		t.Errorf("%d of %d were spliced", spliced, all)
	}
	if lost := o.AtoB.Loss > 0; lost && again < all/100 {
		t.Errorf("%d retransmissions over a link that loses packets", again)
	}
	if diff := gocmp.Diff(ownLines(t, logs), got); diff != "" {
		t.Errorf("(-nginx +router):\n%s", diff)
	}
	combined, err := os.ReadFile(file + ".combined")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^10\.1\.0\.2 - - \[[^]]+\] "(\S+) (\S+) HTTP/1\.1" (\d+) (\d+|-) "-" "(mixed/\d+)"$`)
	found := make(map[string]string)
	for _, m := range line.FindAllStringSubmatch(string(combined), -1) {
		found[m[5]] = strings.Join(m[1:5], "|")
	}
	want := make(map[string]string)
	for number, own := range got {
		f := strings.Split(own, "|")
		want["mixed/"+number] = strings.Join([]string{f[0], f[1], f[3], f[4]}, "|")
	}
	if diff := gocmp.Diff(want, found); diff != "" {
		t.Errorf("combined (-want +got):\n%s", diff)
	}
}

// askMixed makes requests from the first on, over one connection, and ends it in one of three ways.
func (n *network) askMixed(first, requests int) error {
	c, err := dial(context.Background(), n.client, vip4)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range requests {
		method, request := mixed(first + i)
		if _, err := c.ask(method, request); err != nil {
			return fmt.Errorf("%q: %w", request, err)
		}
	}
	tcp, ok := c.Conn.(*net.TCPConn)
	if ok && first/requests%3 == 0 {
		return tcp.SetLinger(0) // by a reset
	}
	return nil
}

// TestSplicedLogOfSessions: sessions of TLS are logged with the name in their hello, whoever has read it, and how they ended.
func TestSplicedLogOfSessions(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a := n.site("a", lab.LinkOptions{})
	long := strings.Repeat("long.", 13) + "a.test" // more than what the kernel reads
	secureNginx(ca, a, "a.test", "*.a.test", long)
	file := filepath.Join(t.TempDir(), "access.log")
	n.start(fmt.Sprintf(`log: {access: [{to: file, path: %q}]}
vips: [{address: "10.9.9.9:443", interfaces: [%s], protocol: tls, routes: [{match: {sni: a.test}, pool: a}, {match: {sni: "*.a.test"}, pool: a}, {match: {sni: %s}, pool: a}]}]
pools: {a: {surrogates: [{name: a, address: %q}]}}
`, file, n.front.Name, long, secure(a, false)))
	for _, name := range []string{"a.test", "www.a.test", long} {
		for _, cut := range []cutHello{{}, {segment: 200}} {
			plain, err := n.client.Dial(deadline(t), "tcp", "10.9.9.9:443")
			if err != nil {
				t.Fatal(err)
			}
			cut.Conn = plain
			c := tls.Client(&cut, &tls.Config{ServerName: name, RootCAs: ca.Pool})
			fmt.Fprintf(c, "GET /16k HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
			if b, err := io.ReadAll(c); err != nil || len(b) < 16<<10 {
				t.Fatalf("%d bytes: %v", len(b), err)
			}
			c.Close()
		}
	}
	names := make(map[string]int)
	for _, e := range logEntries(t, file, 6) {
		if e.Protocol != "tls" || e.Surrogate != "a" || e.Pool != "a" || e.Bytes_sent < 16<<10 || e.Bytes_received < 200 || !e.Bytes_of_session || e.Status != 0 ||
			e.Served != "spliced" || e.End != "server-fin" && e.End != "client-fin" {
			t.Errorf("%+v", e)
		}
		names[e.Host]++
	}
	if want := map[string]int{"a.test": 2, "www.a.test": 2, long: 2}; !maps.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
}

// TestSplicedLogOutlivesTheRouter: a download that the router's process does not live to see the end of is logged by the next one, with the
// names of the configuration before.
func TestSplicedLogOutlivesTheRouter(t *testing.T) {
	t.Parallel() // judges by results
	n, config := slowNetwork(t)
	file := filepath.Join(t.TempDir(), "access.log")
	r := n.start(fmt.Sprintf("log: {access: [{to: file, path: %q}]}\n%s", file, config))
	path, err := build.Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	c := n.open(t, vip4)
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET /1m HTTP/1.1\r\nHost: slow\r\n\r\n")
	if _, err := c.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	n.gets(t) // its record may wait in the kernel
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.again(path); err != nil {
		t.Fatal(err)
	}
	if got, err := c.read("GET"); err != nil || got.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	c.Close()
	paths := make(map[string]logEntry)
	for _, e := range logEntries(t, file, 2) {
		paths[e.Path] = e
	}
	if e := paths["/1m"]; cmp.Or(e.Surrogate, "none") == "none" || e.Host != "slow" || e.Status != 200 || e.Bytes_sent < 1<<20 || e.End != "complete" || e.Duration_seconds < 1 {
		t.Errorf("%+v", e)
	}
	if e := paths["/128"]; e.End != "complete" || e.Pool != "p" {
		t.Errorf("%+v", e)
	}
}

// TestSplicedLogReload: a download whose surrogate a reload removes is logged with its name, and a VIP that is not to be logged is not.
func TestSplicedLogReload(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	o, entries := n.steppedSites(t, "s1", "s2")
	file := filepath.Join(t.TempDir(), "access.log")
	config := func(surrogate, vip string) string {
		return fmt.Sprintf("log: {access: [{to: file, path: %q}]}\nvips: [{address: %q, interfaces: [%s], routes: [{pool: %s}]%s}]\npools: {%s: {surrogates: [%s]}}\n",
			file, vip4, n.front.Name, surrogate, vip, surrogate, entries[surrogate])
	}
	r := n.start(config("s1", ""))
	o.download(t, n, 1)
	r.hangup(t, config("s2", ""))
	n.gets(t)
	o.end(t)
	for _, e := range logEntries(t, file, 2) {
		if want := map[string]string{"/1m": "s1", "/128": "s2"}[e.Path]; e.Surrogate != want || e.Pool != want || e.Served != "spliced" {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	r.hangup(t, config("s2", ", log: false"))
	n.gets(t)
	r.hangup(t, config("s2", ""))
	n.gets(t)
	logEntries(t, file, 3)
}
