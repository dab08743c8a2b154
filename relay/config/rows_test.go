package config

import (
	"strings"
	"testing"

	"baton/document/documenttest"
)

// TestWhatToWrite holds messages that say what to write instead.
func TestWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"entries: [{early_syn: true}]":      `f:1:23: entries[0].early_syn: "true" is not a way to treat a SYN early (off, optimistic or connect-first)`,
		"entries: [{early_syn: optimstic}]": `f:1:23: entries[0].early_syn: "optimstic" is not a way to treat a SYN early (did you mean optimistic?)`,
		"choose: {margin: 10}":              `f:1:18: choose.margin: "10" has no percent sign (from 1% to 1000%)`,
	} {
		if _, err := Parse("f", []byte(text)); !documenttest.Told(err, want) {
			t.Errorf("%s: got\n%v\nwant\n%s", text, err, want)
		}
	}
}

// TestOneSetOfNames: where a process can be asked has the same keys in all configurations; those of before are read, and named nowhere.
func TestOneSetOfNames(t *testing.T) {
	for _, text := range []string{"control: /a\nmetrics: \"127.0.0.1:1\"\n", "listen: {control: /a, metrics: \"127.0.0.1:1\"}\n"} {
		cfg, err := Parse("f", []byte(text+minimal))
		if err != nil || cfg.Listen.Control != "/a" || cfg.Listen.Metrics != "127.0.0.1:1" {
			t.Errorf("%s: %+v, %v", text, cfg, err)
		}
	}
	if _, err := Parse("f", []byte("lisen: {}\n"+minimal)); err == nil || strings.Contains(err.Error(), "listen") {
		t.Errorf("a key of before is named: %v", err)
	}
}
