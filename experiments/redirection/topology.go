package redirection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"baton/experiments"
	"baton/experiments/cdn"
	"baton/experiments/load"
	"baton/lab"
)

// Topology is the network of the current case. Each case has a lab of its own, as its line has another length.
type Topology struct {
	*cdn.Network
	setup    *experiments.Setup
	examples string
	end      chan struct{} // closed: the network is to end
	gone     chan error    // the network has ended
	guests   int           // clients so far that the network did not know

	front    front
	download float64 // seconds that the current contender's download took; 0: none yet
}

// front is what clients of the current contender ask.
type front struct {
	target netip.AddrPort
	follow bool   // a 302
	name   string // to be resolved at first: redirection by DNS
}

// Addresses of what is added to the network of examples/cdn.
const (
	surrogate = "10.11.0.11:80"
	proxyAt   = cdn.RouterHost + ":8090" // HAProxy's, at the request router
	// tracked is a service whose sessions the controller tracks. It hands none of them over, as nothing asks for it.
	tracked = cdn.ReactiveAt + ":8085"

	small = "/images/01.png"
	large = "/large"
)

// largeSize is the paper's 1 GB.
func (t *Topology) largeSize() int64 {
	if t.setup.Options.Quick {
		return 100e6
	}
	return 1e9
}

// enter replaces the network by that of a case.
func (t *Topology) enter(ctx context.Context, c experiments.Case) error {
	if err := t.close(); err != nil {
		return err
	}
	o := cdn.Options{
		Program: t.setup.Options.Program, Examples: t.examples, Forwarders: int(c.At[forwarders]), Controller: true, OpenVSwitch: c.Name == vswitch,
		Spare: short(c), Edit: edit,
	}
	t.end, t.gone, t.guests = make(chan struct{}), make(chan error, 1), 0
	up := make(chan *cdn.Network, 1)
	go func() {
		t.gone <- lab.Run(t.setup.Options.Progress, func(l *lab.Lab) error {
			n, err := cdn.Build(ctx, l, o)
			if err != nil {
				return err
			}
			up <- n
			<-t.end
			return nil
		})
	}()
	select {
	case err := <-t.gone:
		t.end = nil
		return fmt.Errorf("build the network: %w", err)
	case t.Network = <-up:
	}
	if err := t.Joined(ctx); err != nil {
		return err
	}
	return t.fill(short(c))
}

// close ends the current network, if there is one.
func (t *Topology) close() error {
	if t.end == nil {
		return nil
	}
	close(t.end)
	t.end = nil
	return <-t.gone
}

func (t *Topology) leave() {
	if err := t.close(); err != nil {
		t.setup.Lab.Logf("the last network: %v", err)
	}
}

// edit changes the example to what the experiment needs: one surrogate, whose cache has room for a large file, a service that is never handed over,
// and a name server that answers as often as it is asked.
func edit(file, text string) string {
	switch file {
	case "router.yaml":
		text = strings.ReplaceAll(text, "http://se1.cdn.dizp.bt", "http://10.11.0.11")
		return without(text, "{name: se2,")
	case "controller.yaml":
		const services = "  services:\n"
		text = strings.Replace(text, services, services+"    - {address: \""+tracked+"\"}\n", 1)
		return without(text, "    se2: {")
	case "nameserver.yaml":
		return text + "limits: none\n"
	case "surrogate.conf":
		return strings.Replace(text, "max_size=256m", "max_size=4g", 1)
	}
	return text
}

// without removes the lines that have a mark.
func without(text, mark string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, mark) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// fill makes the large file at the origin, and has the surrogate cache what clients will ask for.
func (t *Topology) fill(downloads bool) error {
	paths := []string{small}
	if downloads {
		paths = append(paths, large)
	}
	file := filepath.Join(t.Origin.Dir, "content", large)
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return err
	}
	if err := os.Truncate(file, t.largeSize()); err != nil {
		return err
	}
	t.front = front{target: netip.MustParseAddrPort(surrogate)}
	for _, path := range paths {
		r, _, err := t.ask(context.Background(), load.Options{Path: path, Requests: 2})
		if err := errors.Join(err, r.First); err != nil {
			return fmt.Errorf("fill the cache: %s: %w", path, err)
		}
	}
	unix.Sync() // a surrogate that waits for the disk answers nobody
	return nil
}

// guest runs f as a client that the network does not know: with a MAC and an IP address that it has never seen.
func (t *Topology) guest(f func(from netip.Addr) error) error {
	t.guests++
	if t.guests > 100 {
		return errors.New("there are no more addresses for clients")
	}
	eth0 := t.Clients[0].Interface("eth0")
	old := eth0.MAC
	address := fmt.Sprintf("10.11.0.%d", 120+t.guests)
	eth0.SetMAC(net.HardwareAddr{0x02, 0xba, 0x70, 0, 0, byte(t.guests)})
	eth0.Address(address + "/24")
	defer func() {
		eth0.RemoveAddress(address + "/24")
		eth0.SetMAC(old)
	}()
	return f(netip.MustParseAddr(address))
}
