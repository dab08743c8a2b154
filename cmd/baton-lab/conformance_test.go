package main

import (
	"bytes"
	"strings"
	"testing"

	"baton/cmd/cli"
)

// TestConformanceRefuses: what is typed wrong is said in one line, and nothing is built.
func TestConformanceRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		args, want string
		code       int
	}{
		{"--target batton", `--target "batton": did you mean baton?`, cli.Usage},
		{"--benches -1", "--benches -1: want 1 or more", cli.Usage},
		{"match", `unexpected argument "match"`, cli.Usage},
		{"--python absent", "find os-ken: absent does not exist: make deps brings it", cli.Failure},
		{"", "find os-ken: bin/python/bin/python does not exist: make deps brings it", cli.Failure},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), cli.Env{Out: &out, Err: &errs}, append([]string{"conformance"}, strings.Fields(tt.args)...))
			if code != tt.code || !strings.Contains(errs.String(), tt.want) || strings.Count(errs.String(), "\n") != 1 || out.Len() > 0 {
				t.Errorf("exit code %d, output %q, errors %q; want %d and a line with %q", code, out.String(), errs.String(), tt.code, tt.want)
			}
		})
	}
}
