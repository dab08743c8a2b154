package baton_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"baton/datapath"
)

// TestOneMinimumKernel: documents name the oldest kernel that datapath requires, and no older one. Reports say what they ran on, and decisions why.
func TestOneMinimumKernel(t *testing.T) {
	required := regexp.MustCompile(`(?:Linux|kernel older than Linux|kernel older than) (\d+\.\d+)( or newer)?`)
	stated := make(map[string]bool)
	each := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range required.FindAllStringSubmatch(string(text), -1) {
			if m[1] == datapath.MinimumKernel {
				stated[path] = true
			} else if m[2] != "" || older(t, m[1], datapath.MinimumKernel) {
				t.Errorf("%s: %q: the oldest kernel is %s", path, m[0], datapath.MinimumKernel)
			}
		}
	}
	err := filepath.WalkDir("docs", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "results" || entry.Name() == "decisions") {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".md") {
			each(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"README.md", "CONTRIBUTING.md"} {
		each(path)
	}
	for _, path := range []string{
		"README.md", "CONTRIBUTING.md", "docs/install.md", "docs/router.md", "docs/forwarder.md", "docs/purge.md", "docs/balance.md", "docs/faq.md", "docs/kubernetes.md",
	} {
		if !stated[path] {
			t.Errorf("%s does not say Linux %s", path, datapath.MinimumKernel)
		}
	}
}

func older(t *testing.T, a, b string) bool {
	t.Helper()
	var version [2][2]int
	for i, text := range []string{a, b} {
		if _, err := fmt.Sscanf(text, "%d.%d", &version[i][0], &version[i][1]); err != nil {
			t.Fatal(err)
		}
	}
	return slices.Compare(version[0][:], version[1][:]) < 0
}
