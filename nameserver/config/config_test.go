package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/document/documenttest"
)

const least = `listen: ["192.0.2.53:53"]
zones: [{name: Example.TEST, file: z}]
`

const everything = `name: ns1
control: /run/x.sock
metrics: "127.0.0.1:9470"
listen: ["192.0.2.53:53", "[2001:db8::53]:53"]
sockets: 2
udp: {size: 1400, buffer: 1MiB}
tcp: {connections: 10, per_network: 5, idle: 5s}
cookies: {secret_file: secret}
client_subnet: false
limits: {rate: 100, slip: 3, prefix4: 16, prefix6: 48, exempt: [192.0.2.7, "2001:db8::/32"]}
zones:
  - name: example.test
    file: /z
    transfer: [192.0.2.0/24]
    key: Kexample.test.+013+12345.key
    routed: {cdn: content, "*.img": content, "@": content}
services:
  content: {ttl: 30s, answers: 2, fallback: [192.0.2.9], https: {alpn: [h2, h3], port: 8443}}
controller: {url: ["ws://10.0.0.9:8080", "wss://10.0.0.8"], token_file: token, keep: 10s}
health: {scheme: https, path: "/healthz?x=1", host: cdn.example.test, interval: 1s, timeout: 500ms, rise: 1, fall: 2}
policy:
  sites:
    west: {surrogates: {se1: {addresses: [192.0.2.1, "2001:db8::1"]}}}
`

func TestDefaults(t *testing.T) {
	c, err := Parse("/etc/baton/nameserver.yaml", []byte(least))
	if err != nil {
		t.Fatal(err)
	}
	if c.Control != "/run/baton/nameserver.sock" || c.UDP.Size != 1232 || c.Limits.Rate != 200 || c.Limits.Slip != 2 || !c.Subnet || c.TCP.Idle != 10*time.Second ||
		c.Zones[0].Name != "example.test." || c.Zones[0].File != "/etc/baton/z" || len(c.Warnings) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestEverything(t *testing.T) {
	c, err := Parse("/etc/n.yaml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	z, s := c.Zones[0], c.Services[0]
	if c.Name != "ns1" || c.Sockets != 2 || c.UDP.Buffer != 1<<20 || c.TCP.PerNetwork != 5 || c.Subnet || c.Limits.Prefix4 != 16 || len(c.Limits.Exempt) != 2 ||
		z.Key != "/etc/Kexample.test.+013+12345" || len(z.Routed) != 3 || z.Routed[1].Name != "*.img.example.test." || z.Routed[2].Name != "example.test." ||
		s.TTL != 30*time.Second || s.Answers != 2 || s.Fallback.All || len(s.Fallback.Addresses) != 1 || s.HTTPS.Port != 8443 || c.Health.Scheme != "https" || c.Health.Port != 0 ||
		c.Health.Path != "/healthz?x=1" || c.Policy.Sites[0].Surrogates[0].Name != "se1" || len(c.Warnings) != 0 ||
		len(c.Controller.URLs) != 2 || c.Controller.TokenFile != "/etc/token" || c.Controller.Keep != 10*time.Second {
		t.Errorf("%+v", c)
	}
}

// TestRefuse changes one thing of a configuration that is right.
func TestRefuse(t *testing.T) {
	for _, tt := range []struct{ name, file, old, new, want string }{
		{"nothing", least, least, "", "n.yaml:1:1: is empty (listen and zones are needed)"},
		{"no zones", least, "zones: [{name: Example.TEST, file: z}]\n", "", "n.yaml:1:1: zones: is missing (zones: [{name: ..., file: ...}])"},
		{"a port alone", least, "192.0.2.53:53", ":53", `n.yaml:1:10: listen[0]: ":53" has no address (all of IPv4 is "0.0.0.0:53", all of IPv6 "[::]:53")`},
		{"an address twice", least, `"192.0.2.53:53"`, `"192.0.2.53:53", "192.0.2.53:53"`, `n.yaml:1:27: listen[1]: "192.0.2.53:53" is there twice (each value once)`},
		{"a zone's name", least, "Example.TEST", "exa mple", `n.yaml:2:16: zones[0].name: "exa mple" is not a domain name (such as example.net)`},
		{"a zone twice", least, "file: z}", "file: z}, {name: example.test., file: y}", `n.yaml:2:47: zones[1].name: "example.test." is the zone of zones[0] already (each zone once)`},
		{"a size", everything, "size: 1400", "size: 9000", `n.yaml:6:13: udp.size: "9000" is out of range (a whole number from 512 to 4096)`},
		{"more per network than in all", everything, "per_network: 5", "per_network: 50", "n.yaml:7:37: tcp.per_network: 50 is above the 10 connections in total (per_network at most connections)"},
		{"limits", everything, "limits: {rate: 100", "limits: {rate: 0", `n.yaml:10:16: limits.rate: "0" is out of range (a whole number from 1 to 60000)`},
		{"limits by another word", least, "zones:", "limits: off\nzones:", `n.yaml:2:9: limits: "off" is neither none nor a mapping with rate (none)`},
		{"the key's other name", everything, "limits:", "rate_limit:", "n.yaml:10:1: rate_limit: is not a key (did you mean limits?)"},
		{"a routed name outside", everything, "cdn: content", `"cdn.other.": content`, `n.yaml:16:14: zones[0].routed."cdn.other.": "cdn.other." is not a name of the zone (such as cdn, *.cdn, or @ for the zone itself)`},
		{"an unknown service", everything, "cdn: content", "cdn: contents", `n.yaml:16:14: zones[0].routed.cdn: "contents" is not a service (did you mean content?)`},
		{"no policy", everything, everything[strings.Index(everything, "policy:"):], "", "n.yaml:18:3: services: have no policy (policy, with sites and their surrogates)"},
		{"a fallback", everything, "[192.0.2.9]", "some", `n.yaml:18:45: services.content.fallback: "some" is not an address (such as 192.0.2.1 or 2001:db8::1)`},
		{"a slow check", everything, "timeout: 500ms", "timeout: 5s", "n.yaml:20:94: health.timeout: 5s is longer than interval, 1s (at most interval)"},
		{"a check's path", everything, `"/healthz?x=1"`, "healthz", `n.yaml:20:31: health.path: "healthz" is not the path of a URL (such as /healthz)`},
		{"a mistake in the policy", everything, "surrogates: {se1", "surrogate: {se1", "n.yaml:23:12: policy.sites.west.surrogate: is not a key (did you mean surrogates?)"},
		{"a controller's address", everything, "ws://10.0.0.9:8080", "10.0.0.9", `n.yaml:19:20: controller.url[0]: "10.0.0.9" is not a URL (ws://host:port/path)`},
		{"half an identity", everything, "keep: 10s", "key: /k", "n.yaml:19:14: controller: has one of certificate and key (both or neither)"},
		{"two", least, "192.0.2.53:53", "192.0.2.53", "n.yaml:1:10: listen[0]: \"192.0.2.53\" has no port (such as \"192.0.2.53:443\")"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(tt.file, tt.old, tt.new, 1)
			if _, err := Parse("n.yaml", []byte(text)); text == tt.file || !documenttest.Reported(err, tt.want) && (err == nil || err.Error() != tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	text := strings.Replace(everything, "health: ", "#", 1)
	text = strings.Replace(text, "services:\n", "services:\n  unused: {}\n", 1)
	text = strings.Replace(text, "limits: {", "limits: none #", 1)
	c, err := Parse("n.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := "n.yaml:18:3: services.unused: is unused: no zone routes a name by it\n" +
		"n.yaml:20:14: controller: without health: while it is gone, clients are sent to surrogates that are down\n" +
		"n.yaml:10:9: limits: is none: strangers may have this server send answers to others (reflection)"
	if got := strings.Join(c.Warnings, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestCapacities: without a controller nobody counts sessions.
func TestCapacities(t *testing.T) {
	const policy = `policy:
  sites: {west: {capacity: 7, surrogates: {se1: {capacity: 5, addresses: [192.0.2.1]}}}}
`
	for more, want := range map[string]string{
		"health: {}\n": "n.yaml:5:28: policy.sites.west.capacity: 7 sessions are never reached: nobody counts them here (controller: {url: ...})\n" +
			"n.yaml:5:60: policy.sites.west.surrogates.se1.capacity: 5 sessions are never reached: nobody counts them here (controller: {url: ...})",
		"": "n.yaml:4:3: policy: without health: clients are sent to surrogates that are down",
		"health: {}\ncontroller: {url: \"ws://10.0.0.9\"}\n": "",
	} {
		c, err := Parse("n.yaml", []byte(least+more+policy))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(c.Warnings, "\n"); got != want && (more != "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: got\n%s\nwant\n%s", more, got, want)
		}
	}
}

// TestSecrets: secrets of cookies are read from a file of its owner's.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "n.yaml"), filepath.Join(dir, "secret")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	write(file, least+"cookies: {secret_file: secret}\n", 0o644)
	for _, tt := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"00112233445566778899aabbccddeeff\nffeeddccbbaa99887766554433221100\n", 0o600, ""},
		{"00112233445566778899aabbccddeeff\n", 0o644, "may be read by others than its owner (chmod 600)"},
		{"0011\n", 0o600, "holds a line that is no secret (32 hexadecimal digits: openssl rand -hex 16)"},
		{"", 0o600, "is empty"},
	} {
		write(secret, tt.text, tt.mode)
		c, err := Load(file)
		if tt.want == "" && (err != nil || len(c.Cookies.Secrets) != 2) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(least)
	f.Add(everything)
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := Parse("n.yaml", []byte(text)); (c == nil) == (err == nil) {
			t.Errorf("%v, %v", c, err)
		}
	})
}
