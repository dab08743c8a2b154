package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"baton/lab"
)

// asBaton in the environment makes the test's binary be baton.
const asBaton = "BATON_TEST_IS_BATON"

func TestMain(m *testing.M) {
	if os.Getenv(asBaton) != "" {
		main()
	}
	os.Exit(m.Run())
}

const long = 20 * time.Second // for what takes a moment on an idle machine

// baton runs the command to its end, in a folder of the test's own.
func baton(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*long)
	defer cancel()
	cmd := command(ctx, dir, args...)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("baton %v does not end: %s", args, errors.String())
	}
	return out.String(), errors.String(), lab.ExitCode(err)
}

func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asBaton+"=1")
	cmd.Dir = dir
	return cmd
}

// must runs a command that has to succeed.
func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, stderr, code := baton(t, dir, args...)
	if code != 0 {
		t.Fatalf("baton %v: exit code %d: %s", args, code, stderr)
	}
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
