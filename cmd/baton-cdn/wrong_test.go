package main

import (
	"os"
	"testing"

	controllerconfig "baton/controller/config"
	nameserverconfig "baton/nameserver/config"

	"baton/cmd/cli"
	"baton/cmd/cli/clitest"
	policyconfig "baton/policy/config"
)

// TestWrongInputs: whatever is wrong in a configuration is told in one line, with its place and what to write instead, and makes exit status 2.
func TestWrongInputs(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile("../../examples/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	zone := map[string]string{"dizp.bt.zone": read("nameserver/dizp.bt.zone")}
	for _, s := range []clitest.Spoilt{
		{Part: "nameserver", File: "nameserver/nameserver.yaml", References: `^zones.*\.routed\.|^policy\.default$`, Files: zone, Schema: nameserverconfig.Schema,
			Check: func(file string) error { _, err := checkNameserver(file); return err }},
		{Part: "controller", File: "cdn/controller.yaml", References: `^$`, Schema: controllerconfig.Schema,
			Files: map[string]string{"northbound.tokens": "operator 0123456789abcdef0123456789abcdef noc\n"},
			Check: func(file string) error { _, err := checkController(file); return err }},
		{Part: "policy", File: "policy/policy.yaml", References: `^default$|^services.*\.sites\[`, Schema: policyconfig.Schema,
			Files: map[string]string{"zones.json": read("policy/zones.json")},
			Check: func(file string) error { _, err := loadPolicy(file); return err }},
	} {
		t.Run(s.Part, func(t *testing.T) {
			s.File = "../../examples/" + s.File
			cases := clitest.WrongInputs(t, func(args ...string) (int, string, string) { return said(t, args...) }, s)
			t.Logf("%d wrong inputs", cases)
		})
	}
}

// TestMistyped types every command wrongly.
func TestMistyped(t *testing.T) {
	t.Logf("%d mistakes", clitest.Mistyped(t, tree(cli.Env{}), func(args ...string) (int, string, string) { return said(t, args...) }))
}
