package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"baton/lab"
)

// frrFolder is where Debian's package has the daemons.
const frrFolder = "/usr/lib/frr"

// FRRouter is a running bgpd of FRRouting. It knows routes, and installs none.
type FRRouter struct {
	*lab.Process
	Version string
	Dir     string
}

// FRR starts bgpd with a configuration, and returns when it is in force. A configuration that it does not take fails the test with its
// own words.
func FRR(h *lab.Host, config string) *FRRouter {
	t := h.Lab().T()
	t.Helper()
	h.Lab().Need(filepath.Join(frrFolder, "bgpd"), "vtysh")
	f := &FRRouter{}
	if err := f.start(h, config); err != nil {
		t.Fatalf("peers: frr on %s: %v", h.Name(), err)
	}
	return f
}

func (f *FRRouter) start(h *lab.Host, config string) (err error) {
	bgpd := filepath.Join(frrFolder, "bgpd")
	if f.Version, err = Version(bgpd); err != nil {
		return err
	}
	if f.Dir, err = os.MkdirTemp(h.Lab().Dir(), "frr-"); err != nil {
		return err
	}
	file := filepath.Join(f.Dir, "bgpd.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readiness)
	defer cancel()
	if _, err := h.Exec(ctx, bgpd, "-C", "-S", "-f", file); err != nil {
		return err
	}
	f.Process, err = h.Start(lab.Program{Path: bgpd, Dir: f.Dir, Args: []string{
		"-S", "-Z", "-n", "-f", file, "-i", filepath.Join(f.Dir, "bgpd.pid"), "--vty_socket", f.Dir, "-P", "0", "--log", "stdout",
	}})
	if err != nil {
		return err
	}
	err = until(f.Process, func() error {
		_, err := f.Vtysh(ctx, "show bgp summary")
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, f.Log())
	}
	return nil
}

// Vtysh runs a command of bgpd's: Vtysh(ctx, "show bgp ipv4 unicast json").
func (f *FRRouter) Vtysh(ctx context.Context, command string) (string, error) {
	out, err := f.Host().Exec(ctx, "vtysh", "--vty_socket", f.Dir, "-d", "bgpd", "-c", command)
	if err == nil && strings.HasPrefix(strings.TrimSpace(out), "%") {
		err = fmt.Errorf("vtysh: %s: %s", command, strings.TrimSpace(out))
	}
	if err != nil {
		return out, fmt.Errorf("%w %s", err, strings.TrimSpace(out))
	}
	return out, nil
}
