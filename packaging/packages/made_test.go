package packages_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Versions of packages that tests install one after the other.
const (
	older = "0.1.0~test1"
	newer = "0.1.0~test2"
)

// usual are the formats of the tests of every run.
const usual = "deb oci sbom"

// made is where the packages of all tests go, a folder for each version and set of formats.
var made string

func TestMain(m *testing.M) {
	var err error
	if made, err = os.MkdirTemp("", "baton-packages-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(made)
	os.Exit(status)
}

// makePackages returns the folder with a version's files of this machine's processor, which the first test that needs them makes.
func makePackages(t *testing.T, version, formats string) string {
	t.Helper()
	dir := filepath.Join(made, strings.ReplaceAll(version+" "+formats, " ", "-"))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	packageInto(t, dir, "BATON_VERSION="+version, "ARCHES="+runtime.GOARCH, "FORMATS="+formats)
	return dir
}

func packageInto(t *testing.T, dir string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "packaging/package.sh", dir)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		t.Fatalf("make packages: %v\n%s", err, out)
	}
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
