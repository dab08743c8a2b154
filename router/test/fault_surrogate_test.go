package test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// checked are active health checks that notice a fault within seconds, also on a busy machine.
const checked = "health: {path: /healthz, interval: 500ms, timeout: 500ms, rise: 1, fall: 3}, legs: {min: 4, max: 100}"

// surrogate returns a surrogate's status.
func (r *running) surrogate(name string) api.RouterSurrogate {
	r.n.t.Helper()
	for _, p := range r.status().Pools {
		for _, s := range p.Surrogates {
			if s.Name == name {
				return s
			}
		}
	}
	r.n.t.Fatalf("no surrogate %s", name)
	return api.RouterSurrogate{}
}

// becomes waits until a surrogate is in a phase, by the command line.
func (r *running) becomes(t *testing.T, name, phase string) {
	t.Helper()
	lab.Eventually(t, answersWithin, func() error {
		if s := r.surrogate(name); s.Phase != phase {
			return fmt.Errorf("%s is %s, want %s: %s", name, s.Phase, phase, s.LastError)
		}
		return nil
	})
	out, err := r.n.baton(t.Context(), "router", "status", "--control", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == name {
			if !strings.HasPrefix(f[3], phase) {
				t.Errorf("status says %q, want %s", line, phase)
			}
			return
		}
	}
	t.Errorf("status does not know %s:\n%s", name, out)
}

// TestSurrogatesDownAtStart: at the router's start some surrogates refuse and one does not answer, in a pool with a working one,
// and alone.
func TestSurrogatesDownAtStart(t *testing.T) {
	t.Parallel() // mostly waits
	n := newNetwork(t)
	well, ill, silent := n.site("well", lab.LinkOptions{}), n.site("ill", lab.LinkOptions{}), n.site("silent", lab.LinkOptions{})
	serveScript(t, well.Host, 80, "well")
	serveScript(t, well.Host, 81, "watched")
	silent.side.Lose(1)
	ills := []string{"ill", "ill-watched", "ill-alone", "ill-unwatched"}
	at := func(i int) string { return fmt.Sprintf("%s:%d", ill.v4.Addr(), 80+i) }
	r := n.launch(fmt.Sprintf(`vips:
  - address: %q
    interfaces: [%s]
    routes:
      - {match: {host: mixed.test}, pool: mixed}
      - {match: {host: watched.test}, pool: watched}
      - {match: {host: alone.test}, pool: alone}
      - {match: {host: unwatched.test}, pool: unwatched}
pools:
  mixed: {legs: {min: 4, max: 100}, surrogates: [{name: ill, address: %q}, {name: silent, address: %q}, {name: well, address: %q}]}
  watched: {%[6]s, surrogates: [{name: ill-watched, address: %[7]q}, {name: silent-watched, address: "%[8]s:81"}, {name: watched, address: "%[9]s:81"}]}
  alone: {%[6]s, surrogates: [{name: ill-alone, address: %[10]q}]}
  unwatched: {surrogates: [{name: ill-unwatched, address: %[11]q}]}
`, vip4, n.front.Name, at(0), silent.v4, well.v4, checked, at(1), silent.v4.Addr(), well.v4.Addr(), at(2), at(3)))

	// ask makes so many concurrent clients send the same request, and counts the statuses.
	ask := func(t *testing.T, host string, clients int, allowed ...int) {
		t.Helper()
		var work errgroup.Group
		for range clients {
			work.Go(func() error {
				c, err := dial(t.Context(), n.client, vip4)
				if err != nil {
					return err
				}
				defer c.Close()
				got, err := c.get(host, "/bytes/1000")
				if err != nil {
					return err
				}
				for _, status := range allowed {
					if got.StatusCode == status && (status != 200 || got.body == patternText(1000)) {
						return nil
					}
				}
				return fmt.Errorf("%s from %q, want one of %v: %.100q", got.Status, got.surrogate, allowed, got.body)
			})
		}
		if err := work.Wait(); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	ask(t, "mixed.test", 12, 200)
	r.becomes(t, "watched", "up")
	r.becomes(t, "ill-watched", "down")
	r.becomes(t, "silent-watched", "down")
	ask(t, "watched.test", 12, 200)
	if got := r.fallbacks(vip4); got > 0 {
		t.Errorf("%v requests were proxied though a surrogate was up", got)
	}
	r.becomes(t, "ill-alone", "down")
	ask(t, "alone.test", 12, 503)
	if got := r.decisions("no surrogate"); got != 12 {
		t.Errorf("%v requests were refused without trying a surrogate, want 12", got)
	}
	ask(t, "unwatched.test", 12, 502, 503)
	r.becomes(t, "ill-unwatched", "down")
	if s := r.surrogate("ill-unwatched"); s.LastError != "refused" {
		t.Errorf("status says %q of what refuses", s.LastError)
	}

	// Each comes up by itself.
	for i, name := range ills {
		serveScript(t, ill.Host, 80+i, name)
	}
	silent.side.Lose(0)
	serveScript(t, silent.Host, 81, "silent-watched")
	for _, name := range []string{"ill-watched", "ill-alone", "silent-watched"} { // without checks the others are given time
		r.becomes(t, name, "up")
	}
	for _, host := range []string{"watched.test", "alone.test"} {
		ask(t, host, 12, 200)
	}
}

// TestRestartWithoutReadyLegs: a surrogate that was down has sessions again, and not the proxy, also if no leg is kept
// ready.
func TestRestartWithoutReadyLegs(t *testing.T) {
	t.Parallel() // mostly waits
	n := newNetwork(t)
	site := n.site("s", lab.LinkOptions{})
	_, stop := serveScript(t, site.Host, 80, "s")
	health := strings.Replace(checked, "legs: {min: 4, max: 100}", "legs: {min: 0}", 1)
	r := n.launch(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\n"+
		"pools: {p: {%s, surrogates: [{name: s, address: %q}]}}\n", vip4, n.front.Name, health, site.v4))
	r.becomes(t, "s", "up")
	for restarts := range 2 {
		for range 3 {
			c := n.open(t, vip4)
			got, err := c.get("h", "/bytes/777")
			got.expect(t, err, "s", http.StatusOK, patternText(777))
			c.Close()
		}
		if got := r.fallbacks(vip4); got > 0 {
			t.Errorf("after %d restarts %v requests were proxied", restarts, got)
		}
		stop()
		r.becomes(t, "s", "down")
		time.Sleep(time.Second) // its legs are renewed four times a second
		_, stop = serveScript(t, site.Host, 80, "s")
		r.becomes(t, "s", "up")
	}
}

// decisions counts user space's decisions with an outcome.
func (r *running) decisions(outcome string) (sum float64) {
	r.n.t.Helper()
	for name, value := range r.metrics() {
		if strings.HasPrefix(name, "baton_router_decision_duration_seconds_count") && strings.Contains(name, fmt.Sprintf("outcome=%q", outcome)) {
			sum += value
		}
	}
	return sum
}

// TestSurrogateEndsInMidResponse cuts responses off at every stage. The client receives what was sent and notices the end, the
// next client on the surrogate gets its own response, and no request is made twice.
func TestSurrogateEndsInMidResponse(t *testing.T) {
	n := newNetwork(t)
	site := n.site("s", lab.LinkOptions{})
	s, _ := serveScript(t, site.Host, 80, "s")
	n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\npools: {p: {legs: {min: 4, max: 100}, surrogates: [{name: s, address: %q}]}}\n",
		vip4, n.front.Name, site.v4))
	asked := int64(0)
	for _, f := range []framing{byLength, inChunks} {
		for _, size := range []int{1000, 1_000_000} {
			whole := s.response(f, size)
			head := strings.Index(string(whole), "\r\n\r\n") + 4
			for _, sent := range []int{0, 1, head - 1, head, head + 1, head + 500, len(whole) / 2, len(whole) - 1} {
				for _, how := range []string{"cut", "reset"} {
					for _, method := range []string{"GET", "POST"} {
						c := n.open(t, vip4)
						fmt.Fprintf(c, "%s /%s/%s/%d/%d HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", method, how, f, size, sent)
						got, err := io.ReadAll(c.r)
						asked++
						name := fmt.Sprintf("%s %s %s of %d bytes after %d", method, how, f, size, sent)
						if string(got) != string(whole[:sent]) {
							t.Errorf("%s: %d bytes that are not those sent: %.100q", name, len(got), got)
						}
						if reset := errors.Is(err, syscall.ECONNRESET); reset != (how == "reset") || !reset && err != nil {
							t.Errorf("%s: ends with %v", name, err)
						}
						c.Close()
						next := n.open(t, vip4)
						marker, err := next.get("h", "/bytes/777")
						asked++
						marker.expect(t, err, "s", http.StatusOK, patternText(777))
						next.Close()
					}
				}
			}
		}
	}
	if got := s.requests.Load(); got != asked {
		t.Errorf("the surrogate was asked %d times, want %d", got, asked)
	}
}

// TestSlowSurrogate: a slow surrogate has not failed.
func TestSlowSurrogate(t *testing.T) {
	t.Parallel() // mostly waits
	n := newNetwork(t)
	var scripts []*script
	var surrogates []string
	for _, name := range []string{"a", "b"} {
		site := n.site(name, lab.LinkOptions{})
		s, _ := serveScript(t, site.Host, 80, name)
		scripts = append(scripts, s)
		surrogates = append(surrogates, fmt.Sprintf("{name: %s, address: %q}", name, site.v4))
	}
	r := n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\npools: {p: {%s, surrogates: [%s]}}\n",
		vip4, n.front.Name, checked, strings.Join(surrogates, ", ")))
	const clients = 10
	var work errgroup.Group
	for range clients {
		work.Go(func() error {
			c, err := dial(t.Context(), n.client, vip4)
			if err != nil {
				return err
			}
			defer c.Close()
			for _, path := range []string{"/slow/5000", "/bytes/5000"} {
				got, err := c.get("h", path)
				if err != nil {
					return err
				}
				if got.StatusCode != http.StatusOK || got.body != patternText(5000) {
					return fmt.Errorf("%s with %d bytes", got.Status, len(got.body))
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
	if got := scripts[0].requests.Load() + scripts[1].requests.Load(); got != 2*clients {
		t.Errorf("surrogates were asked %d times for %d requests", got, 2*clients)
	}
	for name, value := range r.metrics() {
		if value > 0 && (strings.Contains(name, "handoffs_failed_total") || strings.Contains(name, "fallback_requests_total") || strings.Contains(name, "transitions_total") && strings.Contains(name, `phase="down"`)) {
			t.Errorf("%s %v", name, value)
		}
	}
}

// TestEarlyAnswer refuses an upload before its body is read, in the three ways of servers.
func TestEarlyAnswer(t *testing.T) {
	n := newNetwork(t)
	scripted, nginx := n.site("scripted", lab.LinkOptions{}), n.site("nginx", lab.LinkOptions{})
	serveScript(t, scripted.Host, 80, "scripted")
	peers.Nginx(nginx.Host, peers.NginxOptions{Server: "client_max_body_size 64k;"})
	// An RST that the client accepts but that is not the next byte's leaves the session to its timeout (docs/handoff.md, "The
	// end of a session").
	n.start(fmt.Sprintf("timeouts: {closing: 2s}\nvips: [{address: %q, interfaces: [%s], routes: [{match: {host: nginx.test}, pool: nginx}, {pool: scripted}]}]\n"+
		"pools:\n  nginx: {surrogates: [{name: nginx, address: %q}]}\n  scripted: {surrogates: [{name: scripted, address: %q}]}\n",
		vip4, n.front.Name, nginx.v4, scripted.v4))
	for _, tt := range []struct{ name, host, path, small string }{
		{"nginx", "nginx.test", "/128", "/128"},
		{"half-closes", "scripted.test", "/early/half-closes", "/bytes/128"},
		{"closes", "scripted.test", "/early/closes", "/bytes/128"},
	} {
		for _, size := range []int64{100_000, 8 << 20} {
			for range 5 {
				c := n.open(t, vip4)
				fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", tt.path, tt.host, size)
				sent := make(chan error, 1)
				go func() { _, err := io.Copy(c, &pattern{left: size}); sent <- err }()
				got, err := c.read("PUT")
				if err != nil || got.StatusCode != http.StatusRequestEntityTooLarge {
					t.Errorf("%s, %d bytes: %+v %v, want 413", tt.name, size, got.Response, err)
				}
				c.Close()
				<-sent // with or without an error: the client may have been faster
				next := n.open(t, vip4)
				got, err = next.get(tt.host, tt.small)
				got.expect(t, err, strings.TrimSuffix(tt.host, ".test"), http.StatusOK, patternText(128))
				next.Close()
			}
		}
	}
}

// TestSurrogateClosesEarly: nginx closes each connection after an idle second, or after three requests. Clients do not notice.
func TestSurrogateClosesEarly(t *testing.T) {
	t.Parallel() // mostly waits
	n := newNetwork(t)
	var routes, pools strings.Builder
	var crowds []*crowd
	for _, tt := range []struct {
		name    string
		options peers.NginxOptions
		visitor *crowd
	}{
		{"second", peers.NginxOptions{Keepalive: "1"}, &crowd{requests: 3, pause: 700 * time.Millisecond}},
		{"three", peers.NginxOptions{Requests: 3}, &crowd{requests: 5}},
	} {
		s := n.site(tt.name, lab.LinkOptions{})
		peers.Nginx(s.Host, tt.options)
		fmt.Fprintf(&routes, "\n      - {match: {host: %[1]s.test}, pool: %[1]s}", tt.name)
		fmt.Fprintf(&pools, "\n  %[1]s: {legs: {min: 8, max: 400}, surrogates: [{name: %[1]s, address: %[2]q}]}", tt.name, s.v4)
		c := tt.visitor
		c.n, c.host, c.path, c.want = n, tt.name+".test", "/16k", patternText(16<<10)
		crowds = append(crowds, c)
	}
	r := n.start(fmt.Sprintf("vips:\n  - address: %q\n    interfaces: [%s]\n    routes:%s\npools:%s\n", vip4, n.front.Name, &routes, &pools))
	for _, c := range crowds {
		c.come(t, 6)
	}
	crowds[1].answered("three", 1000)
	// more legs than the others need: each waits in turn
	passers := &crowd{n: n, host: "second.test", path: "/16k", want: patternText(16 << 10), requests: 1, pause: 100 * time.Millisecond}
	passers.come(t, 18)
	passers.answered("second", 100)
	passers.leave()
	passers.unharmed()
	lab.Eventually(t, answersWithin, func() error {
		for _, name := range []string{"second", "three"} {
			if !strings.Contains(r.Log(), "surrogate="+name) {
				return fmt.Errorf("the router has not learnt when %s closes", name)
			}
		}
		return nil
	})
	crowds[0].answered("second", 60)
	for _, c := range crowds {
		c.leave()
		c.unharmed()
	}
}

// TestSurrogateDies kills nginx, restarts it, and cuts its host off, while clients come and go.
func TestSurrogateDies(t *testing.T) {
	t.Parallel() // mostly waits
	n := newNetwork(t)
	const clients = 8
	o := peers.NginxOptions{Workers: 1, Server: "location = /1m { limit_rate 400k; }"}
	var surrogates []string
	nginx := make(map[string]*peers.Server)
	for _, name := range []string{"a", "b"} {
		s := n.site(name, lab.LinkOptions{})
		nginx[name] = peers.Nginx(s.Host, o)
		surrogates = append(surrogates, fmt.Sprintf("{name: %s, address: %q}", name, s.v4))
	}
	a := n.sites[0]
	r := n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\npools: {p: {%s, surrogates: [%s]}}\n",
		vip4, n.front.Name, checked, strings.Join(surrogates, ", ")))
	come := func(t *testing.T, requests int) *crowd {
		return (&crowd{n: n, host: "h", path: "/16k", want: patternText(16 << 10), requests: requests, pause: 5 * time.Millisecond}).come(t, clients)
	}
	// undisturbed fails if clients are affected after the router has taken the surrogate down.
	undisturbed := func(t *testing.T, c *crowd) {
		t.Helper()
		c.turns()
		lost, refused := c.harm()
		if lost > 2*clients {
			t.Errorf("more than the sessions of %d clients and what they asked for at the same moment: %v", clients, c)
		}
		c.answered("b", 200)
		if l, f := c.harm(); l != lost || f != refused {
			t.Errorf("clients suffer from a surrogate that is down: %v", c)
		}
	}
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT} { // which is nginx's graceful end
		t.Run(how.String(), func(t *testing.T) {
			c := come(t, 3)
			c.answered("a", 50)
			if err := nginx["a"].Signal(how); err != nil {
				t.Fatal(err)
			}
			r.becomes(t, "a", "down")
			undisturbed(t, c)
			nginx["a"] = peers.Nginx(a.Host, o)
			r.becomes(t, "a", "up")
			c.answered("a", 50)
			c.leave()
			t.Log(c)
		})
	}
	t.Run("silent", func(t *testing.T) {
		s := n.download(t, 4) // two at each
		c := (&crowd{n: n, host: "h", path: "/16k", want: patternText(16 << 10), requests: 1, pause: 5 * time.Millisecond, silence: true}).come(t, clients)
		c.answered("a", 50)
		a.side.Lose(1)
		r.becomes(t, "a", "down")
		undisturbed(t, c)
		a.side.Lose(0)
		r.becomes(t, "a", "up")
		c.answered("a", 50)
		c.leave()
		c.unharmed() // its clients could still retry their requests
		if c.held > clients {
			t.Errorf("answers stop although the surrogate is down: %v", c)
		}
		if err := s.work.Wait(); err != nil {
			t.Errorf("a download did not outlast the silence: %v", err)
		}
	})
	t.Run("both", func(t *testing.T) {
		c := come(t, 1)
		for _, s := range nginx {
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		r.becomes(t, "a", "down")
		r.becomes(t, "b", "down")
		c.turns()
		lost, before := c.harm()
		c.turns()
		if l, refused := c.harm(); l != lost || refused == before {
			t.Errorf("without a surrogate clients do not get a plain refusal: %v", c)
		}
		nginx["b"] = peers.Nginx(n.sites[1].Host, o)
		r.becomes(t, "b", "up")
		c.answered("b", 50)
	})
}
