package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
)

// TestStartRefused starts the router under conditions in which it cannot work. It reports the cause in one line, with the place
// in the file if that is the cause, indicates by its exit status whether the user or the host is at fault, and leaves nothing
// behind.
func TestStartRefused(t *testing.T) {
	n := newNetwork(t)
	file, state, socket := filepath.Join(n.Dir(), "router.yaml"), filepath.Join(n.BPFFS(), "router"), filepath.Join(n.Dir(), "router.sock")
	right := fmt.Sprintf("metrics: \"127.0.0.1:9464\"\ncontrol: %q\nstate: %q\nvips:\n  - address: %q\n    interfaces: [%s]\n    routes: [{pool: p}]\n"+
		"pools:\n  p: {surrogates: [{name: s, address: \"10.2.1.2:80\"}]}\n", socket, state, vip4, n.front.Name)
	path, err := build.Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:9465", "0.0.0.0:81"} { // in use
		l, err := n.router.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	const usage, failure = 2, 1
	replaced := func(old, now string) string {
		if !strings.Contains(right, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(right, old, now, 1)
	}
	for _, tt := range []struct {
		name   string
		config string   // "": there is no file
		args   []string // nil: the file
		run    []string // by these
		status int
		want   string // regular expression for standard error; FILE stands for the file's path
	}{
		{"unknown key", replaced("interfaces", "interface"), nil, nil, usage, `FILE:6:5: vips\[0\]\.interface: is not a key`},
		{"impossible value", replaced("pools:", "timeouts: {idle: -1s}\npools:"), nil, nil, usage, `FILE:8:18: timeouts\.idle: "-1s" is not above zero`},
		{"VIP twice", replaced("pools:", fmt.Sprintf("  - {address: %q, interfaces: [%s], routes: [{pool: p}]}\npools:", vip4, n.front.Name)), nil, nil, usage,
			`FILE:8:6: vips\[1\]\.address: 10\.9\.9\.9:80 is the address of vips\[0\] already`},
		{"unknown pool", replaced("pool: p", "pool: q"), nil, nil, usage, `FILE:7:21: vips\[0\]\.routes\[0\]\.pool: "q" is not a pool`},
		{"no YAML", "vips: [\n", nil, nil, usage, `FILE:1:7: is not YAML`},
		{"empty file", "\n", nil, nil, usage, `FILE:1:1: is empty`},
		{"no file", "", nil, nil, usage, `FILE: no such file or directory`},
		{"a folder", right, []string{"router", "run", "-c", n.Dir()}, nil, usage, `is a directory`},
		{"no configuration", right, []string{"router"}, nil, usage, `COMMAND is missing after "baton router": one of .*; for example: baton router run -c router\.yaml`},
		{"unknown flag", right, []string{"router", "run", "-c", file, "--chekc"}, nil, usage, `--chekc`},
		{"an argument", right, []string{"router", "run", "-c", file, "please"}, nil, usage, `"please"`},
		{"unknown level", right, []string{"router", "run", "-c", file, "--log-level", "loud"}, nil, usage, `loud`},
		{"unknown command", right, []string{"juggle"}, nil, usage, `"juggle"`},
		{"no such interface", replaced(n.front.Name, "eth99"), nil, nil, usage, `FILE:6:18: vips\[0\]\.interfaces\[0\]: "eth99" is not an interface of this host \(did you mean eth0\?\)`},
		{"interface too small for IPv4", replaced(n.front.Name, "lo"), nil, []string{"unshare", "-n", "sh", "-c", `ip link set lo mtu 28 && exec "$@"`, "sh"}, usage,
			`FILE:6:18: vips\[0\]\.interfaces\[0\]: lo has an MTU of 28, less than the 68 of IPv4 \(ip link set lo mtu 1500\)`},
		{"all ports are ephemeral", right, nil, []string{"unshare", "-n", "sh", "-c", `ip link add eth0 type veth && sysctl -qw net.ipv4.ip_local_port_range="1024 65535" && exec "$@"`, "sh"}, failure,
			`choose ports for legs: /proc/sys/net/ipv4/ip_local_port_range is 1024 65535, which leaves at most 0 ports .* \(sysctl -w net\.ipv4\.ip_local_port_range="32768 60999"\)`},
		{"state elsewhere than on a BPF file system", replaced(state, n.Dir()+"/state"), nil, nil, failure, `BPF file system`},
		{"metrics port taken", replaced("9464", "9465"), nil, nil, failure, `metrics: .*address already in use`},
		{"VIP's port taken", replaced(vip4, "10.9.9.9:81"), nil, nil, failure, `10\.9\.9\.9:81.*address already in use`},
		{"not permitted", right, nil, []string{"setpriv", "--bounding-set", "-net_admin,-bpf"}, failure, `missing capability: CAP_NET_ADMIN .*CAP_BPF .*`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_ = os.Remove(file)
			if tt.config != "" {
				if err := os.WriteFile(file, []byte(tt.config), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before, err := n.traces()
			if err != nil {
				t.Fatal(err)
			}
			command := append(append([]string(nil), tt.run...), path)
			if tt.args == nil {
				tt.args = []string{"router", "run", "-c", file}
			}
			command = append(command, tt.args...)
			p, err := n.router.Start(lab.Program{Path: command[0], Args: command[1:]})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), answersWithin)
			defer cancel()
			if got := lab.ExitCode(p.Wait(ctx)); got != tt.status {
				t.Errorf("exit status %d, want %d", got, tt.status)
			}
			lines := strings.Split(strings.TrimSuffix(p.Stderr(), "\n"), "\n")
			last := lines[len(lines)-1]
			want := regexp.MustCompile("^baton: .*" + strings.ReplaceAll(tt.want, "FILE", regexp.QuoteMeta(file)))
			if !want.MatchString(last) || p.Stdout() != "" {
				t.Errorf("says %q, want a line like %s", p.Log(), want)
			}
			for _, line := range lines[:len(lines)-1] { // expected log before the failure
				if !strings.HasPrefix(line, "time=") {
					t.Errorf("also says %q", line)
				}
			}
			after, err := n.traces()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(before, after) {
				t.Errorf("the host is not as it was:\n%s\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			for _, path := range []string{state, socket, n.Dir() + "/state"} {
				if _, err := os.Stat(path); err == nil {
					t.Errorf("%s is left", path)
				}
			}
		})
	}
}

// TestCheckTellsOfPorts: a check says what a start would refuse.
func TestCheckTellsOfPorts(t *testing.T) {
	n := newNetwork(t)
	r, path, err := n.prepare(fmt.Sprintf("vips: [{address: %q, interfaces: [lo], routes: [{pool: p}]}]\npools: {p: {surrogates: [{name: s, address: \"10.2.1.2:80\"}]}}\n", vip4))
	if err != nil {
		t.Fatal(err)
	}
	for ports, refused := range map[string]bool{"1024 65535": true, "32768 60999": false} {
		out, err := n.router.Exec(deadline(t), "unshare", "-n", "sh", "-c", `sysctl -qw net.ipv4.ip_local_port_range="$0" && exec "$@" 2>&1`, ports, path, "router", "check", "-c", r.file)
		if told := strings.Contains(out, "ip_local_port_range is "+ports); err != nil || told != refused {
			t.Errorf("%s: %q, %v", ports, out, err)
		}
	}
}

// TestFirstClients: who connects while a VIP comes into force is refused until it is ready, and spliced from then on. Its listener is there earlier.
func TestFirstClients(t *testing.T) {
	n := newNetwork(t)
	s := n.site("s1", lab.LinkOptions{})
	serve(t, s.Host, s.name)
	const second = "10.9.9.10:80"
	for _, address := range []string{"10.9.9.9/32", "10.9.9.10/32"} { // so that the host refuses clients at once: it sends few unreachables a second
		if _, err := n.router.Exec(deadline(t), "ip", "addr", "add", address, "dev", "lo"); err != nil {
			t.Fatal(err)
		}
	}
	config := func(vips ...string) (text string) {
		for _, vip := range vips {
			text += fmt.Sprintf("  - {address: %q, interfaces: [%s], routes: [{pool: p}]}\n", vip, n.front.Name)
		}
		return "vips:\n" + text + fmt.Sprintf("pools: {p: {surrogates: [{name: s1, address: %q}]}}\n", s.v4)
	}
	r, path, err := n.prepare(config(vip4))
	if err != nil {
		t.Fatal(err)
	}
	answered := n.askUntilAnswered(t, vip4)
	if r.Process, err = n.router.Start(lab.Program{Path: path, Args: []string{"router", "run", "-c", r.file}}); err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	if err := r.await(); err != nil {
		t.Fatal(err)
	}
	answered()

	answered = n.askUntilAnswered(t, second)
	if err := r.configure(config(vip4, second)); err != nil {
		t.Fatal(err)
	}
	client := api.NewClient(r.socket)
	defer client.Close()
	if _, err := client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	answered()
	status, err := client.Router(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Packets["handoff"] != 2*firstClients || status.Packets["pass_local"] > 0 {
		t.Errorf("%d of %d clients were spliced; packets: %v", status.Packets["handoff"], 2*firstClients, status.Packets)
	}
}

const firstClients = 4

// askUntilAnswered has clients connect again and again, each until it has one answer. The function that it returns waits for all.
func (n *network) askUntilAnswered(t *testing.T, vip string) (answered func()) {
	ask := func() error {
		for began := time.Now(); ; {
			c, err := dial(t.Context(), n.client, vip)
			switch {
			case errors.Is(err, syscall.ECONNREFUSED) && time.Since(began) < startsWithin:
				continue
			case err != nil:
				return err
			}
			defer c.Close()
			got, err := c.get("h", "/128")
			if err == nil && got.surrogate != "s1" {
				err = fmt.Errorf("an answer of %q", got.surrogate)
			}
			return err
		}
	}
	var all errgroup.Group
	for range firstClients {
		all.Go(ask)
	}
	return func() {
		t.Helper()
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
