package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestConformanceRefuses: what is typed wrong is said in one line, and nothing is built.
func TestConformanceRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		args, want string
		code       int
	}{
		{"--target batton", `--target "batton": want one of ovs, baton, ovs-defaults`, exitUsage},
		{"--benches -1", "--benches -1: want 1 or more", exitUsage},
		{"match", `unknown command "match"`, exitUsage},
		{"--python absent", "find os-ken: absent does not exist: make deps brings it", exitFailure},
		{"", "find os-ken: bin/python/bin/python does not exist: make deps brings it", exitFailure},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), env{out: &out, err: &errs}, append([]string{"conformance"}, strings.Fields(tt.args)...))
			if code != tt.code || !strings.Contains(errs.String(), tt.want) || strings.Count(errs.String(), "\n") != 1 || out.Len() > 0 {
				t.Errorf("exit code %d, output %q, errors %q; want %d and a line with %q", code, out.String(), errs.String(), tt.code, tt.want)
			}
		})
	}
}
