package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReactive: the settings of a VIP whose sessions a controller hands over, and what is refused.
func TestReactive(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const rest = "\n    routes: [{pool: p}]\npools:\n  p:\n    surrogates: [{name: s1, address: \"10.2.1.2:80\"}]\n"
	load := func(t *testing.T, vip string) (*Config, error) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "router.yaml")
		if err := os.WriteFile(file, []byte("vips:\n  - address: 10.9.9.9:80\n    "+vip+rest), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(file)
	}
	cfg, err := load(t, "mode: reactive\n    controller: {url: [\"ws://10.0.0.9:8080\", \"ws://10.0.0.8:8080\"], name: rr1, token_file: "+token+", local: 10.9.9.9, legs: 3, max_age: 5s}")
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.VIPs[0].Controller
	if len(c.URLs) != 2 || c.Name != "rr1" || c.Token != "secret" || c.Legs != 3 || c.MaxAge != 5*time.Second || c.Local.String() != "10.9.9.9" {
		t.Errorf("%+v", c)
	}
	if cfg, err = load(t, "mode: reactive\n    controller: {url: \"wss://10.0.0.9:8443\"}"); err != nil {
		t.Fatal(err)
	}
	if other := cfg.VIPs[0].Controller; other.Legs != 8 || other.MaxAge != 30*time.Second || other.String() == c.String() || (*Controller)(nil).String() != "" {
		t.Errorf("%+v", other)
	}
	for vip, want := range map[string]string{
		"mode: reactive": "vips[0].controller: is missing",
		"mode: proxy\n    controller: {url: \"ws://10.0.0.9:1\"}":                      "vips[0].controller: is for mode reactive alone",
		"mode: reactive\n    controller: {legs: 2}":                                    "vips[0].controller.url: is missing",
		"mode: reactive\n    controller: {url: \"ftp://a\"}":                           "is not ws or wss or http or https",
		"mode: reactive\n    controller: {url: []}":                                    "is an empty list",
		"mode: reactive\n    controller: {url: \"ws://a\", legs: 0}":                   "vips[0].controller.legs",
		"mode: reactive\n    controller: {url: \"ws://a\", certificate: /a}":           "has one of certificate and key",
		"mode: reactive\n    controller: {url: \"ws://a\", local: \"fd00::1\"}":        "is of another address family",
		"mode: reactive\n    controller: {url: \"ws://a\", token_file: /nowhere}":      "vips[0].controller.token_file",
		"mode: reactive\n    controller: {url: \"wss://a\", authority: " + token + "}": "vips[0].controller.authority",
		"mode: reactive\n    protocol: tls\n    controller: {url: \"ws://a\"}":         "reactive needs requests that are not encrypted",
		"mode: reactive\n    controller: {url: \"ws://a\", tokenfile: /a}":             "did you mean token_file",
	} {
		if _, err := load(t, vip); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", vip, err, want)
		}
	}
}
