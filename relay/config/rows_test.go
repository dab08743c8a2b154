package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/document/documenttest"
)

// TestWhatToWrite holds messages that say what to write instead.
func TestWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"entries: [{early_syn: true}]":      `f:1:23: entries[0].early_syn: "true" is not a kind of early SYN (off, optimistic or connect-first)`,
		"entries: [{early_syn: optimstic}]": `f:1:23: entries[0].early_syn: "optimstic" is not a kind of early SYN (did you mean optimistic?)`,
		"choose: {margin: 10}":              `f:1:18: choose.margin: "10" has no percent sign (from 1% to 1000%)`,
	} {
		if _, err := Parse("f", []byte(text)); !documenttest.Reported(err, want) {
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

// TestAllAtOnce: misspelt names, what contradicts itself, and files that are not there are told together.
func TestAllAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	text := `name: frankfurt
plaintext: {secret_file: /nonexistent/secret}
peers: [{name: mumbai, address: "203.0.113.7:7000"}]
entries:
  - {mode: socks5, listen: "127.0.0.1:1080", via: [mumbay]}
  - {mode: plain, listen: "127.0.0.1:1080", destination: "198.51.100.5:80", via: [tokyo]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	want := strings.Join([]string{
		file + `:2:26: plaintext.secret_file: "/nonexistent/secret": no such file or directory (create it, or name another file)`,
		file + `:5:52: entries[0].via[0]: "mumbay" is not a peer (did you mean mumbai?)`,
		file + `:6:27: entries[1].listen: 127.0.0.1:1080 is entries[0].listen already (an address or a port of its own)`,
		file + `:6:83: entries[1].via[0]: "tokyo" is not a peer (peers: [{name: tokyo, address: ...}])`,
	}, "\n")
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
