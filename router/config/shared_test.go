package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sharing is a configuration whose pool has a policy that is read from a file with that content, and more keys of the policy and the pool.
func sharing(t *testing.T, content, more, pool string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	file, policy := filepath.Join(dir, "router.yaml"), filepath.Join(dir, "policy.yaml")
	text := "vips: [{address: \"192.0.2.1:80\", interfaces: [eth0], routes: [{pool: p}]}]\npools:\n  p:\n    policy: {file: " + policy + more + "}\n" + pool
	for name, text := range map[string]string{file: text, policy: content} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Load(file)
}

const (
	sharedSites = "sites: {a: {surrogates: {s1: , s2: {weight: 3}}}}\n"
	sharedPool  = "    surrogates: [{name: s1, address: \"192.0.2.7:80\"}, {name: near/s2, address: \"192.0.2.8:80\"}]\n"
)

func TestShared(t *testing.T) {
	for _, tt := range []struct {
		name, content, more, pool string
		want, warning             string
	}{
		{"plain", sharedSites, "", sharedPool, `"" ""`, ""},
		{"all keys", sharedSites, ", service: CDN.example.net, cookie: sid", sharedPool, `"cdn.example.net" "sid"`, ""},
		{"a name server's file", "zones: []\npolicy:\n  " + strings.TrimSpace(sharedSites) + "\n", "", sharedPool, `"" ""`, ""},
		{"zones", sharedSites, "", sharedPool + "    nearest: [{prefix: 10.0.0.0/8, surrogates: [near/s2]}]\n", `"" ""`, ""},
		{"a stranger", sharedSites, "", sharedPool[:len(sharedPool)-2] + ", {name: s9, address: \"192.0.2.9:80\"}]\n", `"" ""`, `has no surrogate "s9": it gets no sessions`},
		{"weights", sharedSites, "", strings.Replace(sharedPool, "7:80\"", "7:80\", weight: 2", 1), `"" ""`, "a policy of a file has its own weights"},
		{"discovered alone", sharedSites, "", "    discover: {api: true}\n", `"" ""`, ""},
		{"bypass", sharedSites + "bypass: \"origin.test/x\"\n", "", sharedPool, `"" ""`, `bypass "origin.test/x" is not used`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := sharing(t, tt.content, tt.more, tt.pool)
			if err != nil {
				t.Fatal(err)
			}
			p := &cfg.Pools[0]
			if p.Policy != FromFile || !strings.Contains(settingsOf(p.Shared), tt.want) || p.Shared.Policy == nil {
				t.Errorf("%s %s, want %s", p.Policy, settingsOf(p.Shared), tt.want)
			}
			if got := strings.Join(cfg.Warnings, "\n"); (tt.warning == "") != (got == "") || !strings.Contains(got, tt.warning) {
				t.Errorf("warnings %q, want %q", got, tt.warning)
			}
		})
	}
}

func TestSharedRefuses(t *testing.T) {
	for _, tt := range []struct{ name, content, more, pool, want string }{
		{"no file", "", "", sharedPool, "no such file"},
		{"a mistake in it", "sites: {a: {surrogates: {s1: }, wait: 3}}\ndefault: b\n", "", sharedPool, "policy.yaml:1:"},
		{"none of them", sharedSites, "", "    surrogates: [{name: x, address: \"192.0.2.7:80\"}]\n", "has none of the pool's surrogates"},
		{"a key that there is not", sharedSites, ", host: x", sharedPool, "pools.p.policy.host"},
		{"a cookie with a space", sharedSites, ", cookie: a b", sharedPool, `"a b" is not the name of a cookie (such as session)`},
		{"no database", sharedSites + "geo: /does/not/exist.mmdb\n", "", sharedPool, "exist.mmdb"},
		{"parameters of the other kind", sharedSites, "", sharedPool + "    hash_query: [id]\n", "is for policy hash alone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if cfg, err := sharing(t, tt.content, tt.more, tt.pool); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v, want %s", cfg, err, tt.want)
			}
		})
	}
	if _, err := Parse("f", []byte("vips: [{address: \"192.0.2.1:80\", interfaces: [eth0], routes: [{pool: p}]}]\npools: {p: {policy: {service: x}, surrogates: [{name: s, address: \"192.0.2.7:80\"}]}}\n")); err == nil ||
		!strings.Contains(err.Error(), "pools.p.policy.file: is missing") {
		t.Errorf("without a file: %v", err)
	}
}

func TestBypassURL(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "origin.test": "http://origin.test", "origin.test:8080": "http://origin.test:8080", "https://o.test": "https://o.test", "[2001:db8::1]:80": "http://[2001:db8::1]:80",
		"https://o.test/": "", "a b": "", "ftp://x": "", "user@x": "", "http://": "",
	} {
		if got := BypassURL(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// settingsOf are the settings of a policy of a file.
func settingsOf(s *Shared) string {
	return fmt.Sprintf("%q %q %q %v", s.File, s.Service, s.Cookie, *s.Policy.Config())
}
