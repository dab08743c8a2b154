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

// TestOldKeys: a renamed key is refused with its new name, and the new one is not reported missing.
func TestOldKeys(t *testing.T) {
	const rest = "entries: [{listen: \"192.0.2.1:443\", destination: \"203.0.113.5:443\", via: [b]}]\n"
	for text, want := range map[string]string{
		"listen: {control: /a}\n" + minimal: `f:1:1: listen: is not a key (did you mean control or metrics?)`,
		"name: a\ncredentials: {certificate: /c, key: /k, ca: /a}\npeers: [{name: b, address: \"192.0.2.2:1\"}]\n" + rest: `f:2:1: credentials: is not a key (did you mean tls or plaintext?)`,
		"name: a\ntls: {certificate: /c, key: /k, ca: /a}\npeers: [{name: b, address: \"192.0.2.2:1\"}]\n" + rest:         `f:2:33: tls.ca: is not a key (did you mean authority?)`,
		"name: a\npeers: [{name: b, address: \"192.0.2.2:1\", security: plaintext, secret_file: /s}]\n" + rest: `f:2:43: peers[0].security: is not a key (did you mean tls or plaintext?)
f:2:64: peers[0].secret_file: is not a key (did you mean plaintext.secret_file?)`,
		strings.Replace(minimal, "198.51.100.7:7000\"}", "198.51.100.7:7000\", start: {least: 1, most: 2}}", 1): `f:5:57: peers[0].start.least: is not a key (did you mean min?)
f:5:67: peers[0].start.most: is not a key (did you mean max?)`,
		"choose: {most: 2}\n" + minimal: `f:1:10: choose.most: is not a key (did you mean max_relays?)`,
	} {
		if _, err := Parse("f", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: got\n%v\nwant\n%s", text, err, want)
		}
	}
}
