package examples_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"baton/purge/config"
)

const purgeGuide = "../docs/purge.md"

func TestPurgeExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("purge/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatalf("found %v only", files)
	}
	for _, f := range files {
		if _, err := config.Load(f); err != nil {
			t.Error(err)
		}
	}
}

// TestPurgeGuideLoads does the same with those in the guide.
func TestPurgeGuideLoads(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, purgeGuide), -1)
	if len(blocks) < 1 {
		t.Error("no configuration in it")
	}
	for _, m := range blocks {
		if _, err := config.Parse("guide", []byte(m[1])); err != nil {
			t.Errorf("%v in\n%s", err, m[1])
		}
	}
}
