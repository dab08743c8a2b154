// Package experimentstest is for the tests of experiments.
package experimentstest

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Program builds the program baton and returns its path, which is gone with the test.
func Program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "baton")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-p", "1", "-o", path, "baton/cmd/baton").CombinedOutput(); err != nil {
		t.Fatalf("build baton: %v\n%s", err, out)
	}
	return path
}
