package guest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCacheMakesOnce: an entry is made once, never half, and used ones stay.
func TestCacheMakesOnce(t *testing.T) {
	t.Setenv(cacheVariable, t.TempDir())
	c, err := OpenCache()
	if err != nil {
		t.Fatal(err)
	}
	built := 0
	build := func(dir string) error {
		built++
		return os.WriteFile(filepath.Join(dir, "f"), []byte("all"), 0o644)
	}
	broken := errors.New("broken")
	if _, err := c.make(t.Context(), "root-a", func(dir string) error { return errors.Join(build(dir), broken) }); !errors.Is(err, broken) {
		t.Errorf("a build that fails: %v", err)
	}
	for range 2 {
		path, err := c.make(t.Context(), "root-a", build)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(filepath.Join(path, "f")); string(b) != "all" {
			t.Errorf("the entry has %q", b)
		}
	}
	if built != 2 {
		t.Errorf("built %d times, want once after the one that failed", built)
	}
	old, _ := c.make(t.Context(), "root-old", build)
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-unused-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what nobody uses is still there")
	}
	if _, err := os.Stat(filepath.Join(c.dir, "root-a")); err != nil {
		t.Error("what is used has gone")
	}
}
