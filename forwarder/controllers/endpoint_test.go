package controllers

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/forwarder/config"
	"baton/openflow"
	"baton/openflow/channel"
)

func TestBackoff(t *testing.T) {
	b := backoff{Retry: config.Retry{Least: 100 * time.Millisecond, Most: time.Second}}
	for _, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		equal(t, "delay", b.delay(0.5), want*time.Millisecond)
	}
	equal(t, "shortest", b.delay(0), 750*time.Millisecond)
	equal(t, "longest", b.delay(1), 1250*time.Millisecond)
	b.reset()
	equal(t, "after a channel", b.delay(0.5), 100*time.Millisecond)
	b = backoff{Retry: config.Retry{Least: 700 * time.Millisecond, Most: time.Second}}
	b.delay(0.5)
	equal(t, "not beyond most", b.delay(0.5), time.Second)
}

var soon = config.Retry{Least: 10 * time.Millisecond, Most: 20 * time.Millisecond}

func peers() config.Peers { return config.Peers{Idle: long, Dead: 2 * long} }

// TestConnect: a controller is connected to again and again, and the forwarder hears when there is one and when there is none.
func TestConnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "controller")
	s := newStage(t, func(c *config.Config) {
		c.Retry = config.Retry{Least: soon.Least, Most: time.Hour} // where nothing resets it, the last rounds wait for too long
		c.Controllers = []config.Controller{{Connect: config.Endpoint{Method: "unix", Address: path}, Peers: peers()}}
	})
	eventually(t, "an attempt fails", func() bool { return strings.Contains(s.Status()[0].Error, "connect: ") })
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	equal(t, "connected", s.Connected(), 0)
	const rounds = 15
	for range rounds {
		c := accepted(t, l)
		ask(t, c, &openflow.BarrierRequest{})
		equal(t, "connected", s.Connected(), 1)
		equal(t, "channels", len(s.Status()[0].Channels), 1)
		c.Close()
		eventually(t, "the channel is lost", func() bool { return s.Connected() == 0 })
	}
	equal(t, "opened", s.Status()[0].Opened, rounds)
	s.Do(func() {})
	s.mu.Lock()
	defer s.mu.Unlock()
	equal(t, "changes", s.changes, slices.Repeat([]bool{true, false}, rounds))
}

// accepted is the controller's side of the next connection.
func accepted(t *testing.T, l net.Listener) *channel.Conn {
	t.Helper()
	defer context.AfterFunc(within(t), func() { l.Close() })()
	rw, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := channel.Start(rw, channel.Options{Idle: long, Dead: 2 * long})
	t.Cleanup(func() { c.Close() })
	return c
}

// TestConnectedCounts: the change is told at none and at one, and of the configured controllers alone.
func TestConnectedCounts(t *testing.T) {
	s := newStage(t, nil)
	tool := s.controller(t, of{listens: true})
	a := s.controller(t, of{})
	s.controller(t, of{listens: true})
	b := s.controller(t, of{})
	equal(t, "connected", s.Connected(), 2)
	a.Close()
	eventually(t, "one is gone", func() bool { return s.Connected() == 1 })
	b.Close()
	eventually(t, "both are gone", func() bool { return s.Connected() == 0 })
	tool.Close()
	eventually(t, "the tool is gone", func() bool { return len(*s.channels.Load()) == 1 })
	s.Do(func() {})
	s.mu.Lock()
	defer s.mu.Unlock()
	equal(t, "changes", s.changes, []bool{true, false})
}

// TestWrongVersion: who does not speak 1.3 gets no channel, and its reason is told.
func TestWrongVersion(t *testing.T) {
	s := newStage(t, nil)
	rw := s.over(t, of{})
	go func() { _, _ = io.Copy(io.Discard, rw) }()
	write(t, rw, []byte{1, byte(openflow.TypeHello), 0, 8, 0, 0, 0, 1})
	eventually(t, "it is refused", func() bool { return strings.Contains(s.Status()[0].Error, "no common version") })
	equal(t, "opened", s.Status()[0].Opened, 0)
}

// TestListen: others may connect, as many as there is room for.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "forwarder")
	s := newStage(t, func(c *config.Config) {
		c.Limits.Channels = 2
		c.Listen = []config.Listener{{Listen: config.Endpoint{Method: "unix", Address: path}, Peers: peers()}}
	})
	dial := func() net.Conn {
		rw, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rw.Close() })
		return rw
	}
	other, c := channel.Start(dial(), channel.Options{}), channel.Start(dial(), channel.Options{})
	for _, c := range []*channel.Conn{other, c} {
		defer c.Close()
		ask(t, c, &openflow.BarrierRequest{})
	}
	equal(t, "connected", s.Connected(), 0) // nobody is that is configured
	third := dial()
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("a connection beyond the limit is served")
	}
	eventually(t, "it is counted", func() bool { return s.Status()[0].Rejected == 1 })
	other.Close()
	eventually(t, "there is room again", func() bool {
		rw := dial()
		defer rw.Close()
		_, err := rw.Read(make([]byte, 1))
		return err == nil
	})
	equal(t, "role", ask(t, c, &openflow.RoleRequest{}), any(&openflow.RoleReply{Role: openflow.RoleEqual, Generation: ^uint64(0)}))
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	unix := config.Listener{Listen: config.Endpoint{Method: "unix", Address: filepath.Join(dir, "x")}, Peers: peers()}
	tests := []struct {
		name, want string
		edit       func(*config.Config)
	}{
		{"address in use", "listen at tcp:" + taken.Addr().String() + ": ", func(c *config.Config) {
			c.Listen = []config.Listener{unix, {Listen: config.Endpoint{Method: "tcp", Address: taken.Addr().String()}}}
		}},
		{"path in use", "listen at unix:" + unix.Listen.Address + ": ", func(c *config.Config) { c.Listen = []config.Listener{unix, unix} }},
		{"no certificate", "read certificate: ", func(c *config.Config) { c.TLS = &config.TLS{Certificate: "/none", Key: "/none"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := &config.Config{Limits: config.Limits{Channels: 1}}
			tt.edit(cfg)
			if c, err := Open(t.Context(), cfg, Handler{}, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Open = %v, %v, want an error with %q", c, err, tt.want)
			}
			if _, err := net.Dial("unix", unix.Listen.Address); err == nil {
				t.Error("a listener is left")
			}
		})
	}
}

// TestClose: nothing is left of channels in whatever state, and the end of the context is as good.
func TestClose(t *testing.T) {
	for _, how := range []string{"Close", "context"} {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "forwarder")
			cfg, err := config.Parse("f", []byte("ports: [eth1]\ncontrollers: [unix:/none]\nlisten: [\"unix:"+path+"\"]\n"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := Open(ctx, cfg, Handler{}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			silent, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			rw, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			c := channel.Start(rw, channel.Options{})
			defer c.Close()
			ask(t, c, &openflow.BarrierRequest{})
			if how == "context" {
				cancel()
				select {
				case <-c.Done():
				case <-within(t).Done():
					t.Fatal("the channel goes on")
				}
			}
			s.Close()
			equal(t, "channels", len(*s.channels.Load()), 0)
			if _, err := net.Dial("unix", path); err == nil {
				t.Error("the listener is left")
			}
		})
	}
}

// TestCloseLosesNobody: the fail modes are for controllers that are gone, not for a forwarder that is.
func TestCloseLosesNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "controller")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := newStage(t, func(c *config.Config) {
		c.Controllers = []config.Controller{{Connect: config.Endpoint{Method: "unix", Address: path}, Peers: peers()}}
	})
	ask(t, accepted(t, l), &openflow.BarrierRequest{})
	s.Close()
	equal(t, "connected", s.Connected(), 0)
	equal(t, "changes", s.changes, []bool{true})
}
