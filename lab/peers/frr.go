package peers

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"baton/lab"
)

// frrFolder is where Debian's package has the daemons.
const frrFolder = "/usr/lib/frr"

// FRRouter is a running bgpd of FRRouting, with the zebra that tells it the host's addresses: from version 10 on it needs them for IPv6 routes
// over IPv4. It knows routes, and installs none.
type FRRouter struct {
	*lab.Process
	Zebra   *lab.Process
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
	if err := giveTo("frr", f.Dir); err != nil { // zebra runs as this user in any case
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
	if f.Zebra, err = h.Start(f.daemon("zebra", "/dev/null")); err != nil {
		return err
	}
	if err := until(f.Zebra, func() error {
		_, err := os.Stat(f.zserv())
		return err
	}); err != nil {
		return fmt.Errorf("%w\n%s", err, f.Zebra.Log())
	}
	if f.Process, err = h.Start(f.daemon("bgpd", file, "-S", "-n")); err != nil {
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

// zserv is the socket between the daemons.
func (f *FRRouter) zserv() string { return filepath.Join(f.Dir, "zserv.api") }

// daemon is one that shares nothing with those of others.
func (f *FRRouter) daemon(name, file string, more ...string) lab.Program {
	return lab.Program{Path: filepath.Join(frrFolder, name), Dir: f.Dir, Args: append([]string{
		"-f", file, "-i", filepath.Join(f.Dir, name+".pid"), "-z", f.zserv(), "--vty_socket", f.Dir, "-P", "0", "--log", "stdout",
	}, more...)}
}

// giveTo makes a folder a user's.
func giveTo(name, dir string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
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
