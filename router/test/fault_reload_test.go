package test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"baton/lab"
	"baton/lab/peers"
)

// hangup makes the router reload, and returns what it logged.
func (r *running) hangup(t *testing.T, config string) string {
	t.Helper()
	if err := r.configure(config); err != nil {
		t.Fatal(err)
	}
	before := len(r.Log())
	if err := r.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	var said string
	lab.Eventually(t, answersWithin, func() error {
		for line := range strings.Lines(r.Log()[before:]) {
			if strings.HasSuffix(line, "\n") && (strings.Contains(line, "msg=reloaded") || strings.Contains(line, "msg=\"reload:")) {
				said = line
				return nil
			}
		}
		return fmt.Errorf("nothing is logged of a reload: %s", r.Log()[before:])
	})
	return said
}

// stepped is surrogates that send /1m in eight pieces, one per step of the test, and other files at once.
type stepped struct {
	gates [8]chan struct{}
	next  int
	s     *slow
	count int
}

// steppedSites adds such surrogates, and returns their entries of a configuration.
func (n *network) steppedSites(t *testing.T, names ...string) (*stepped, map[string]string) {
	t.Helper()
	o, out := &stepped{}, make(map[string]string)
	for i := range o.gates {
		o.gates[i] = make(chan struct{})
	}
	for _, name := range names {
		s := n.site(name, lab.LinkOptions{})
		handle(t, s.Host, 80, func(c *net.TCPConn) { o.serve(c, name) })
		out[name] = fmt.Sprintf("{name: %s, address: %q}", name, s.v4)
	}
	t.Cleanup(func() { // after a failure
		for o.next < len(o.gates) {
			close(o.gates[o.next])
			o.next++
		}
	})
	return o, out
}

func (o *stepped) serve(c *net.TCPConn, name string) {
	r := bufio.NewReader(c)
	for {
		head, err := readHead(r)
		if err != nil {
			return
		}
		size := 128
		slowly := strings.HasPrefix(string(head), "GET /1m ")
		if slowly {
			size = 1 << 20
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s: %s\r\nContent-Length: %d\r\n\r\n", peers.Header, name, size)
		body := []byte(patternText(size))
		if !slowly {
			_, _ = c.Write(body)
			continue
		}
		piece := size / len(o.gates)
		for i, gate := range o.gates {
			<-gate
			if _, err := c.Write(body[i*piece : (i+1)*piece]); err != nil {
				return
			}
		}
	}
}

// download starts that many.
func (o *stepped) download(t *testing.T, n *network, count int) {
	t.Helper()
	o.s, o.count = n.download(t, count), count
}

// step sends each download one more piece.
func (o *stepped) step(t *testing.T) {
	t.Helper()
	close(o.gates[o.next])
	o.next++
	want := int64(o.next) * int64(o.count) * (1 << 20) / int64(len(o.gates))
	lab.Eventually(t, answersWithin, func() error {
		if got := o.s.received.Load(); got < want {
			return fmt.Errorf("%d downloads have %d bytes, want %d", o.count, got, want)
		}
		return nil
	})
}

// end completes the downloads.
func (o *stepped) end(t *testing.T) {
	t.Helper()
	for o.next < len(o.gates) {
		o.step(t)
	}
	if err := o.s.work.Wait(); err != nil {
		t.Error(err)
	}
}

// serves expects that one of these surrogates answers a new connection.
func (n *network) serves(t *testing.T, vip string, surrogates ...string) {
	t.Helper()
	for range 2 * len(surrogates) {
		c := n.open(t, vip)
		got, err := c.get("h", "/128")
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode != http.StatusOK || got.body != patternText(128) || !strings.Contains(strings.Join(surrogates, " "), got.surrogate) {
			t.Fatalf("%s from %q with %d bytes, want one of %v", got.Status, got.surrogate, len(got.body), surrogates)
		}
		c.Close()
	}
}

// TestReload removes the route, surrogate, pool or VIP of running downloads. They continue, and new clients get the new rules.
func TestReload(t *testing.T) {
	n := newNetwork(t)
	origin, site := n.steppedSites(t, "a", "b", "c")
	const other = "10.9.9.10:80"
	config := func(vips string, pools ...string) string {
		return "vips: [" + vips + "]\npools:\n  " + strings.Join(pools, "\n  ") + "\n"
	}
	vip := func(address, pool string) string {
		return fmt.Sprintf("{address: %q, interfaces: [%s], routes: [{pool: %s}]}", address, n.front.Name, pool)
	}
	p, q := "p: {surrogates: ["+site["a"]+", "+site["b"]+"]}", "q: {surrogates: ["+site["c"]+"]}"
	first := config(vip(vip4, "p")+", "+vip(other, "q"), p, q)
	r := n.start(first)
	n.serves(t, vip4, "a", "b")
	n.serves(t, other, "c")
	origin.download(t, n, 10)
	kept := n.open(t, vip4)
	if got, err := kept.get("h", "/128"); err != nil || got.surrogate == "c" {
		t.Fatalf("%+v %v", got.Response, err)
	}

	for _, step := range []struct {
		name, config, says string
		serves             []string // vip4's; none: it is removed
	}{
		{"another route", config(vip(vip4, "q")+", "+vip(other, "q"), p, q), "msg=reloaded", []string{"c"}},
		{"a surrogate less", config(vip(vip4, "p")+", "+vip(other, "q"), "p: {surrogates: ["+site["b"]+"]}", q), "surrogate a has gone", []string{"b"}},
		{"a pool less", config(vip(vip4, "q")+", "+vip(other, "q"), q), "pool p has gone", []string{"c"}},
		{"a bad file", strings.Replace(first, "interfaces", "interface", 1), "is not a key", []string{"c"}},
		{"no file to speak of", "", "the old configuration stays in force", []string{"c"}},
		{"a VIP less", config(vip(other, "q"), q), "VIP " + vip4 + " has gone", nil},
		{"all again", first, "VIP " + vip4 + " is new", []string{"a", "b"}},
	} {
		if said := r.hangup(t, step.config); !strings.Contains(said, step.says) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: says %q, want a line with %q", step.name, said, step.says)
		}
		n.serves(t, other, "c")
		if len(step.serves) > 0 {
			n.serves(t, vip4, step.serves...)
		} else if c, err := dial(t.Context(), n.client, vip4); err == nil {
			t.Errorf("%s: the VIP still takes connections", step.name)
			c.Close()
		}
		if step.name == "another route" {
			got, err := kept.get("h", "/128")
			got.expect(t, err, "c", http.StatusOK, patternText(128))
		}
		origin.step(t)
	}
	kept.Close()
	origin.end(t)
	if status := r.status(); len(status.VIPs) != 2 || len(status.Pools) != 2 {
		t.Errorf("%d VIPs and %d pools at the end", len(status.VIPs), len(status.Pools))
	}
	if got := r.metrics()[`baton_router_config_reloads_total{result="failed"}`]; got != 2 {
		t.Errorf("%v refused reloads are counted, want 2", got)
	}
}

// TestReloadWhileARequestWaits removes a surrogate that refuses connections, while requests wait for one of its legs.
func TestReloadWhileARequestWaits(t *testing.T) {
	n := newNetwork(t)
	refusing, silent, well := n.site("refusing", lab.LinkOptions{}), n.site("silent", lab.LinkOptions{}), n.site("well", lab.LinkOptions{})
	serveScript(t, well.Host, 80, "well")
	silent.side.Lose(1)
	const rest = "  q: {surrogates: [{name: well, address: %q}]}\n"
	config := func(pool, pools string) string {
		return fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: %s}]}]\npools:\n%s"+rest, vip4, n.front.Name, pool, pools, well.v4)
	}
	r := n.launch(config("p", fmt.Sprintf("  p: {surrogates: [{name: refusing, address: %q}, {name: silent, address: %q}]}\n", refusing.v4, silent.v4)))
	var waiting []*connection
	for range 8 {
		c := n.open(t, vip4)
		if _, err := fmt.Fprint(c, "GET /bytes/100 HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, c)
	}
	lab.Eventually(t, answersWithin, func() error {
		if upcalls := r.verdicts()["upcall"]; upcalls < float64(len(waiting)) {
			return fmt.Errorf("%v requests are upcalls", upcalls)
		}
		return nil
	})
	if said := r.hangup(t, config("q", "")); !strings.Contains(said, "surrogate refusing has gone") {
		t.Errorf("says %q", said)
	}
	for i, c := range waiting {
		got, err := c.read("GET")
		if err != nil || got.StatusCode != http.StatusOK || got.surrogate != "well" {
			t.Errorf("request %d: %+v %v, want it answered by the new pool", i, got.Response, err)
		}
	}
	got, err := n.open(t, vip4).get("h", "/bytes/100")
	got.expect(t, err, "well", http.StatusOK, patternText(100))
}

// TestDrain drains a surrogate with running downloads. They complete; new clients go elsewhere.
func TestDrain(t *testing.T) {
	n := newNetwork(t)
	origin, site := n.steppedSites(t, "a", "b")
	r := n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\npools: {p: {surrogates: [%s, %s]}}\n",
		vip4, n.front.Name, site["a"], site["b"]))
	origin.download(t, n, 10)
	kept := make(map[string]*connection) // a keep-alive client at each
	for len(kept) < 2 {
		c := n.open(t, vip4)
		got, err := c.get("h", "/128")
		if err != nil {
			t.Fatal(err)
		}
		kept[got.surrogate] = c
	}
	baton := func(args ...string) {
		t.Helper()
		if out, err := n.baton(t.Context(), append([]string{"router", "backend"}, append(args, "--control", r.socket)...)...); err != nil {
			t.Fatalf("baton %v: %s%v", args, out, err)
		}
	}
	out, err := n.baton(t.Context(), "router", "backend", "drain", "c", "--control", r.socket)
	if err == nil || !strings.Contains(out+err.Error(), `surrogate "c": not found (one of a, b)`) {
		t.Errorf("drain of a surrogate that there is not: %s%v", out, err)
	}
	baton("drain", "a")
	if a := r.surrogate("a"); !a.Draining || !a.Up || a.Sessions == 0 {
		t.Errorf("status: %+v, want it draining, up, with sessions", a)
	}
	for range 10 {
		n.serves(t, vip4, "b")
	}
	lab.Eventually(t, answersWithin, func() error { // its idle legs are closed
		if a := r.surrogate("a"); a.IdleLegs > 0 {
			return fmt.Errorf("%d idle legs", a.IdleLegs)
		}
		return nil
	})
	origin.step(t)
	for name, c := range kept {
		got, err := c.get("h", "/128")
		got.expect(t, err, name, http.StatusOK, patternText(128))
		c.Close()
	}
	origin.end(t)
	lab.Eventually(t, answersWithin, func() error {
		if a := r.surrogate("a"); a.Sessions > 0 {
			return fmt.Errorf("%d sessions on a surrogate that is drained", a.Sessions)
		}
		return nil
	})
	baton("undrain", "a")
	lab.Eventually(t, answersWithin, func() error {
		if a := r.surrogate("a"); a.Draining || a.IdleLegs == 0 {
			return fmt.Errorf("%+v, want it back", a)
		}
		return nil
	})
	seen := make(map[string]bool)
	for range 10 {
		c := n.open(t, vip4)
		got, err := c.get("h", "/128")
		if err != nil {
			t.Fatal(err)
		}
		seen[got.surrogate] = true
		c.Close()
	}
	if !seen["a"] || !seen["b"] {
		t.Errorf("answered by %v alone", seen)
	}
}
