package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/cmd/cli"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// onlyJSON fails where a line is not an object of JSON with a level and a message.
func onlyJSON(t *testing.T, log string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var m struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Level == "" || m.Msg == "" {
			t.Errorf("not a message in JSON: %q (%v)", line, err)
		}
	}
}

// TestJSONOfMistakes: with --log-format json a configuration that is refused is told in JSON, a line for each mistake.
func TestJSONOfMistakes(t *testing.T) {
	file := t.TempDir() + "/f.yaml"
	write(t, file, "one: 1\ntwo: 2\n")
	for _, p := range parts() {
		status, out, errs := said(t, p.Name, "run", "-c", file, "--log-format", "json")
		if status != cli.Usage || out != "" || !strings.Contains(errs, file+":1:1: one: is not a key") || !strings.Contains(errs, file+":2:1: two: is not a key") {
			t.Errorf("%s: status %d, %s%s", p.Name, status, out, errs)
		}
		onlyJSON(t, errs)
	}
}

// TestJSONLog: each part that runs with --log-format json writes nothing but JSON, from its start to its end.
func TestJSONLog(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	l := lab.New(t)
	host, far := l.Host("host"), l.Host("far")
	for i, name := range []string{"eth0", "eth1"} {
		l.Link(lab.End{Host: host, Name: name, Addrs: []string{fmt.Sprintf("192.0.2.%d/28", 16*i+2)}},
			lab.End{Host: far, Addrs: []string{fmt.Sprintf("192.0.2.%d/28", 16*i+1)}}, lab.LinkOptions{})
	}
	dir := l.Dir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(strings.Repeat("0123456789abcdef", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"router": "state: " + l.BPFFS() + "/router\nvips: [{address: \"10.9.9.9:80\", interfaces: [eth0], routes: [{pool: p}]}]\n" +
			"pools: {p: {health: {path: /healthz}, surrogates: [{name: s1, address: \"192.0.2.1:80\"}]}}\n",
		"relay": "name: r\nplaintext: {secret_file: " + dir + "/secret}\npeers: [{name: far, address: \"192.0.2.1:7000\"}]\n" +
			"entries: [{mode: socks5, listen: \"127.0.0.1:1080\", via: [far]}]\n",
		"anycast": "name: london\nsite:\n  prefixes: [198.51.100.0/24]\n  bgp: {as: 64512, router_id: 192.0.2.2, peers: [{name: r1, address: 192.0.2.1, as: 65000}]}\n" +
			"  checks: [{name: web, http: \"http://127.0.0.1:1/\"}]\n",
		"forwarder": "name: jlog\nports: [eth1]\ncontrollers: [tcp:192.0.2.1:6653]\nmetrics: \"127.0.0.1:9410\"\n",
		"balance":   "name: jlog\nlinks: [eth0, eth1]\nstate: " + t.TempDir() + "\n",
		"purge":     "policies: [{name: web, ports: [80]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			file, socket := filepath.Join(dir, name+".yaml"), filepath.Join(dir, name+".sock")
			write(t, file, "control: "+socket+"\n"+text)
			p, err := host.Start(lab.Program{Path: program, Args: []string{name, "run", "-c", file, "--log-format", "json", "--log-level", "debug"}, Name: name})
			if err != nil {
				t.Fatal(err)
			}
			for _, verb := range []string{"status", "reload"} {
				lab.Eventually(t, long, func() error {
					if status, _, errs := said(t, name, verb, "--control", socket); status != 0 {
						return fmt.Errorf("%s: %s\n%s", verb, errs, p.Log())
					}
					return nil
				})
			}
			if err := p.Stop(long); err != nil {
				t.Errorf("%v\n%s", err, p.Log())
			}
			if out, err := host.Exec(t.Context(), program, name, "cleanup", "-c", file); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if p.Log() == "" {
				t.Error("it has no log")
			}
			onlyJSON(t, p.Log())
		})
	}
}
