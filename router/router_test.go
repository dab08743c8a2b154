package router

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"

	"baton/lab"
	"baton/router/config"
)

// TestTheClockIsSetBeforeLegsOpen: legs are opened as soon as the router runs, before its tables are in force. Without the
// offset, the kernel would send the first legs' surrogates two clocks, up to half a ring apart.
func TestTheClockIsSetBeforeLegsOpen(t *testing.T) {
	lab.NeedRoot(t)
	r := newRouter(t)
	got, err := r.kernel.Config()
	if err != nil {
		t.Fatal(err)
	}
	if r.clock.offset == 0 || got.TSOffset != r.clock.offset || len(r.clock.mss) == 0 || !slices.Equal(got.MSS, r.clock.mss) || !got.Closed {
		t.Errorf("the kernel has %+v, want offset %d, classes %v and closed", got, r.clock.offset, r.clock.mss)
	}
}

// TestReloadBeforeTheStart: a router that has not started yet refuses a reload, and does not end by it.
func TestReloadBeforeTheStart(t *testing.T) {
	lab.NeedRoot(t)
	r := newRouter(t)
	if _, err := r.Reload(); err == nil {
		t.Error("a reload before the start")
	}
}

// newRouter makes a router of a VIP on loopback that does not run.
func newRouter(t *testing.T) *Router {
	t.Helper()
	dir := fmt.Sprintf("/sys/fs/bpf/baton-new-%d", os.Getpid())
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	cfg, err := config.Parse("f", fmt.Appendf(nil, `state: %s
vips: [{address: "127.0.0.9:80", interfaces: [lo], routes: [{pool: p}]}]
pools: {p: {surrogates: [{name: s, address: "127.0.0.10:80"}]}}
`, dir))
	if err != nil {
		t.Fatal(err)
	}
	load := func() (*config.Config, error) { return cfg, nil }
	r, err := New(Options{Config: cfg, Load: load, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}
