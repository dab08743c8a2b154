package config

import (
	"testing"

	"baton/document/documenttest"
)

// TestWhatToWrite holds messages that say what to write instead.
func TestWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"ports: [eth0]\nfail_mode: standlone\n": `f:2:12: fail_mode: "standlone" is not a mode (did you mean standalone?)`,
		"ports: eth0\n":                         "f:1:8: ports: is a single value (interfaces by number, or a list of interfaces)",
	} {
		if _, err := Parse("f", []byte(text)); !documenttest.Told(err, want) {
			t.Errorf("%s: got\n%v\nwant\n%s", text, err, want)
		}
	}
}
