package examples_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"baton/api"
	"baton/nameserver"
	"baton/nameserver/answer"
	"baton/nameserver/config"
	"baton/nameserver/metrics"
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

// TestNameserverGuide: what it shows loads, and it explains each key and each metric that there is.
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
	for _, key := range found(t, "../nameserver/config/*.go", `\{Name: "([a-z_0-9]+)", Decode: func\(`, 30) {
		if !regexp.MustCompile("`([A-Za-z_\\[\\]]+\\.)*" + key + "[`.]").MatchString(text) {
			t.Errorf("the guide lacks the key %s", key)
		}
	}
	s := api.NameserverStatus{
		Answers: map[string]uint64{"routed": 1}, Refused: map[string]uint64{"REFUSED": 1}, Zones: make([]api.NameserverZone, 1), Services: make([]api.NameserverService, 1),
		Surrogates: make([]api.NameserverSurrogate, 1),
	}
	for _, n := range metrics.Series(&s) {
		if !strings.Contains(text, "`"+n.Name+"`") && !strings.Contains(text, "`"+n.Name+"{") {
			t.Errorf("the guide lacks the metric %s", n.Name)
		}
	}
}
