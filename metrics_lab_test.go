package baton_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/experiments/experimentstest"
	"baton/lab"
)

// daemons are configurations in which each part has what it can have without a peer and without certificates. DIR is a
// folder for sockets and files, DEVICE the host's interface. The router has routerConfig.
var daemons = map[string]string{
	"anycast": `
name: london
control: DIR/anycast.sock
metrics: 127.0.0.1:9464
site:
  state: DIR/anycast.json
  prefixes: [192.0.2.0/24]
  bgp: {as: 64512, router_id: 10.0.0.2, peers: [{name: r1, address: 10.2.0.2, as: 65000}]}
  checks: [{name: web, http: "http://127.0.0.1/healthz"}]
`,
	"balance": `
control: DIR/balance.sock
metrics: 127.0.0.1:9464
links: [DEVICE]
`,
	"controller": `
name: noc1
listen: {openflow: ["unix:DIR/of"], control: DIR/controller.sock, metrics: 127.0.0.1:9464}
northbound: {listen: "127.0.0.1:8443", open: true}
store: {file: DIR/controller.db}
cdn:
  services: [{address: "192.0.2.10:80"}]
  surrogates: {se1: {address: "192.0.2.11:80"}}
`,
	"forwarder": `
name: metrics
ports: [DEVICE]
listen: [tcp:127.0.0.1:6654]
control: DIR/forwarder.sock
metrics: 127.0.0.1:9464
state: DIR/forwarder
limits: {bindings: 64}
`,
	"nameserver": `
listen: ["127.0.0.1:53"]
control: DIR/nameserver.sock
metrics: 127.0.0.1:9464
zones: [{name: example.test, file: zone, routed: {cdn: content}}]
services: {content: {ttl: 20s, fallback: 192.0.2.99}}
controller: {url: ["ws://127.0.0.1:8443"]}
policy: {default: west, sites: {west: {clients: [192.0.2.0/24], surrogates: {s1: {addresses: [192.0.2.11]}}}}}
`,
	"purge": `
control: DIR/purge.sock
metrics: 127.0.0.1:9464
policies: [{name: web, ports: [80]}]
`,
	"relay": `
name: near-clients
control: DIR/relay.sock
metrics: 127.0.0.1:9464
entries: [{listen: "127.0.0.1:8080", destination: "198.51.100.5:80"}]
`,
	"router": "",
}

const zoneOfDaemons = "$TTL 300\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 127.0.0.1\n"

// absent says of metrics without labels why a daemon does not serve them here.
var absent = map[string]string{
	"baton_anycast_planner_moves_left":                    planner,
	"baton_anycast_planner_overload_bytes_per_second":     planner,
	"baton_anycast_planner_forwarders":                    planner,
	"baton_anycast_proposal_fresh":                        planner,
	"baton_anycast_load_ratio":                            "no load is measured",
	"baton_nameserver_controller_heard_timestamp_seconds": "no controller has said anything",
	"baton_relay_trunk_flows":                             trunks,
	"baton_relay_trunk_flows_total":                       trunks,
	"baton_relay_trunks_waiting":                          trunks,
	"baton_relay_trunks_waiting_limit":                    trunks,
	"baton_relay_destinations":                            choice,
	"baton_relay_destinations_chosen":                     choice,
	"baton_relay_choice_probes_total":                     choice,
	"baton_relay_routes_changed_total":                    choice,
	"baton_router_quic_sessions":                          "no VIP has QUIC",
	"baton_router_quic_flights_held":                      "no VIP has QUIC",
	"baton_router_quic_moved_unproven":                    "no VIP has QUIC",
}

const (
	planner = "there is no planner, which needs certificates"
	trunks  = "there are no trunks, which need certificates"
	choice  = "the relay chooses no routes"
)

// referenceRow is a row of the reference's tables: name, type, labels.
var referenceRow = regexp.MustCompile("(?m)^\\| `(baton_\\w+)` \\| \\w+ \\| ([^|]*) \\|")

// TestDaemonsServeTheReference scrapes each part's daemon: the reference has all that it serves, and it serves all that
// the reference has without labels. A metric with labels may wait for what its labels name.
func TestDaemonsServeTheReference(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
	text, err := os.ReadFile("docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{} // whether it has labels
	for _, row := range referenceRow.FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = strings.TrimSpace(row[2]) != ""
	}
	for _, part := range slices.Sorted(maps.Keys(daemons)) {
		t.Run(part, func(t *testing.T) {
			served := families(t, scrapeDaemon(t, program, part))
			for name := range served {
				if _, ok := documented[name]; !ok && strings.HasPrefix(name, "baton_") {
					t.Errorf("docs/reference/metrics.md lacks %s", name)
				}
			}
			for name, labelled := range documented {
				if !strings.HasPrefix(name, "baton_"+part+"_") || labelled {
					continue
				}
				if why := absent[name]; (served[name] == nil) != (why != "") {
					t.Errorf("%s: served: %v; exception: %q", name, served[name] != nil, why)
				}
			}
		})
	}
}

// scrapeDaemon starts a part's daemon in a network of its own, and returns its answer to a scrape.
func scrapeDaemon(t *testing.T, program, part string) string {
	t.Helper()
	l := lab.New(t)
	host, other := l.Host("host"), l.Host("other")
	far := lab.End{Host: other, Addrs: []string{"10.2.0.2/24"}}
	link := l.Link(far, lab.End{Host: host, Addrs: []string{"10.2.0.1/24"}}, lab.LinkOptions{})
	host.Route("0.0.0.0/0", "10.2.0.2")
	config := strings.NewReplacer("DIR", l.Dir(), "DEVICE", link.B.Name).Replace(daemons[part])
	if part == "router" {
		config = fmt.Sprintf(routerConfig, l.Dir(), l.BPFFS(), link.B.Name)
	}
	file := filepath.Join(l.Dir(), part+".yaml")
	for name, content := range map[string]string{file: config, filepath.Join(l.Dir(), "zone"): zoneOfDaemons} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	daemon, err := host.Start(lab.Program{Path: program, Args: []string{part, "run", "-c", file}, Name: "baton-" + part})
	if err != nil {
		t.Fatal(err)
	}
	var answer string
	lab.Eventually(t, 30*time.Second, func() error {
		answer, err = host.Exec(t.Context(), "curl", "-sf", "--max-time", "5", "http://127.0.0.1:9464/metrics")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, daemon.Log())
		}
		return nil
	})
	return answer
}
