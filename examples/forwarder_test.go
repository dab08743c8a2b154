package examples_test

import (
	"regexp"
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

// TestForwarderGuideNames: the guide explains each key and metric that there is.
func TestForwarderGuideNames(t *testing.T) {
	text := read(t, forwarderGuide)
	keys := keysOf(t, "forwarder", 25)
	metrics := append(found(t, "../forwarder/metrics.go", `n\.(?:Counter|GaugeInt|Gauge)\("([a-z_]+)"`, 10),
		found(t, "../forwarder/metrics.go", `\{"([a-z_]+)",`, 9)...)
	for what, names := range map[string][]string{"key": keys, "metric": metrics} {
		for _, name := range names {
			if !regexp.MustCompile("`([a-z_]+\\.)?" + name + "[`.]|\\b" + name + ": [0-9]").MatchString(text) {
				t.Errorf("the guide lacks the %s %s", what, name)
			}
		}
	}
}
