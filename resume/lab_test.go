package resume_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/emulator"
	"baton/resume"
	"baton/resume/audit"
)

const siteFile = 3 << 20

// sites is a client, a router, and sites behind it:
//
//	client 10.1.0.2 ── router ── 10.2.n.2 s1 …, each with 10.9.9.9 as well
type sites struct {
	client, router *lab.Host
	hosts          []*lab.Host
}

func newSites(t *testing.T, n int) *sites {
	l := lab.New(t)
	s := &sites{client: l.Host("client"), router: l.Host("router")}
	s.router.Forward()
	// Slow enough that a route can move while a file is on its way.
	shape := emulator.Shape{Rate: 20e6, Delay: 5 * time.Millisecond}
	l.Link(lab.End{Host: s.client, Addrs: []string{"10.1.0.2/24"}}, lab.End{Host: s.router, Addrs: []string{"10.1.0.1/24"}}, lab.LinkOptions{AtoB: shape, BtoA: shape})
	s.client.Route("default", "10.1.0.1")
	for i := 1; i <= n; i++ {
		h := l.Host(fmt.Sprintf("s%d", i))
		l.Link(lab.End{Host: h, Addrs: []string{fmt.Sprintf("10.2.%d.2/24", i)}}, lab.End{Host: s.router, Addrs: []string{fmt.Sprintf("10.2.%d.1/24", i)}}, lab.LinkOptions{})
		h.Route("default", fmt.Sprintf("10.2.%d.1", i))
		h.Interface("lo").Address("10.9.9.9/32")
		s.hosts = append(s.hosts, h)
	}
	return s
}

// folder has the file with this time, of these bytes, for an unprivileged server.
func (s *sites) folder(t *testing.T, key uint64, at time.Time) string {
	t.Helper()
	dir, err := os.MkdirTemp(s.client.Lab().Dir(), "surrogate")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "files", "file")
	err = os.Mkdir(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, body(key, siteFile), 0o644)
	}
	if err == nil {
		err = os.Chtimes(file, at, at)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// serve starts a server with the example configuration, and waits for it.
func (s *sites) serve(t *testing.T, h *lab.Host, program, dir string) *lab.Process {
	t.Helper()
	h.Lab().Need(program)
	examples, err := filepath.Abs("../examples/surrogates")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-p", dir, "-c", examples + "/nginx.conf", "-e", "stderr"}
	if program == "apache2" {
		args = []string{"-d", dir, "-f", examples + "/apache.conf", "-DFOREGROUND"}
	}
	p, err := h.Start(lab.Program{Path: program, Args: args, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	client := h.HTTPClient(time.Second)
	defer client.CloseIdleConnections()
	if err := lab.Poll(10*time.Second, func() error {
		response, err := client.Head("http://127.0.0.1/file")
		if err != nil {
			return err
		}
		if response.Body.Close(); response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", response.Status)
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, p.Log())
	}
	return p
}

// transport makes its connections on the client.
func (s *sites) transport() *http.Transport {
	base := resume.DefaultTransport(5 * time.Second)
	base.Proxy = nil
	base.DialContext = func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = s.client.Do(func() error {
			c, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
	return base
}

func at(n int) string { return fmt.Sprintf("http://10.2.%d.2/file", n) }

func (s *sites) audit(t *testing.T, urls ...string) (safe bool, text string) {
	t.Helper()
	targets, err := audit.Targets(t.Context(), net.DefaultResolver, urls)
	if err != nil {
		t.Fatal(err)
	}
	r := audit.Judge(audit.Ask(t.Context(), s.transport(), nil, targets))
	for _, site := range r.Sites {
		text += fmt.Sprintln(site.Address, site.Validator, site.Problems, site.Remarks)
	}
	return r.Safe, text + strings.Join(r.Problems, "\n")
}

// TestSurrogates has two nginx and two Apache with the same file, and a third nginx with another one.
func TestSurrogates(t *testing.T) {
	t.Parallel()
	s := newSites(t, 5)
	then := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	s.serve(t, s.hosts[0], "nginx", s.folder(t, 1, then))
	second := s.serve(t, s.hosts[1], "nginx", s.folder(t, 1, then))
	s.serve(t, s.hosts[2], "nginx", s.folder(t, 2, then.Add(time.Minute)))
	s.serve(t, s.hosts[3], "apache2", s.folder(t, 1, then))
	s.serve(t, s.hosts[4], "apache2", s.folder(t, 1, then.Add(time.Hour)))
	for _, tt := range []struct {
		name string
		urls []string
		safe bool
		why  string
	}{
		{"nginx, the same times", []string{at(1), at(2)}, true, ""},
		{"nginx, another file", []string{at(1), at(2), at(3)}, false, "different bytes"},
		{"Apache, other times", []string{at(4), at(5)}, true, ""},
		{"nginx and Apache", []string{at(1), at(4)}, false, "different validators"},
	} {
		if safe, text := s.audit(t, tt.urls...); safe != tt.safe || !strings.Contains(text, tt.why) {
			t.Errorf("%s: safe %v, %s", tt.name, safe, text)
		}
	}
	// The second one dies, the first mirror that is left has another file, the next one the same.
	o := quick()
	o.Base = s.transport()
	killed := false
	o.Events = func(e resume.Event) {
		if p, ok := e.(resume.Progress); ok && p.Offset > siteFile/3 && !killed {
			killed = true
			if err := second.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	got := download(t, o, resume.Request{URLs: []string{at(2), at(3), at(1)}}, true)
	if got.err != nil || !killed {
		t.Fatal(got.err)
	}
	same(t, got.bytes, body(1, siteFile))
	if a := got.result.Account; len(a.Servers) != 2 || a.Wasted > 0 {
		t.Errorf("%+v", a)
	}
}

// TestAnycast moves the route to an address that three sites have while a file is on its way: the next site's kernel knows nothing of the connection
// and resets it. The third one has another file, and the client goes on when the route has moved again.
func TestAnycast(t *testing.T) {
	t.Parallel()
	s := newSites(t, 3)
	then := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	s.serve(t, s.hosts[0], "nginx", s.folder(t, 1, then))
	s.serve(t, s.hosts[1], "nginx", s.folder(t, 1, then))
	s.serve(t, s.hosts[2], "nginx", s.folder(t, 2, then.Add(time.Minute)))
	route := func(n int) { s.router.Route("10.9.9.9/32", fmt.Sprintf("10.2.%d.2", n)) }
	route(1)
	if safe, text := s.audit(t, "http://10.9.9.9/file"); !safe {
		t.Fatal(text)
	}
	moves := map[int]int64{2: siteFile / 5, 1: 2 * siteFile / 5, 3: 3 * siteFile / 5}
	back := time.Duration(0)
	o := quick()
	o.Base = s.transport()
	o.Stall, o.Retry.First = 2*time.Second, 20*time.Millisecond
	o.Events = func(e resume.Event) {
		switch e := e.(type) {
		case resume.Progress:
			for _, n := range []int{2, 1, 3} {
				if from, ok := moves[n]; ok && e.Offset >= from {
					delete(moves, n)
					route(n)
					break
				}
			}
		case resume.Broke:
			if e.Kind == resume.Changed && back == 0 { // the third site's file
				back = time.Nanosecond
				route(1)
			}
		}
	}
	client := resume.NewClient(o)
	stream, err := client.Open(t.Context(), resume.Request{URLs: []string{"http://10.9.9.9/file"}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	b, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	same(t, b, body(1, siteFile))
	a := stream.Account()
	t.Logf("%+v", a)
	if a.Breaks+a.Failures < 3 || back == 0 || a.Restarts != 0 {
		t.Errorf("%+v", a)
	}
}
