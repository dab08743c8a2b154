package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/controller/handoff"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// fetch gets bytes of the pattern by arguments of curl.
func (s *scene) fetch(size int64, args ...string) (peers.Transfer, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), slow)
	defer cancel()
	got, err := peers.Curl(ctx, s.client, args...)
	if err == nil && size > 0 {
		err = peers.CheckPattern(strings.NewReader(got.Body), size)
	}
	return got, err
}

// left are the entries of a handoff in all switches.
func (s *scene) left(id uint64) (n int) {
	for sw := range uint64(2) {
		flows, err := s.sw.Flows(s.t.Context(), sw+1, 0xb702<<48|id, ^uint64(0))
		s.must(err)
		n += len(flows)
	}
	return n
}

// undone waits until the last handoff has failed for a reason, and nothing of it is left.
func (s *scene) undone(why string) {
	s.t.Helper()
	all := s.manager.Handoffs()
	last := all[len(all)-1]
	lab.Eventually(s.t, slow, func() error {
		if n := s.left(last.ID); n != 0 {
			return fmt.Errorf("%d entries are left in the switches", n)
		}
		return nil
	})
	if got := s.manager.Counts().Failed[why]; got != 1 {
		s.t.Errorf("%s: %d times; %q; all: %v", why, got, last.Failure, s.manager.Counts().Failed)
	}
}

// done waits for so many handoffs.
func (s *scene) done(want uint64) {
	s.t.Helper()
	lab.Eventually(s.t, slow, func() error {
		if c := s.manager.Counts(); c.Done < want {
			return fmt.Errorf("%d of %d handoffs: %+v", c.Done, want, c)
		}
		return nil
	})
}

// TestKinds: requests of several segments, with a body, with another Host, and of a client that uses its port again.
func TestKinds(t *testing.T) {
	s := newScene(t, setup{host: "cache.example"})
	got, err := s.fetch(16<<10, "-H", "X-Long: "+strings.Repeat("x", 6000), "http://10.0.0.1/16k")
	if err != nil || got.Surrogate == "" {
		t.Errorf("a request of several segments: %v", err)
	}
	s.done(1)
	got, err = s.fetch(0, "-D", "-", "-o", filepath.Join(s.Dir(), "x"), "http://10.0.0.1/16k")
	if err != nil || !strings.Contains(got.Body, "X-Host: cache.example") {
		t.Errorf("another Host: %v\n%s", err, got.Body)
	}
	s.done(2)
	got, err = s.fetch(0, "-D", "-", "-o", filepath.Join(s.Dir(), "x"), "-d", strings.Repeat("b", 3000), "http://10.0.0.1/16k")
	if err != nil || !strings.Contains(got.Body, "405") {
		t.Errorf("a request with a body: %v\n%s", err, got.Body)
	}
	s.done(3)
	for i := range 3 { // curl reads to the server's FIN: it must not close first, or its port would stay in TIME-WAIT
		if _, err := s.fetch(16<<10, "--local-port", "7777", "--ignore-content-length", "-H", "Connection: close", "http://10.0.0.1/16k"); err != nil {
			t.Errorf("port used again, time %d: %v", i+1, err)
		}
	}
	s.done(6)
	lab.Eventually(t, slow, func() error {
		if handed, proxied := s.server.Counts(); handed != 6 || len(proxied) != 0 {
			return fmt.Errorf("%d handed over, proxied: %v", handed, proxied)
		}
		return nil
	})
	s.steps()
	s.times()
}

// steps: the record of a handoff has the arrows of figure 6.
func (s *scene) steps() {
	s.t.Helper()
	h := s.manager.Handoffs()[1]
	var text []string
	for _, step := range h.Steps {
		text = append(text, fmt.Sprintf("%8v %s %s -> %s: %s", step.At.Round(time.Microsecond), step.Kind, step.From, step.To, step.Label))
	}
	all := strings.Join(text, "\n")
	s.t.Logf("took %v\n%s", h.Took, all)
	at := 0
	for _, want := range []string{"SYN", "setrequestsize", "flow mod 1", "getmatchingsess", "setrequestsize", "packet router -> controller: request", "flow mod 2", "flow mod 5",
		"barrier reply", "packet-out controller -> surrogate", "RST of the client's session", "RST of the leg"} {
		i := strings.Index(all[at:], want)
		if i < 0 {
			s.t.Errorf("no %q behind %q", want, all[max(0, at-40):at])
			return
		}
		at += i
	}
}

// times reports what the handshake and the first byte take through the controller.
func (s *scene) times() {
	var connect, first []time.Duration
	for range 21 {
		got, err := s.fetch(16<<10, "http://10.0.0.1/16k")
		s.must(err)
		connect, first = append(connect, got.Connect), append(first, got.FirstByte)
	}
	s.t.Logf("median handshake %v, first byte %v", median(connect), median(first))
	h := s.manager.Handoffs()
	last := h[len(h)-1]
	for _, step := range last.Steps {
		s.t.Logf("%8v %s %s -> %s: %s", step.At.Round(time.Microsecond), step.Kind, step.From, step.To, step.Label)
	}
}

func median(d []time.Duration) time.Duration {
	for i := range d {
		for j := i; j > 0 && d[j] < d[j-1]; j-- {
			d[j], d[j-1] = d[j-1], d[j]
		}
	}
	return d[len(d)/2]
}

// TestSurrogateFails: a surrogate that dies in the middle of a handoff is replaced: the request router serves the client.
func TestSurrogateFails(t *testing.T) {
	s := newScene(t, setup{})
	s.mu.Lock()
	s.choose = func(handoff.Request) (string, error) {
		s.at["s1"].SetDown()
		return "s1", nil
	}
	s.mu.Unlock()
	got, err := s.fetch(16<<10, "http://10.0.0.1/16k")
	if err != nil || got.Surrogate != "s2" {
		t.Errorf("from %q: %v", got.Surrogate, err)
	}
	s.undone("no-answer")
	_, proxied := s.server.Counts()
	if proxied["undone"] != 1 {
		t.Errorf("proxied: %v", proxied)
	}
	s.mu.Lock()
	s.choose = func(q handoff.Request) (string, error) { return "", errors.New("nobody is in service") }
	s.mu.Unlock()
	if got, err = s.fetch(16<<10, "http://10.0.0.1/16k", "http://10.0.0.1/"); err != nil && got.Surrogate != "s2" {
		t.Errorf("nobody chosen: from %q: %v", got.Surrogate, err)
	}
	s.undone("no-surrogate")
}

// TestStrip: the options of handshakes are removed, as in the paper; with a forwarder of Baton's at the access, too.
func TestStrip(t *testing.T) {
	s := newScene(t, setup{strip: true, baton: true, shape: emulator.Shape{Delay: 200 * time.Microsecond, Seed: 1}})
	w := watch(s.at["client"], "10.0.0.1")
	if _, err := s.fetch(1<<20, "http://10.0.0.1/1m"); err != nil {
		t.Error(err)
	}
	w.capture.Stop()
	if w.unstamped < 100 || len(w.resets)+w.strangers > 0 {
		t.Errorf("%d packets without timestamps, %d RSTs, %d of strangers", w.unstamped, len(w.resets), w.strangers)
	}
	s.done(1)
}

// TestControllerIsKilled: a session that was handed over continues without the controller.
func TestControllerIsKilled(t *testing.T) {
	s := newScene(t, setup{})
	body := filepath.Join(s.Dir(), "slow")
	failed := make(chan error, 1)
	go func() {
		_, err := s.fetch(0, "-o", body, "--limit-rate", "2M", "-r", "0-8388607", "http://10.0.0.1/100m")
		failed <- err
	}()
	s.done(1)
	s.stop()
	s.must(<-failed)
	f, err := os.Open(body)
	s.must(err)
	defer f.Close()
	if err := peers.CheckPattern(f, 8<<20); err != nil {
		t.Error(err)
	}
}

// TestThroughController: a session that is not handed over passes the controller, packet by packet, and whole (the paper's figure 8).
func TestThroughController(t *testing.T) {
	s := newScene(t, setup{})
	l, err := s.router.Listen("tcp", bulk.String())
	s.must(err)
	defer l.Close()
	const size = 16 << 20
	got := make(chan int64, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		got <- n
	}()
	ctx, cancel := context.WithTimeout(t.Context(), slow)
	defer cancel()
	began := time.Now()
	c, err := s.client.Dial(ctx, "tcp", bulk.String())
	s.must(err)
	_, err = c.Write(make([]byte, size))
	s.must(err)
	s.must(c.Close())
	if n := <-got; n != size {
		t.Errorf("%d of %d bytes arrived", n, size)
	}
	took := time.Since(began)
	packets := s.manager.Counts().Forwarded
	if packets < size/1460 {
		t.Errorf("%d packets passed the controller", packets)
	}
	t.Logf("%.0f Mbit/s, %.0f packets a second", float64(size)*8/took.Seconds()/1e6, float64(packets)/took.Seconds())
}
