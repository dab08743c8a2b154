// Package examples_test loads every configuration that is shown to a user, and looks whether the user's guide names what there
// is to name.
package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"baton/router/config"
)

const guide = "../docs/router.md"

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 4 {
		t.Fatalf("found %v only", files)
	}
	for _, f := range files {
		t.Run(f, func(t *testing.T) {
			cfg, err := config.Parse(f, []byte(read(t, f))) // the certificates that they name are not here
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range cfg.Warnings {
				t.Errorf("warning: %s", w)
			}
		})
	}
}

// TestDocumentsLoad does the same with the configurations in documents: each block of yaml that has vips.
func TestDocumentsLoad(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	for _, f := range []string{"../README.md", guide, "../docs/tutorials/https.md"} {
		t.Run(filepath.Base(f), func(t *testing.T) {
			found := 0
			for _, m := range block.FindAllStringSubmatch(read(t, f), -1) {
				if !strings.Contains(m[1], "vips:") {
					continue
				}
				found++
				if _, err := config.Parse(f, []byte(m[1])); err != nil {
					t.Errorf("%v in\n%s", err, m[1])
				}
			}
			if found == 0 {
				t.Error("no configuration in it")
			}
		})
	}
}

// TestFullHasEveryKey: full.yaml shows, and the guide explains, each key that the decoder knows.
func TestFullHasEveryKey(t *testing.T) {
	full, text := read(t, "full.yaml"), read(t, guide)
	for _, key := range keysOf(t, "router", 40) {
		if !regexp.MustCompile(`\b` + key + `:`).MatchString(full) {
			t.Errorf("full.yaml lacks the key %s", key)
		}
		if !strings.Contains(text, "`"+key+"`") && !strings.Contains(text, "."+key+"`") {
			t.Errorf("the guide does not explain the key %s", key)
		}
	}
}

// TestGuideNamesMetrics: the guide lists each metric of user space.
func TestGuideNamesMetrics(t *testing.T) {
	text := read(t, guide)
	names := found(t, "../router/metrics/*.go", `(?i:counter|histogram|gauge|gaugeint|yes)\("([a-z_]+)"`, 20)
	for _, name := range names {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("the guide lacks the metric %s", name)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// keysOf gives the keys of a part's decoder.
func keysOf(t *testing.T, part string, least int) []string {
	t.Helper()
	return found(t, "../"+part+"/config/*.go", `\{Name: "([a-z_0-9]+)", (?:Default|Help|Decode)`, least)
}

// found gives what the expression's group matches in the sources, and fails when it is suspiciously little.
func found(t *testing.T, pattern, expression string, least int) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(read(t, f), -1) {
			all = append(all, m[1])
		}
	}
	if len(all) < least {
		t.Fatalf("only %d of at least %d found in %s", len(all), least, pattern)
	}
	return all
}
