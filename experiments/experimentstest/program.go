// Package experimentstest is for the tests of experiments.
package experimentstest

import (
	"path/filepath"
	"testing"

	"baton/lab/build"
)

// Program builds the program baton and returns its path, which is gone with the test.
func Program(t *testing.T) string {
	t.Helper()
	return install(t, "baton")
}

// Programs builds baton and baton-cdn side by side, and returns the path of baton.
func Programs(t *testing.T) string {
	t.Helper()
	return install(t, "baton", "baton-cdn")
}

func install(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := build.InstallPrograms(dir, names...); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, names[0])
}
