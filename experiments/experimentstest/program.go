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
	return build(t, "baton")
}

// Programs builds baton and baton-cdn side by side, and returns the path of baton.
func Programs(t *testing.T) string {
	t.Helper()
	return build(t, "baton", "baton-cdn")
}

func build(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-p", "1", "-o", dir + "/"}
	for _, name := range names {
		args = append(args, "baton/cmd/"+name)
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build %v: %v\n%s", names, err, out)
	}
	return filepath.Join(dir, names[0])
}
