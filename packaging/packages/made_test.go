package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Versions of packages that tests install one after the other.
const (
	older = "0.1.0~test1"
	newer = "0.1.0~test2"
)

// makePackages makes packages of a version in a folder of their own.
func makePackages(t *testing.T, version string, env ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dist")
	cmd := exec.CommandContext(t.Context(), "packaging/package.sh", dir)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), append([]string{"BATON_VERSION=" + version, "ARCHES=" + runtime.GOARCH, "FORMATS=deb"}, env...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make packages: %v\n%s", err, out)
	}
	return dir
}

// one returns the only file in a folder with this pattern.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %s: %v, %v", pattern, dir, found, err)
	}
	return found[0]
}

// block returns the n-th block of commands below a heading of a page.
func block(t *testing.T, page, heading string, n int) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "\n## "+heading+"\n")
	below, _, _ = strings.Cut(below, "\n## ")
	blocks := strings.Split(below, "```sh\n")
	if !found || len(blocks) <= n {
		t.Fatalf("%s has no block %d of commands below %q", page, n, heading)
	}
	commands, _, _ := strings.Cut(blocks[n], "```")
	return commands
}

// commandsIn counts what a user types: a line each, with the text that it is given.
func commandsIn(script string) int {
	count, within := 0, ""
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		switch {
		case within != "":
			if line == within {
				within = ""
			}
			continue
		case line == "":
			continue
		}
		count++
		if _, end, here := strings.Cut(line, "<<"); here {
			within = strings.Trim(end, "'")
		}
	}
	return count
}
