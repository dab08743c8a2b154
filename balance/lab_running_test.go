package balance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
)

// running is a started `baton balance`.
type running struct {
	*lab.Process
	n            *network
	file, socket string
}

// links is the part of the configuration that names the first links of the network.
func (n *network) linksText(more ...string) string {
	text := "links:\n"
	for i := range n.links {
		extra := ""
		if i < len(more) {
			extra = more[i]
		}
		text += fmt.Sprintf("  - {name: link%d, interface: %s, weight: 1%s}\n", i, n.links[i].Name, extra)
	}
	return text
}

// start runs `baton balance` on the host with this configuration, less its name, and returns when it is ready.
func (n *network) start(config string) *running {
	n.t.Helper()
	r := n.begin(config)
	r.ready()
	return r
}

func (n *network) begin(config string) *running {
	n.t.Helper()
	path, err := build.Program("baton")
	if err != nil {
		n.t.Fatal(err)
	}
	dir := filepath.Join(n.Dir(), n.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	r := &running{n: n, file: filepath.Join(dir, "balance.yaml"), socket: filepath.Join(dir, "balance.sock")}
	r.configure(config)
	if r.Process, err = n.host.Start(lab.Program{
		Path: path, Args: []string{"balance", "run", "-c", r.file, "--log-level", "debug"}, Name: "balance", Env: n.environment(),
	}); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { // what a test that has failed leaves
		if err := r.Kill(); err != nil {
			n.t.Error(err)
		}
		n.restore()
	})
	return r
}

// environment points Baton to the host's Open vSwitch.
func (n *network) environment() []string {
	if n.vswitch == nil {
		return nil
	}
	return []string{"OVS_RUNDIR=" + n.vswitch.Dir}
}

// baton runs a command of the program on the host.
func (n *network) baton(args ...string) (string, error) {
	path, err := build.Program("baton")
	if err != nil {
		n.t.Fatal(err)
	}
	p, err := n.host.Start(lab.Program{Path: path, Args: args, Env: n.environment(), Unlogged: true})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	err = p.Wait(ctx)
	return p.Log(), err
}

// restore undoes what a balance has left on the host.
func (n *network) restore() {
	n.t.Helper()
	file := filepath.Join(n.t.TempDir(), "restore.yaml")
	if err := os.WriteFile(file, []byte("name: "+n.name+"\nlinks: [eth0]\n"), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if out, err := n.baton("balance", "cleanup", "-c", file); err != nil {
		n.t.Errorf("restore: %v\n%s", err, out)
	}
}

func (r *running) configure(config string) {
	r.n.t.Helper()
	text := fmt.Sprintf("name: %s\ncontrol: %q\nstate: %q\n%s", r.n.name, r.socket, filepath.Dir(r.socket), config)
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.n.t.Fatal(err)
	}
}

func (r *running) ready() {
	r.n.t.Helper()
	lab.Eventually(r.n.t, soon, func() error {
		if !strings.Contains(r.Log(), "msg=ready") {
			return fmt.Errorf("the balance is not ready:\n%s", r.Log())
		}
		return nil
	})
}

// reload has the balance read another configuration.
func (r *running) reload(config string) error {
	r.configure(config)
	client := api.NewClient(r.socket)
	defer client.Close()
	_, err := client.Reload(r.n.t.Context())
	return err
}

func (r *running) status() api.BalanceStatus {
	r.n.t.Helper()
	client := api.NewClient(r.socket)
	defer client.Close()
	s, err := client.Balance(context.Background())
	if err != nil {
		r.n.t.Fatalf("%v\n%s", err, r.Log())
	}
	return s
}

// until waits until a link's state is this one.
func (r *running) until(link int, state string) {
	r.n.t.Helper()
	lab.Eventually(r.n.t, soon, func() error {
		if s := r.status(); s.Links[link].State != state {
			return fmt.Errorf("%s is %q, not %q:\n%s", s.Links[link].Name, s.Links[link].State, state, r.Log())
		}
		return nil
	})
}

// stop ends the balance in good order.
func (r *running) stop() {
	r.n.t.Helper()
	if err := r.Stop(soon); err != nil {
		r.n.t.Error(err)
	}
	if err := r.Wait(context.Background()); err != nil {
		r.n.t.Errorf("the balance has ended with %v:\n%s", err, r.Log())
	}
}
