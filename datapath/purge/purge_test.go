package purge

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"baton/datapath/kerneltest"
)

// TestPurgeVerdictNames: each verdict has a name of its own.
func TestPurgeVerdictNames(t *testing.T) {
	seen := make(map[string]bool)
	for v, name := range Verdicts() {
		if name == "" || name != strings.ToLower(name) || seen[name] {
			t.Errorf("verdict %d is called %q", v, name)
		}
		seen[name] = true
	}
}

// TestPurgeLeavesNothing: when a Purge is closed, its programs are gone.
func TestPurgeLeavesNothing(t *testing.T) {
	kerneltest.Need(t)
	before := kerneltest.Programs(t, "purge_watch")
	p, err := Load(Options{Marks: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if fresh, err := p.AttachCgroup("/"); err != nil || fresh != (i == 0) {
			t.Errorf("attach %d: %v, %v", i, fresh, err)
		}
	}
	for range 2 {
		if fresh, err := p.AttachCgroup("/baton-no-such-group"); !errors.Is(err, fs.ErrNotExist) || fresh {
			t.Errorf("attach to a missing group: %v, %v", fresh, err)
		}
	}
	if err := p.Arm(); err != nil {
		t.Error(err)
	}
	if now := kerneltest.Programs(t, "purge_watch"); now != before+1 {
		t.Errorf("%d programs, want %d", now, before+1)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // the kernel takes its time
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for left := kerneltest.Programs(t, "purge_watch"); left > before; left = kerneltest.Programs(t, "purge_watch") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d programs, want %d", left, before)
		}
	}
}
