package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"baton/cmd/cli"
)

// TestOtherProgram: the parts of baton-cdn are run by it, with all arguments and its exit status.
func TestOtherProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, cdn), []byte("#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, d := range elsewhere() {
		for _, args := range [][]string{{"run", "-c", "x.yaml", "--log-level", "debug"}, {"--help"}, {"status", "-o", "json"}, nil} {
			out, errs, code := baton(t, dir, append([]string{d.name}, args...)...)
			if want := strings.Join(append([]string{d.name}, args...), "|") + "|"; out != want || errs != "" || code != 7 {
				t.Errorf("%s %v: status %d, %q, %q; want %q", d.name, args, code, out, errs, want)
			}
		}
	}
}

// TestOtherProgramIsMissing: the error names the package that has it.
func TestOtherProgramIsMissing(t *testing.T) {
	if _, err := exec.LookPath(cdn); err == nil {
		t.Skipf("SKIP: %s is installed here", cdn)
	}
	status, out, errs := said(t, "nameserver", "run", "-c", "x.yaml")
	if status != cli.Failure || out != "" || !strings.Contains(errs, "install the package baton-cdn, or build it: make build\n") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}
