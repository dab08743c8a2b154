package links

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
)

func addresses(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func leases(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	text := "# This is private data. Do not parse.\nADDRESS=192.0.2.9\nDNS=192.0.2.53 192.0.2.54\nNTP=192.0.2.7\n"
	for name, content := range map[string]string{"2": text, "3": "DNS=127.0.0.1 x\nDNS\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func noBus(context.Context) (*dbus.Conn, error) { return nil, errors.New("there is none") }

func TestLeases(t *testing.T) {
	r := &resolvers{leases: leases(t), bus: noBus}
	got := r.ask(t.Context(), []int{2, 3, 4})
	want := map[int][]netip.Addr{2: addresses("192.0.2.53", "192.0.2.54"), 3: nil, 4: nil}
	if diff := cmp.Diff(want, got, sameAddr...); diff != "" {
		t.Errorf("resolvers (-want +got):\n%s", diff)
	}
}

// resolved is what systemd-resolved exports, of a bus of the test's own.
type resolved []busServer

func (r resolved) Get(_, property string) (dbus.Variant, *dbus.Error) {
	if property != "DNS" {
		return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.UnknownProperty", nil)
	}
	return dbus.MakeVariant([]busServer(r)), nil
}

// ownBus runs a bus, and says how to connect to it.
func ownBus(t *testing.T) func(context.Context) (*dbus.Conn, error) {
	t.Helper()
	daemon, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("SKIP: dbus-daemon is not installed")
	}
	folder := t.TempDir()
	address := "unix:path=" + filepath.Join(folder, "bus")
	rules := `<busconfig><type>custom</type><listen>%s</listen><auth>EXTERNAL</auth><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	file := filepath.Join(folder, "bus.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, rules, address), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), daemon, "--config-file="+file, "--nofork", "--print-address")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // the test's context has done so, perhaps
		_ = c.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil { // it listens when it says where
		t.Fatal(err)
	}
	return func(ctx context.Context) (*dbus.Conn, error) { return dbus.Connect(address, dbus.WithContext(ctx)) }
}

func TestResolved(t *testing.T) {
	bus := ownBus(t)
	r := &resolvers{leases: leases(t), bus: bus}
	if got := r.ask(t.Context(), []int{2}); len(got[2]) != 2 {
		t.Errorf("a bus without systemd-resolved: %v", got)
	}
	conn, err := bus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	service := resolved{
		{0, 2, []byte{192, 0, 2, 1}}, {2, 2, []byte{192, 0, 2, 2}}, {2, 10, netip.MustParseAddr("2001:db8::53").AsSlice()}, {3, 2, []byte{127, 0, 0, 53}},
		{3, 2, []byte{1}},
	}
	if err := conn.Export(service, "/org/freedesktop/resolve1", "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName("org.freedesktop.resolve1", 0); err != nil {
		t.Fatal(err)
	}
	got := r.ask(t.Context(), []int{2, 3})
	want := map[int][]netip.Addr{2: addresses("192.0.2.2", "2001:db8::53"), 3: nil}
	if diff := cmp.Diff(want, got, sameAddr...); diff != "" {
		t.Errorf("resolvers (-want +got):\n%s", diff)
	}
}

// TestWant: what is wished last is found.
func TestWant(t *testing.T) {
	r := newResolvers()
	r.leases, r.bus = leases(t), noBus
	r.want([]int{4})
	r.want([]int{2})
	go r.run(t.Context())
	if got := <-r.found; len(got[2]) != 2 {
		t.Errorf("found %v", got)
	}
}
