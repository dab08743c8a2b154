package examples_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"baton/policy"
	"baton/policy/config"
)

const policyGuide = "../docs/policy.md"

func parsePolicy(t *testing.T, name, text string) *policy.Config {
	t.Helper()
	cfg, err := config.Parse(name, []byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if _, err := policy.New(*cfg); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return cfg
}

// TestPolicyExample loads the example with its zone file, and decides.
func TestPolicyExample(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "zones.json"), []byte(read(t, "policy/zones.json")), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(*parsePolicy(t, "policy.yaml", strings.Replace(read(t, "policy/policy.yaml"), "/etc/baton", dir, 1)), nil)
	if err != nil || len(p.Warnings()) > 0 {
		t.Fatalf("%v, warnings %q", err, p.Warnings())
	}
	s := p.State(nil, map[string]policy.Observed{"se1": {Sessions: 510}}, nil)
	for _, tt := range []struct {
		client, host string
		want         []string
	}{
		{"10.11.0.7", "cdn.example.org", []string{"coverage zone 10.11.0.0/24 -> site bratislava", "bratislava is at 102 % of 500 sessions: spills to wien",
			"se4 is in maintenance", "only se3 can serve"}},
		{"10.14.0.7", "api.example.org", []string{"coverage zone 10.14.0.0/16 of graz, which is no site -> nearest site wien", "se4 is in maintenance", "only se3 can serve"}},
	} {
		d := s.Explain(&policy.Query{Client: policy.Whole(netip.MustParseAddr(tt.client)), Host: tt.host, Path: "/a.jpg", RawQuery: "size=2"})
		if !slices.Equal(d.Because, tt.want) {
			t.Errorf("%s: because %q, want %q", tt.client, d.Because, tt.want)
		}
	}
}

// TestPolicyGuide: what the guide shows can be loaded.
func TestPolicyGuide(t *testing.T) {
	guide := read(t, policyGuide)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(guide, -1)
	if len(blocks) < 4 {
		t.Errorf("%d policies in the guide", len(blocks))
	}
	for _, m := range blocks {
		parsePolicy(t, "guide.yaml", m[1])
	}
}
