package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/controller/paths"
)

func TestDefaults(t *testing.T) {
	cfg, err := Parse("c.yaml", []byte(`listen: {openflow: ["unix:/run/of.sock"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Name != "controller" || cfg.Listen.Control != "/run/baton/controller.sock" || !cfg.Paths.Cache || cfg.Paths.Spread != paths.SpreadDestination ||
		cfg.Discovery.Interval != time.Second || len(cfg.Warnings) != 0 || cfg.Northbound != nil || cfg.Store.File == "" {
		t.Errorf("%+v", cfg)
	}
}

func TestAll(t *testing.T) {
	cfg, err := Parse("c.yaml", []byte(`name: noc1
listen: {openflow: ["tls:[::]:6653", "tcp:127.0.0.1:6653"], control: /run/c.sock, metrics: "127.0.0.1:9480"}
tls: {certificate: /a.pem, key: /a.key, authority: /ca.pem}
store: {etcd: {endpoints: ["http://127.0.0.1:2379"]}}
discovery: {secret: /s, interval: 500ms}
only_known: true
switches:
  - {id: "000000000000002a", name: access, edge: [1, 2]}
  - {id: 0x2b, core: true}
  - {id: 44}
paths: {cache: false, spread: pair}
`))
	if err != nil {
		t.Fatal(err)
	}
	if s := cfg.Switches; len(s) != 3 || s[0].ID != 42 || s[1].ID != 43 || s[2].ID != 44 || len(s[0].Edge) != 2 || !s[1].Core {
		t.Errorf("%+v", s)
	}
	if cfg.Listen.OpenFlow[0].String() != "tls:[::]:6653" || cfg.Paths.Cache || cfg.Paths.Spread != paths.SpreadPair || len(cfg.Warnings) != 0 {
		t.Errorf("%+v", cfg)
	}
}

// TestMistakes: what cannot work is said with its place and what would be right.
func TestMistakes(t *testing.T) {
	ok := "listen: {openflow: [\"unix:/run/of.sock\"]}\n"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "listen is needed"},
		{"no listener", "name: a", "listen"},
		{"no method", `listen: {openflow: ["0.0.0.0:6653"]}`, "1:21: listen.openflow[0]: \"0.0.0.0:6653\" is not the place of a listener (tcp:"},
		{"no port", `listen: {openflow: ["tcp:0.0.0.0"]}`, "listen.openflow[0]"},
		{"relative socket", `listen: {openflow: ["unix:of.sock"]}`, "is not the absolute path"},
		{"TLS without files", `listen: {openflow: ["tls:0.0.0.0:6653"]}`, "tls: is missing"},
		{"no id", ok + "switches: [{name: a}]", "switches[0]"},
		{"wrong id", ok + "switches: [{id: core1}]", "is no datapath id"},
		{"same id", ok + "switches: [{id: 1}, {id: 0x1}]", "switches[1].id: is that of switches[0] already"},
		{"same name", ok + "switches: [{id: 1, name: a}, {id: 2, name: a}]", "switches[1].name: is that of"},
		{"nobody", ok + "only_known: true", "would refuse every switch"},
		{"no secret for several", ok + "store: {etcd: {endpoints: [\"http://127.0.0.1:2379\"]}}", "several controllers must share"},
		{"spread", ok + "paths: {spread: flow}", "is no kind of spreading"},
		{"interval", ok + "discovery: {interval: 1ms}", "discovery.interval"},
		{"unknown key", ok + "swithces: []", "switches"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse("c.yaml", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestSecret(t *testing.T) {
	dir := t.TempDir()
	secret, file := filepath.Join(dir, "secret"), filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("listen: {openflow: [\"unix:/run/of.sock\"]}\ndiscovery: {secret: "+secret+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"", 0, "secret"},
		{"0123456789abcdef0123456789abcdef\n", 0o644, "others can read it"},
		{"short\n", 0o600, "it has 5 bytes, and needs 16"},
		{"0123456789abcdef0123456789abcdef\n", 0o600, ""},
	} {
		_ = os.Remove(secret)
		if tt.mode != 0 {
			if err := os.WriteFile(secret, []byte(tt.text), tt.mode); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := Load(file)
		if tt.want == "" {
			if err != nil || len(cfg.Key) != 32 {
				t.Errorf("%v", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`listen: {openflow: ["tls:[::]:6653"]}`))
	f.Add([]byte("listen: {openflow: [x]}\nswitches: [{id: \"000000000000002a\"}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := Parse("c.yaml", text)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("%v, %v", cfg, err)
		}
	})
}

const withCDN = "listen: {openflow: [\"unix:/run/of.sock\"]}\nnorthbound: {listen: \"127.0.0.1:8181\", open: true}\ncdn:\n"

func TestCDN(t *testing.T) {
	cfg, err := Parse("c.yaml", []byte(withCDN+`  services: [{address: "10.11.0.100:8082", routers: [10.11.0.99]}]
  surrogates: {se1: {address: "10.11.0.11:80", host: se1.cdn.dizp.bt}, se2: {address: "10.11.0.12:80"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.CDN
	if c.Native || c.Strip || len(c.Services) != 1 || len(c.Surrogates) != 2 || c.Surrogates[0].Host != "se1.cdn.dizp.bt" || c.Health != nil ||
		len(c.Policy.Sites) != 1 || len(c.Policy.Sites[0].Surrogates) != 2 || c.Bits4 != 24 || c.Idle != 2*time.Minute {
		t.Errorf("%+v", c)
	}
}

func TestCDNMistakes(t *testing.T) {
	const one = "  services: [{address: \"10.0.0.1:80\"}]\n"
	for _, tt := range []struct{ name, text, want string }{
		{"no surrogates", one, "surrogates"},
		{"no address", one + "  surrogates: {se1: {host: a}}", "cdn.surrogates.se1"},
		{"two of one address", one + "  surrogates: {se1: {address: \"10.0.0.1:80\"}}", "cdn.surrogates.se1.address: has the address of cdn.services[0].address, 10.0.0.1:80"},
		{"wrong host", one + "  surrogates: {se1: {address: \"10.0.0.2:80\", host: \"a b\"}}", "cannot be in a Host field"},
		{"mode", "  mode: proxy\n" + one + "  surrogates: {se1: {address: \"10.0.0.2:80\"}}", "is no mode"},
		{"not of the policy", one + "  surrogates: {se1: {address: \"10.0.0.2:80\"}}\n  policy: {sites: {a: {surrogates: {se2: {}}}}}", "cdn.policy.sites.a.surrogates.se2: is not in cdn.surrogates (did you mean se1?)"},
		{"at no site", one + "  surrogates: {se1: {address: \"10.0.0.2:80\"}}\n  policy: {sites: {a: {surrogates: {se2: {}}}}}", "is at no site of cdn.policy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse("c.yaml", []byte(withCDN+tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Parse("c.yaml", []byte(strings.ReplaceAll(withCDN, "northbound: {listen: \"127.0.0.1:8181\", open: true}\n", "")+one+"  surrogates: {se1: {address: \"10.0.0.2:80\"}}")); err == nil || !strings.Contains(err.Error(), "needs a northbound") {
		t.Errorf("without a northbound: %v", err)
	}
}
