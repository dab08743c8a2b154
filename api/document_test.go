package api

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackageCommentIsComplete: the package comment has every endpoint, and the comment of Part every backend.
func TestPackageCommentIsComplete(t *testing.T) {
	comment, part := read(t, "process.go"), read(t, "handler.go")
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	endpoints, backends := 0, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := read(t, file)
		for _, m := range regexp.MustCompile(`HandleFunc\("(GET|POST) (/v1/[a-z/]+[a-z])"`).FindAllStringSubmatch(text, -1) {
			endpoints++
			if !regexp.MustCompile(`(?m)^//\t` + m[1] + ` +` + m[2] + ` `).MatchString(comment) {
				t.Errorf("the package comment lacks %s %s", m[1], m[2])
			}
		}
		for _, m := range regexp.MustCompile(`func \(b? ?(\w+Backend)\) name\(\)`).FindAllStringSubmatch(text, -1) {
			backends++
			if list := strings.SplitN(part, "type Part interface", 2)[0]; !strings.Contains(list, m[1]) {
				t.Errorf("the comment of Part lacks %s", m[1])
			}
		}
	}
	if endpoints < 12 || backends != 8 {
		t.Errorf("%d endpoints and %d backends: the test reads the package wrongly", endpoints, backends)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
