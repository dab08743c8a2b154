package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/api"
	"baton/relay/config"
)

const soon = 20 * time.Second // for what takes milliseconds on a machine that is not busy

// running is a relay in this process.
type running struct {
	t      *testing.T
	dir    string // of the control socket alone
	file   string
	relay  *Relay
	client *api.Client
	ended  chan error
}

// launch runs a relay with a configuration, less its listen key, and its name if that does not matter. It has ended when the test does.
func launch(t *testing.T, text string) *running {
	t.Helper()
	r, err := tryLaunch(t, t.TempDir(), text)
	if err != nil {
		t.Fatal(err)
	}
	r.await()
	return r
}

func tryLaunch(t *testing.T, dir, text string) (*running, error) {
	t.Helper()
	r := &running{t: t, dir: dir, file: filepath.Join(t.TempDir(), "relay.yaml"), ended: make(chan error, 1)}
	r.configure(text)
	cfg, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	r.relay, err = New(Options{Config: cfg, Version: "v1", Log: slog.New(slog.DiscardHandler), Load: r.load})
	if err != nil {
		return nil, err
	}
	r.client = api.NewClient(cfg.Control)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.ended <- r.relay.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		r.client.Close()
		if r.ended != nil {
			r.end()
		}
	})
	return r, nil
}

func (r *running) configure(text string) {
	r.t.Helper()
	own := fmt.Sprintf("control: %q\n", filepath.Join(r.dir, "relay.sock"))
	if !strings.HasPrefix(text, "name: ") {
		own += "name: here\n"
	}
	if err := os.WriteFile(r.file, []byte(own+text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) load() (*config.Config, error) { return config.Load(r.file) }

// await returns when the relay takes flows.
func (r *running) await() {
	r.t.Helper()
	eventually(r.t, func() error {
		s, err := r.client.Relay(r.t.Context())
		if err != nil {
			return err
		}
		for _, e := range s.Entries {
			if !e.Open {
				return fmt.Errorf("entry %s is not open", e.Name)
			}
		}
		return nil
	})
}

// end waits for the end of the relay, which must be a good one that leaves nothing.
func (r *running) end() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("Run: %v", err)
		}
	case <-time.After(soon):
		r.t.Fatal("the relay does not end")
	}
	r.ended = nil
	if left, _ := os.ReadDir(r.dir); len(left) != 0 {
		r.t.Errorf("left behind: %v", left)
	}
}

func (r *running) status() api.RelayStatus {
	r.t.Helper()
	s, err := r.client.Relay(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	err := f()
	for end := time.Now().Add(soon); err != nil; err = f() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %v", soon, err)
		}
		time.Sleep(time.Millisecond)
	}
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// unused is an address that nobody listens at.
func unused(t *testing.T) string {
	t.Helper()
	l := listenTCP(t)
	l.Close()
	return l.Addr().String()
}

// flowTo opens a flow that has carried a byte each way.
func flowTo(t *testing.T, entry string, server net.Listener) (client, accepted net.Conn) {
	t.Helper()
	var d net.Dialer
	d.SetMultipathTCP(false)
	client, err := d.DialContext(t.Context(), "tcp", entry)
	if err != nil {
		t.Fatal(err)
	}
	_ = server.(*net.TCPListener).SetDeadline(time.Now().Add(soon))
	if accepted, err = server.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{client, accepted} {
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(soon))
	}
	carries(t, client, accepted)
	return client, accepted
}

func carries(t *testing.T, client, server net.Conn) {
	t.Helper()
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		if _, err := way[0].Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(way[1], make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

func entry(name, listen string, server net.Listener) string {
	return fmt.Sprintf("  - {name: %s, listen: %q, destination: %q}\n", name, listen, server.Addr())
}

// What a relay tells of itself, its entries and its flows.
func TestStatus(t *testing.T) {
	server := listenTCP(t)
	at := unused(t)
	r := launch(t, "workers: 2\nentries:\n"+entry("web", at, server))
	client, _ := flowTo(t, at, server)

	s := r.status()
	if s.Name != "here" || s.Version != "v1" || s.PID != os.Getpid() || s.Config != r.file || s.Kernel == "" || s.Stopping {
		t.Errorf("%+v", s)
	}
	if s.Flows.Used != 1 || s.Flows.Limit == 0 || len(s.Workers) != 2 || len(s.Features) == 0 || s.Trunks != nil || len(s.Peers) != 0 {
		t.Errorf("%+v", s)
	}
	want := []api.RelayEntry{{
		Name: "web", Open: true, Listen: netip.MustParseAddrPort(at), Mode: "plain", Destination: netip.MustParseAddrPort(server.Addr().String()),
		EarlySYN: "off", ClientAddress: "relay", Live: 1, Flows: 1,
	}}
	same := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
	if diff := cmp.Diff(want, s.Entries, same); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	var copied, flows uint64
	for _, w := range s.Workers {
		copied, flows = copied+w.Copied, flows+w.Flows
	}
	if copied != 2 || flows != 1 {
		t.Errorf("%d bytes copied in %d flows: 2 in 1", copied, flows)
	}
	n := 0
	for f, err := range r.client.RelayFlows(t.Context()) {
		n++
		if err != nil || f.Client.String() != client.LocalAddr().String() || f.Entry != "web" || f.FromClient != 1 || f.FromServer != 1 || f.ID != "" {
			t.Errorf("%+v, %v", f, err)
		}
	}
	if n != 1 {
		t.Errorf("%d flows: 1", n)
	}
	counters, err := r.client.Counters(t.Context())
	if err != nil || !slices.ContainsFunc(counters, func(c api.Counter) bool {
		return c.Name == "flows_total" && c.Labels["entry"] == "web" && c.Value == 1
	}) {
		t.Errorf("counters %v, %v", counters, err)
	}
}

// A relay that is drained takes no new flows, can be asked meanwhile, and ends with its last flow.
func TestDrain(t *testing.T) {
	server := listenTCP(t)
	at := unused(t)
	r := launch(t, "entries:\n"+entry("web", at, server))
	client, accepted := flowTo(t, at, server)
	for range 2 { // the second changes nothing
		d, err := r.client.RelayStop(t.Context())
		if err != nil || d.Flows != 1 || d.AtMost != 30*time.Second {
			t.Errorf("%+v, %v", d, err)
		}
	}
	eventually(t, func() error {
		if s := r.status(); !s.Stopping || s.Entries[0].Open || s.Entries[0].Live != 1 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("a new flow is taken")
	}
	if _, err := r.client.Reload(t.Context()); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("a reload: %v", err)
	}
	carries(t, client, accepted)
	client.Close()
	accepted.Close()
	r.end()
}

// Flows that do not end are reset when timeouts.stop is over.
func TestStopInTime(t *testing.T) {
	server := listenTCP(t)
	at := unused(t)
	r := launch(t, "timeouts: {stop: 100ms}\nentries:\n"+entry("web", at, server))
	client, _ := flowTo(t, at, server)
	if _, err := r.client.RelayStop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.end()
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the client's connection ends with %v, want a reset", err)
	}
}

// Two relays must not share a control socket, nor an address: the kernel would give each a part of the clients.
func TestSecondRelay(t *testing.T) {
	server := listenTCP(t)
	at := unused(t)
	first := launch(t, "entries:\n"+entry("web", at, server))
	for name, tt := range map[string]struct {
		dir, text string
		want      []string
	}{
		"control socket": {first.dir, "entries:\n" + entry("web", unused(t), server),
			[]string{"relay.yaml: control: ", "relay.sock: another daemon listens there"}},
		"entry": {t.TempDir(), "entries:\n" + entry("web", at, server), []string{"relay.yaml:4: entry web: listen at " + at, "in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := tryLaunch(t, tt.dir, tt.text)
			if err == nil {
				select {
				case err = <-r.ended:
				case <-time.After(soon):
					t.Fatal("it runs")
				}
				r.ended = nil
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
	flowTo(t, at, server)
	if s := first.status(); !s.Entries[0].Open {
		t.Errorf("the first has suffered: %+v", s)
	}
}

// Entries come and go at reloads, and flows stay.
func TestReload(t *testing.T) {
	server, other := listenTCP(t), listenTCP(t)
	a, b, c := unused(t), unused(t), unused(t)
	r := launch(t, "entries:\n"+entry("a", a, server)+entry("b", b, server))
	client, accepted := flowTo(t, a, server)
	onB, acceptedB := flowTo(t, b, server)

	r.configure("timeouts: {idle: 1h}\nentries:\n" + entry("c", c, server) + entry("b", b, other))
	result, err := r.client.Reload(t.Context())
	want := []string{"entry a has gone", "entry b has changed", "entry c is new", "timeouts: changed"}
	if err != nil || !slices.Equal(result.Changed, want) {
		t.Errorf("%v, %v: %v", result, err, want)
	}
	carries(t, client, accepted)
	carries(t, onB, acceptedB)
	flowTo(t, c, server)
	flowTo(t, b, other)
	if c, err := net.Dial("tcp", a); err == nil {
		c.Close()
		t.Error("entry a is open")
	}
	s := r.status()
	names := make([]string, len(s.Entries))
	for i, e := range s.Entries {
		names[i] = fmt.Sprintf("%s %v %d", e.Name, e.Open, e.Live)
	}
	if want := []string{"c true 1", "b true 2", "a false 1"}; !slices.Equal(names, want) || s.Reloads != 1 || s.ReloadsFailed != 0 {
		t.Errorf("%v, %d reloads: %v", names, s.Reloads, want)
	}
}

// A configuration that cannot be put in force changes nothing, and can be mended.
func TestReloadThatFails(t *testing.T) {
	server, taken := listenTCP(t), listenTCP(t)
	at, new := unused(t), unused(t)
	first := "entries:\n" + entry("web", at, server)
	r := launch(t, first)
	for i, tt := range []struct{ text, want string }{
		{"entries:\n" + entry("web", at, server) + entry("more", taken.Addr().String(), server), "relay.yaml:5: entry more: listen at " + taken.Addr().String()},
		{"entries:\n" + entry("web", at, server) + "  - {listen: 1}\n", "relay.yaml:5:"},
		{"workers: 7\n" + first, "workers: takes effect only after a restart"},
	} {
		r.configure(tt.text)
		if _, err := r.client.Reload(t.Context()); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		if s := r.status(); len(s.Entries) != 1 || !s.Entries[0].Open || s.ReloadsFailed != uint64(i+1) {
			t.Errorf("%+v: as before", s)
		}
	}
	flowTo(t, at, server)
	r.configure(first + entry("more", new, server))
	if _, err := r.client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	flowTo(t, new, server)
}

// What is lost of a listener after it was tried is told, and the rest is in force. The next reload tries again.
func TestOpenInPart(t *testing.T) {
	server, taken := listenTCP(t), listenTCP(t)
	at, new := unused(t), unused(t)
	r := launch(t, "entries:\n"+entry("web", at, server))
	r.configure("entries:\n" + entry("web", at, server) + entry("more", taken.Addr().String(), server) + entry("new", new, server))
	cfg, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	change := func() error {
		r.relay.changing.Lock()
		defer r.relay.changing.Unlock()
		return r.relay.open.change(r.relay.workers, cfg)
	}
	if err := change(); err == nil || !strings.Contains(err.Error(), "entry more") {
		t.Errorf("%v, want one about entry more", err)
	}
	flowTo(t, at, server)
	flowTo(t, new, server)
	taken.Close()
	if err := change(); err != nil {
		t.Error(err)
	}
	flowTo(t, taken.Addr().String(), server)
}
