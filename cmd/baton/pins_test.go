package main

import (
	"path/filepath"
	"strings"
	"testing"

	"baton/forwarder"
	"baton/router/config"
)

// The router takes over every file in its folder of pins: another part's pins there would keep it from starting.
func TestPinsApart(t *testing.T) {
	cfg, err := config.Load("../../packaging/etc/router.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"br0", "balance"} {
		if r, err := filepath.Rel(cfg.Listen.State, forwarder.StatePath(name)); err != nil || !strings.HasPrefix(r, "..") {
			t.Errorf("forwarder %s has its pins in %s, in the router's %s; %v", name, forwarder.StatePath(name), cfg.Listen.State, err)
		}
	}
}
