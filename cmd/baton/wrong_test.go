package main

import (
	"slices"
	"testing"

	"baton/cmd/cli"
	"baton/cmd/cli/clitest"
	"baton/cmd/cli/part"
)

// TestWrongInputs: whatever is wrong in a configuration is told in one line, with its place and what to write instead, and makes exit status 2.
func TestWrongInputs(t *testing.T) {
	secret := map[string]string{"relay-secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"}
	for _, s := range []clitest.Spoilt{
		{Part: "router", File: "full.yaml", References: `\.pool$|^pools\.near\.nearest.*surrogates\[`,
			// What is harmless twice: an output, a condition, a controller, a certificate.
			Except: `duplicate entry: (log\.access|.*headers|.*url|.*tls)\[`},
		{Part: "router", File: "one-armed.yaml", References: `\.pool$`},
		{Part: "relay", File: "relay/near-clients.yaml", References: `\.via\[`, Except: `duplicate entry: .*(destinations|ports)\[`},
		{Part: "relay", File: "relay/near-servers.yaml", References: `^$`, Except: `duplicate entry: allow`},
		{Part: "relay", File: "relay/testing.yaml", References: `\.via\[`, Files: secret},
		{Part: "anycast", File: "anycast/internal.yaml", References: `^$`, Except: `duplicate entry: .*communities`},
		{Part: "anycast", File: "anycast/map-site.yaml", References: `^$`, Except: `duplicate entry: .*addresses\[`},
		{Part: "anycast", File: "anycast/map.yaml", References: `^$`, Except: `duplicate entry: .*addresses\[`},
		{Part: "forwarder", File: "forwarder/tls.yaml", References: `^$`},
		{Part: "forwarder", File: "cdn/forwarders.yaml", References: `^$`},
		{Part: "balance", File: "balance/full.yaml", References: `^rules.*links\[`},
		{Part: "purge", File: "purge/cautious.yaml", References: `^$`, Except: `duplicate entry: .*(addresses|ports|exempt)\[`},
	} {
		t.Run(s.File, func(t *testing.T) {
			t.Parallel()
			p := parts()[slices.IndexFunc(parts(), func(p *part.Part) bool { return p.Name == s.Part })]
			s.File, s.Schema = "../../examples/"+s.File, p.Schema
			s.Check = func(file string) error { _, err := p.Check(file); return err }
			cases := clitest.WrongInputs(t, func(args ...string) (int, string, string) { return said(t, args...) }, s)
			t.Logf("%d wrong inputs", cases)
		})
	}
}

// TestMistyped types every command wrongly.
func TestMistyped(t *testing.T) {
	t.Logf("%d mistakes", clitest.Mistyped(t, tree(cli.Env{}), func(args ...string) (int, string, string) { return said(t, args...) }))
}
