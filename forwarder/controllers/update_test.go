package controllers

import (
	"net"
	"path/filepath"
	"testing"

	"baton/forwarder/config"
	"baton/openflow"
	"baton/openflow/channel"
)

// TestUpdate: what both configurations have goes on, what the new one lacks ends, and one that cannot be had changes nothing.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) config.Endpoint {
		return config.Endpoint{Method: "unix", Address: filepath.Join(dir, name)}
	}
	l, err := net.Listen("unix", at("controller").Address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	with := func(listen ...string) *config.Config {
		c := &config.Config{Retry: soon, Limits: config.Limits{Channels: 4}}
		for _, name := range listen {
			c.Listen = append(c.Listen, config.Listener{Listen: at(name), Peers: peers()})
		}
		return c
	}
	s := newStage(t, func(c *config.Config) { c.Listen, c.Limits.Channels, c.Retry = with("a", "b").Listen, 4, soon })
	dial := func(name string) *channel.Conn {
		rw, err := net.Dial("unix", at(name).Address)
		if err != nil {
			t.Fatal(err)
		}
		c := channel.Start(rw, channel.Options{Idle: long, Dead: 2 * long})
		t.Cleanup(func() { c.Close() })
		ask(t, c, &openflow.BarrierRequest{})
		return c
	}
	stays, goes := dial("a"), dial("b")

	next := with("a", "c")
	next.Controllers = []config.Controller{{Connect: at("controller"), Peers: peers()}}
	if err := s.Update(next); err != nil {
		t.Fatal(err)
	}
	ask(t, stays, &openflow.BarrierRequest{})
	if _, err := goes.Receive(within(t)); err == nil {
		t.Error("the channel of a listener that is gone goes on")
	}
	if _, err := net.Dial("unix", at("b").Address); err == nil {
		t.Error("a listener that is gone listens")
	}
	dial("c")
	ask(t, accepted(t, l), &openflow.BarrierRequest{})
	equal(t, "connected", s.Connected(), 1)

	refused := with("c")
	refused.Listen[0].Listen = config.Endpoint{Method: "unix", Address: dir} // a folder
	if err := s.Update(refused); err == nil {
		t.Error("a listener that cannot be had is no error")
	}
	ask(t, stays, &openflow.BarrierRequest{})
	equal(t, "endpoints", len(s.Status()), 3)

	if err := s.Update(with("a")); err != nil { // the last controller is gone, and that is reported
		t.Fatal(err)
	}
	eventually(t, "the controller is gone", func() bool { return s.Connected() == 0 })
	ask(t, stays, &openflow.BarrierRequest{})
	s.Do(func() {})
	s.mu.Lock()
	defer s.mu.Unlock()
	equal(t, "changes", s.changes, []bool{true, false})
}
