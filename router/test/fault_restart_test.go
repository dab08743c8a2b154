package test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

// slowly limits nginx to a rate (bytes/s) at which a mebibyte takes some ten seconds.
const slowly = 96 << 10

// slow are downloads of /1m at that rate, each over its own connection.
type slow struct {
	work     errgroup.Group
	begun    atomic.Int64 // downloads with a complete head
	received atomic.Int64 // bytes
}

// download starts that many, and returns when each has its head.
func (n *network) download(t *testing.T, count int) *slow {
	t.Helper()
	s := &slow{}
	for range count {
		s.work.Go(func() error { return s.one(t, n) })
	}
	lab.Eventually(t, time.Minute, func() error {
		if got := s.begun.Load(); got < int64(count) {
			return fmt.Errorf("%d of %d downloads have begun", got, count)
		}
		return nil
	})
	return s
}

func (s *slow) one(t *testing.T, n *network) error {
	c, err := dial(t.Context(), n.client, vip4)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	return s.from(c)
}

// from downloads over a connection.
func (s *slow) from(c io.ReadWriter) error {
	if _, err := io.WriteString(c, "GET /1m HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("download: %s", response.Status)
	}
	s.begun.Add(1)
	return peers.CheckPattern(io.TeeReader(response.Body, s), peers.Files["/1m"])
}

// Write counts.
func (s *slow) Write(b []byte) (int, error) {
	s.received.Add(int64(len(b)))
	return len(b), nil
}

// grows waits for that many more bytes.
func (s *slow) grows(t *testing.T, bytes int64) {
	t.Helper()
	before := s.received.Load()
	lab.Eventually(t, answersWithin, func() error {
		if got := s.received.Load() - before; got < bytes {
			return fmt.Errorf("%d bytes more", got)
		}
		return nil
	})
}

func slowNetwork(t *testing.T) (*network, string) {
	n := newNetwork(t)
	var names []string
	for _, name := range []string{"s1", "s2"} {
		s := n.site(name, lab.LinkOptions{})
		peers.Nginx(s.Host, peers.NginxOptions{Workers: 2, Server: fmt.Sprintf("location = /1m { limit_rate %d; }", slowly)})
		names = append(names, fmt.Sprintf("{name: %s, address: %q}", name, s.v4))
	}
	return n, fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\n"+
		"pools: {p: {legs: {max: 1000}, surrogates: [%s]}}\n", vip4, n.front.Name, strings.Join(names, ", "))
}

// steppedNetwork has surrogates that send as the test says: the downloads of a slow machine last as long as it needs.
func steppedNetwork(t *testing.T) (*network, *stepped, string) {
	n := newNetwork(t)
	origin, sites := n.steppedSites(t, "s1", "s2")
	return n, origin, fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\n"+
		"pools: {p: {legs: {max: 1000}, surrogates: [%s, %s]}}\n", vip4, n.front.Name, sites["s1"], sites["s2"])
}

// again starts the router on an earlier one's state, from a program.
func (r *running) again(path string) error {
	p, err := r.n.router.Start(lab.Program{Path: path, Args: []string{"router", "run", "-c", r.file}})
	if err != nil {
		return err
	}
	r.Process = p
	return r.await()
}

// gets fetches a small file on a new connection.
func (n *network) gets(t *testing.T) {
	t.Helper()
	c := n.open(t, vip4)
	got, err := c.get("h", "/128")
	if got.Response == nil {
		t.Fatal(err)
	}
	got.expect(t, err, got.surrogate, http.StatusOK, patternText(128))
	c.Close()
}

// TestKill kills the router during a thousand downloads. They continue without it, and with the next one, byte for byte.
func TestKill(t *testing.T) {
	downloads := 1000
	if testing.Short() {
		downloads = 50 // for machines that are many times slower
	}
	n, origin, config := steppedNetwork(t)
	r := n.start(config)
	path, err := build.Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	origin.download(t, n, downloads)
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	origin.step(t) // while there is no router
	if err := r.again(path); err != nil {
		t.Fatal(err)
	}
	n.gets(t)
	if st := r.status(); st.Sessions < downloads {
		t.Errorf("%d sessions adopted, want %d", st.Sessions, downloads)
	}
	if !strings.Contains(r.Log(), "adopted=true") {
		t.Errorf("nothing was adopted:\n%s", r.Log())
	}
	// A second time, killed while it loads.
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.again(path); err != nil {
		t.Fatal(err)
	}
	n.gets(t)
	origin.end(t)
	if n := r.fallbacks(vip4); n > 0 {
		t.Errorf("%v requests were proxied", n)
	}
}

// TestSecondRouter finds the state in use, says so in one line, and affects nobody.
func TestSecondRouter(t *testing.T) {
	n, config := slowNetwork(t)
	r := n.start(config)
	s := n.download(t, 3)
	for _, args := range [][]string{{"router", "run", "-c", r.file}, {"router", "cleanup", "-c", r.file}} {
		_, err := n.baton(t.Context(), args...)
		if lab.ExitCode(err) != 1 || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), r.state) && !strings.Contains(err.Error(), r.file+" runs") {
			t.Errorf("baton %s: %v, want exit status 1 and a line with %s", strings.Join(args, " "), err, r.state)
		}
	}
	n.gets(t)
	if err := s.work.Wait(); err != nil {
		t.Error(err)
	}
}

// TestUpgrade replaces the program while sessions continue: the old one exits and logs how many it leaves, and the new one adopts
// them.
func TestUpgrade(t *testing.T) {
	n, origin, config := steppedNetwork(t)
	r := n.start(config)
	upgraded, err := build.ProgramOf("baton", "upgraded")
	if err != nil {
		t.Fatal(err)
	}
	const downloads = 50
	origin.download(t, n, downloads)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("ends them\" sessions=%d\n", downloads); !strings.Contains(r.Stderr(), want) {
		t.Errorf("says %q, want %q", r.Stderr(), want)
	}
	// Without a router no session starts, and clients notice at once.
	if c, err := dial(t.Context(), n.client, vip4); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("connection while there is no router: %v", err)
		if err == nil {
			c.Close()
		}
	}
	if err := r.again(upgraded); err != nil {
		t.Fatal(err)
	}
	if got := r.status(); got.Version != "upgraded" || got.Sessions != downloads {
		t.Errorf("version %s has %d sessions, want %d", got.Version, got.Sessions, downloads)
	}
	n.gets(t)
	origin.end(t)
}

// TestCleanup ends the sessions that a router has left.
func TestCleanup(t *testing.T) {
	for _, killed := range []bool{false, true} {
		n, origin, config := steppedNetwork(t)
		r := n.start(config)
		origin.download(t, n, 5)
		if killed {
			if err := r.Kill(); err != nil {
				t.Fatal(err)
			}
		} else if err := r.end(); err != nil {
			t.Fatal(err)
		}
		origin.step(t)
		removed := "removed 5 sessions\nremoved programs and tables in " + r.state + "\n"
		if killed {
			removed += "removed control socket " + r.socket + "\n" // which a killed process cannot
		}
		if out, err := n.baton(t.Context(), "router", "cleanup", "-c", r.file); err != nil || out != removed {
			t.Fatalf("cleanup says %q, %v", out, err)
		}
		if err := r.left(); err != nil {
			t.Errorf("killed=%v: left behind: %v", killed, err)
		}
		cut := time.Now()
		if err := origin.s.work.Wait(); err == nil {
			t.Errorf("killed=%v: downloads go on without a data path", killed)
		} else if took := time.Since(cut); took > answersWithin {
			t.Errorf("killed=%v: clients learn of it after %v: %v", killed, took, err)
		}
		if _, err := n.baton(t.Context(), "router", "cleanup", "-c", r.file); err != nil {
			t.Errorf("killed=%v: cleanup of nothing: %v", killed, err)
		}
		path, err := build.Program("baton")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.again(path); err != nil {
			t.Fatal(err)
		}
		n.gets(t)
	}
}
