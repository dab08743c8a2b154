package examples_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"baton/nameserver"
	"baton/nameserver/answer"
	"baton/nameserver/config"
)

const nameserverGuide = "../docs/nameserver.md"

// TestNameserverExamples: the examples' zones load without warnings.
func TestNameserverExamples(t *testing.T) {
	files, err := filepath.Glob("nameserver/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		cfg, err := config.Load(f)
		if err != nil {
			t.Fatal(err)
		}
		zones, warnings, err := nameserver.Zones(cfg)
		if err == nil {
			_, err = answer.Compile(zones)
		}
		if err != nil || len(warnings)+len(cfg.Warnings) > 0 {
			t.Errorf("%s: %v, %v, %v", f, err, warnings, cfg.Warnings)
		}
	}
}

// TestNameserverGuide: what it shows loads.
func TestNameserverGuide(t *testing.T) {
	text := read(t, nameserverGuide)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) < 1 {
		t.Error("no configuration in it")
	}
	for _, m := range blocks {
		if cfg, err := config.Parse("guide", []byte(m[1])); err != nil || len(cfg.Warnings) > 0 {
			t.Errorf("%v, %v in\n%s", err, cfg, m[1])
		}
	}
}
