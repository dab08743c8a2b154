package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// says runs a program and returns its version.
func says(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), command[0], append(command[1:], "--version")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestProgramHasNoName: the file is built once, for each version, and unlinked. A program that runs another one finds it too.
func TestProgramHasNoName(t *testing.T) {
	t.Setenv(folderKey, "")
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	path, err := Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Program("baton")
	if err != nil || again != path {
		t.Errorf("the second time it is %s, %v; want %s", again, err, path)
	}
	newer, err := ProgramOf("baton", "upgraded")
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	if version := says(t, "env", path); strings.Contains(version, "upgraded") {
		t.Errorf("it says %s", version)
	}
	if version := says(t, "env", newer); !strings.Contains(version, "upgraded") {
		t.Errorf("the upgraded one says %s", version)
	}
	dir := t.TempDir()
	if err := InstallPrograms(dir, "baton"); err != nil {
		t.Fatal(err)
	}
	says(t, filepath.Join(dir, "baton"))
	if _, err := Program("none"); err == nil || !strings.Contains(err.Error(), "build none") {
		t.Errorf("a program that is not there: %v", err)
	}
}

func init() { runtime.LockOSThread() } // TestMain runs on the main thread

// TestMain has a main thread without the descriptors of the others, as one that a relay's worker has taken.
func TestMain(m *testing.M) {
	done := make(chan int)
	go func() { done <- m.Run() }()
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		panic(err)
	}
	os.Exit(<-done)
}

// TestFolder has programs that are built already.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(folderKey, dir)
	for _, name := range []string{"baton", "baton-upgraded"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, err := Program("baton")
	if err != nil || path != filepath.Join(dir, "baton") {
		t.Errorf("%s, %v", path, err)
	}
	if path, err = ProgramOf("baton", "upgraded"); err != nil || path != filepath.Join(dir, "baton-upgraded") {
		t.Errorf("upgraded: %s, %v", path, err)
	}
	if _, err = Program("baton-lab"); err == nil || !strings.Contains(err.Error(), folderKey) {
		t.Errorf("a program that the folder has not: %v", err)
	}
	installed := t.TempDir()
	if err := InstallPrograms(installed, "baton"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(installed, "baton")); err != nil || string(text) != "baton" {
		t.Errorf("installed: %q, %v", text, err)
	}
}
