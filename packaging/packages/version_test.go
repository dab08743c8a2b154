package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVersion: a tag gives the version; without one it is before the next one of the changes file, and later commits are upgrades.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "packaging"), 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../version.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"packaging/version.sh": string(script), "CHANGELOG.md": "# Changes\n\n## 0.2.0 (not released)\n\n## 0.1.0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "BATON_VERSION=", "SOURCE_DATE_EPOCH=", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_COMMITTER_DATE=2026-11-25T20:00:00+02:00")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git := func(args ...string) {
		run("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@localhost"}, args...)...)
	}
	version := func() string { return run("packaging/version.sh") }

	if got := version(); got != "0.2.0~dev" {
		t.Errorf("outside of git: %q", got)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "a")
	commit := regexp.MustCompile(`^0\.2\.0~dev\.20261125180000\.g[0-9a-f]{9}$`)
	if got := version(); !commit.MatchString(got) {
		t.Errorf("a commit without a tag: %q", got)
	}
	if got := run("packaging/version.sh", "--date"); got != "1795629600" {
		t.Errorf("its time: %q", got)
	}
	git("tag", "v0.2.0")
	if got := version(); got != "0.2.0" {
		t.Errorf("a tag: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte("# Changes\n\n## 0.3.0 (not released)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := version(); !strings.HasPrefix(got, "0.3.0~dev.") || !strings.HasSuffix(got, ".dirty") {
		t.Errorf("changed files: %q", got)
	}
}
