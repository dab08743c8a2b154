package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"baton/document/documenttest"
)

// TestWhatToWrite holds messages that say what to write instead.
func TestWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		"links: eth0\n":                            "f:1:8: links: must be a list: [eth0]",
		"links: [eth0]\nmethod: leas\n":            `f:2:9: method: "leas" is not a method (did you mean least?)`,
		"links: [eth0]\nmethod: turns\n":           `f:2:9: method: "turns" is not a method (did you mean round-robin?)`,
		"links: [eth0]\ntogether: 1m\n":            `f:2:1: together: is not a key (did you mean affinity?)`,
		"links: [eth0]\nrules: [{together: 1m}]\n": `f:2:10: rules[0].together: is not a key (did you mean affinity?)`,
		"inside: {table: 300}\nlinks: [eth0]\n":    `f:1:1: inside: is not a key (did you mean internal?)`,
		"method: last\nlinks: [eth0, wlan0]\nrules: [{links: [wlan1, dsl], to: [192.0.2.1]}]\n": `f:1:9: method: "last" is not a method (did you mean least?)
f:3:18: rules[0].links[0]: "wlan1" is not a link (did you mean wlan0?)
f:3:25: rules[0].links[1]: "dsl" is not a link (one of eth0, wlan0)`,
		"links: [eth0]\nrules: [{services: [tpc/443, sctp, 443/tcp]}]\n": `f:2:21: rules[0].services[0]: "tpc/443" is not a service (did you mean tcp?)
f:2:30: rules[0].services[1]: "sctp" is not a service (such as tcp/443, udp/8000-8100 or tcp)
f:2:36: rules[0].services[2]: "443/tcp" is not a service (such as tcp/443, udp/8000-8100 or tcp)`,
		"links: [eth0, wlan0]\nrules: [{links: [wlan1], to: [192.0.2.1]}]\n": `f:2:18: rules[0].links[0]: "wlan1" is not a link (did you mean wlan0?)`,
	} {
		if _, err := Parse("f", []byte(text)); !documenttest.Reported(err, want) {
			t.Errorf("%s: got\n%v\nwant\n%s", text, err, want)
		}
	}
}

// TestUnknownUser: a user that does not exist on this host is reported with its place, as a mistake in the file.
func TestUnknownUser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	text := "links: [eth0]\nrules:\n  - {application: {user: root}, links: [eth0]}\n  - {application: {user: 4242}, links: [eth0]}\n  - {application: {user: nosuchuser}, links: [eth0]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(file)
	want := file + `:5:26: rules[2].application.user: "nosuchuser" is not a user of this host (a user's name or number: see getent passwd)`
	var mistake *Error
	if !errors.As(err, &mistake) || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
