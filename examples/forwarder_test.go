package examples_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"baton/forwarder/config"
)

const forwarderGuide = "../docs/forwarder.md"

// TestForwarderDocumentsLoad loads the configurations of the forwarder that documents show.
func TestForwarderDocumentsLoad(t *testing.T) {
	for f, expression := range map[string]string{
		"../docs/forwarder-tutorial.md": "(?s)```yaml\n(ports:.*?)```", forwarderGuide: "(?s)<<'END'\n(.*?)END\n",
	} {
		m := regexp.MustCompile(expression).FindStringSubmatch(read(t, f))
		if m == nil {
			t.Errorf("no configuration in %s", f)
			continue
		}
		cfg, err := config.Parse(f, []byte(m[1]))
		if err != nil {
			t.Errorf("%v in\n%s", err, m[1])
			continue
		}
		for _, w := range cfg.Warnings {
			t.Errorf("warning: %s", w)
		}
	}
}

// TestForwarderGuideNames: the guide explains each key, metric and verdict that there is.
func TestForwarderGuideNames(t *testing.T) {
	text := read(t, forwarderGuide)
	keys := found(t, "../forwarder/config/*.go", `\{Name: "([a-z_]+)", Decode: func\(`, 25)
	metrics := append(found(t, "../forwarder/metrics.go", `n\.(?:Counter|GaugeInt|Gauge)\("([a-z_]+)"`, 10),
		found(t, "../forwarder/metrics.go", `\{"([a-z_]+)",`, 9)...)
	verdicts := slices.DeleteFunc(found(t, "../datapath/forwarder/verdict_names.go", `: +"([a-z_]+)"`, 15), func(name string) bool {
		return name == "megaflows_hit" || name == "microflows_hit" || strings.HasSuffix(name, "_lost") // metrics of their own
	})
	for what, names := range map[string][]string{"key": keys, "metric": metrics, "verdict": verdicts} {
		for _, name := range names {
			if !regexp.MustCompile("`([a-z_]+\\.)?" + name + "[`.]|\\b" + name + ": [0-9]").MatchString(text) {
				t.Errorf("the guide lacks the %s %s", what, name)
			}
		}
	}
}
