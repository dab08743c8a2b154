package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"baton/cmd/cli"
)

// policyExample writes the policy of the examples, with its zone file, into a folder.
func policyExample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"policy.yaml", "zones.json"} {
		text, err := os.ReadFile(filepath.Join("../../examples/policy", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(string(text), "/etc/baton", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "policy.yaml")
}

func TestPolicyExplain(t *testing.T) {
	file := policyExample(t)
	tests := []struct{ args, want string }{
		{"--client 10.11.0.7 --sessions se1=510 http://cdn.example.org/a.jpg?size=2", "coverage zone 10.11.0.0/24 -> site bratislava\n" +
			"bratislava is at 102 % of 500 sessions: spills to wien\nse4 is in maintenance\nonly se3 can serve\n\nsite wien: se3\n"},
		{"--client 10.11.0.0/25 --down se1 /a.jpg", "coverage zone 10.11.0.0/24 -> site bratislava\nse1 is down\nonly se2 can serve\n\nsite bratislava: se2\n"},
		{"--client 10.11.0.7 --weight se2=0 cdn.example.org", "coverage zone 10.11.0.0/24 -> site bratislava\nse2 has weight 0\nonly se1 can serve\n\nsite bratislava: se1\n"},
		{"--client 10.11.0.7 --maintenance se1,se2 --down se3 x/", "coverage zone 10.11.0.0/24 -> site bratislava\nse1 is in maintenance\nse2 is in maintenance\n" +
			"bratislava has no surrogate that can serve: spills to wien\nse3 is down\nse4 is in maintenance\nwien has no surrogate that can serve: no site is left\n" +
			"nothing can serve: bypass to origin.example.org\n"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			status, out, errs := said(t, append([]string{"policy", "explain", "-c", file}, strings.Fields(tt.args)...)...)
			if status != 0 || out != tt.want || errs != "" {
				t.Errorf("status %d, %q\n%s\nwant\n%s", status, errs, out, tt.want)
			}
		})
	}
	const sites = "  sites: {w: {surrogates: {se1: , se2: }}}\n"
	for beside, want := range map[string]string{"zones: []\n": "weight 1 of 2 -> ", "cdn: {}\n": "hash of ", "": "hash of "} {
		other := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(other, []byte(beside+"policy:\n"+sites), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, out, errs := said(t, "policy", "explain", "-c", other, "--client", "10.11.0.7", "a.test"); status != 0 || !strings.Contains(out, want) {
			t.Errorf("beside %q: status %d, %s%s, want %q", beside, status, out, errs, want)
		}
	}
	status, out, errs := said(t, "policy", "explain", "-c", file, "--client", "10.11.0.7", "-o", "json", "http://live.example.org:80/a?size=2&x=1#top")
	var got struct {
		Site, Method string
		Surrogates   []string
		Scope        int
		Because      []string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || errs != "" {
		t.Fatalf("status %d, %q, %q: %v", status, out, errs, err)
	}
	if got.Site != "bratislava" || got.Method != "zone" || got.Scope != 25 || len(got.Surrogates) != 2 || !slices.Contains(got.Because, "hash of /a?size=2 -> se1, se2") {
		t.Errorf("%+v", got)
	}
}

func TestPolicyCheck(t *testing.T) {
	file := policyExample(t)
	if status, out, errs := said(t, "policy", "check", "-c", file); status != 0 || errs != "" || out != file+": policy OK: 2 sites, 4 surrogates, 6 coverage zones\n" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	zones := filepath.Join(filepath.Dir(file), "zones.json")
	if err := os.WriteFile(zones, []byte("{\n\"coverageZones\": {\"a\": {\"network\": [\"10.0.0.0\", \"x\"]}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := said(t, "policy", "check", "-c", file)
	if want := "baton-cdn: " + zones + `:2: coverageZones.a.network[1]: "x" is not address/length (such as 192.0.2.0/24 or 2001:db8::/48)` + "\n"; status != cli.Usage || out != "" || errs != want {
		t.Errorf("status %d, %q, %q, want %q", status, out, errs, want)
	}
}

func TestPolicyMistakes(t *testing.T) {
	file := policyExample(t)
	for _, tt := range []struct{ args, want string }{
		{"explain -c FILE /a", "--client ADDRESS is missing"},
		{"explain -c FILE --client 10.0.0.1", "URL is missing"},
		{"explain -c FILE --client 10.0.0 /a", `--client: "10.0.0" is neither an address nor a network`},
		{"explain -c FILE --client 10.0.0.1 --down se11 /a", `--down: "se11" is no surrogate: did you mean se1?`},
		{"explain -c FILE --client 10.0.0.1 --sessions se1=many /a", `--sessions: "many" is not a whole number from 0 on`},
		{"check -c /no/such/file", "no such file"},
		{"explian", `did you mean "baton-cdn policy explain"?`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			status, out, errs := said(t, append([]string{"policy"}, strings.Fields(strings.ReplaceAll(tt.args, "FILE", file))...)...)
			if status != cli.Usage || out != "" || !strings.Contains(errs, tt.want) {
				t.Errorf("status %d, output %q, errors %q; want %d and %q", status, out, errs, cli.Usage, tt.want)
			}
		})
	}
}
