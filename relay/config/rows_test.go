package config

import (
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
