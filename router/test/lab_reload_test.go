package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"baton/api"
	"baton/lab"
)

// TestReloadedTimeouts shortens timeouts while clients wait that the old ones would not end for long.
func TestReloadedTimeouts(t *testing.T) {
	n := newNetwork(t)
	s := n.site("s1", lab.LinkOptions{})
	serve(t, s.Host, s.name)
	config := func(timeouts string) string {
		return fmt.Sprintf("timeouts: %s\nvips:\n  - {address: %q, interfaces: [%s], routes: [{pool: p}]}\n"+
			"pools:\n  p: {surrogates: [{name: s1, address: %q}]}\n", timeouts, vip4, n.front.Name, s.v4)
	}
	r := n.start(config("{handshake: 1h, idle: 1h, closing: 1h}"))
	reload := func(timeouts string) {
		t.Helper()
		if err := r.configure(config(timeouts)); err != nil {
			t.Fatal(err)
		}
		r.reload(t)
	}
	slow, idle := n.open(t, vip4), n.open(t, vip4)
	if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\nHost: a\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := idle.get("a.test", "/bytes/100")
	got.expect(t, err, "s1", 200, patternText(100))

	reload("{handshake: 500ms, idle: 1h, closing: 1h}")
	if err := slow.SetReadDeadline(time.Now().Add(answersWithin)); err != nil {
		t.Fatal(err)
	}
	if got, err := slow.read("GET"); err != nil || got.StatusCode != 408 {
		t.Fatalf("half a request: %v %v, want 408", got.Response, err)
	}
	got, err = idle.get("a.test", "/bytes/100") // it was not ended
	got.expect(t, err, "s1", 200, patternText(100))

	reload("{handshake: 500ms, idle: 1s, closing: 1h}")
	if err := idle.SetReadDeadline(time.Now().Add(answersWithin)); err != nil {
		t.Fatal(err)
	}
	if _, err := idle.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("idle session: %v, want a reset", err)
	}
}

// TestReloadRefuses: a file that cannot take effect leaves the whole old configuration in force.
func TestReloadRefuses(t *testing.T) {
	n := newNetwork(t)
	s := n.site("s1", lab.LinkOptions{})
	serve(t, s.Host, s.name)
	config := func(pool, more string) string {
		return fmt.Sprintf("%svips:\n  - {address: %q, interfaces: [%s], routes: [{pool: p}]}\npools:\n  p: {%ssurrogates: [{name: s1, address: %q}]}\n",
			more, vip4, n.front.Name, pool, s.v4)
	}
	r := n.start(config("", ""))
	client := api.NewClient(r.socket)
	defer client.Close()
	for _, tt := range []struct{ name, config, want string }{
		{"legs beyond the queues", config("legs: {max: 5000}, ", ""), "legs.max: more than 4096 takes effect only after a restart"},
		{"limits", config("", "limits: {sessions: 1000}\n"), "limits: takes effect only after a restart"},
		{"syntax", "vips: [", "is not YAML"},
	} {
		if err := r.configure(tt.config); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Reload(context.Background()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		got, err := n.open(t, vip4).get("a.test", "/bytes/100")
		got.expect(t, err, "s1", 200, patternText(100))
	}
	if err := r.configure(config("legs: {max: 4096}, ", "")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Reload(context.Background()); err != nil {
		t.Errorf("legs up to the queues: %v", err)
	}
}
