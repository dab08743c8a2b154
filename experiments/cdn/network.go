// Package cdn builds the content delivery network of the paper "Transparent Redirections in Content Delivery Networks" (section 4.4) in
// namespaces of this machine: forwarders in line, a request router, caching surrogates, origin, name server and clients. The programs and their
// configurations are those of examples/cdn.
package cdn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// Addresses of the paper's tables 1 and 2, and the router's own, beside the VIP.
const (
	Services   = "10.11.0.99" // name server and origin
	VIP        = "10.11.0.100"
	RouterHost = "10.11.0.110"
	ReactiveAt = "10.11.0.111" // of the request router, for the reactive mode
	Management = "10.9.1.11"   // of the services in the management network
	StandbyAt  = "10.9.1.19"   // of the standby controller, there

	Domain = "dizp.bt"
	// Site is the gallery, by the CDN.
	Site = "cdn." + Domain + ":8082"
	// Redirected is the same by 302.
	Redirected = "cdn." + Domain + ":8083"
	// Reactive is the same by handoffs that the controller makes.
	Reactive = "reactive.cdn." + Domain + ":8084"
)

// Options of Build.
type Options struct {
	Program  string // path of baton; baton-cdn is beside it
	Examples string // folder with the configurations, examples/cdn
	// Forwarders in line, at least 2; 0: 3. Clients are at the first, request router and surrogates at the last, origin and name server halfway.
	Forwarders int
	// Controller installs paths; without one the forwarders are learning bridges.
	Controller bool
	// OpenVSwitch is the first forwarder, at the access.
	OpenVSwitch bool
	// Static gives the forwarders flow entries of a learning bridge's outcome: no controller is needed, and no frame is flooded.
	Static bool
	// Spare is a second link between the second and the third forwarder. It needs a controller: bridges would have a loop.
	Spare bool
	// Standby is a second controller, on a host of its own; both keep their state in a cluster of etcd.
	Standby bool
	// Edit changes the text of a configuration of the example before it is used; nil: it stays.
	Edit     func(file, text string) string
	Progress io.Writer // a line for each thing that is done; nil: none
}

// Network is a running network.
type Network struct {
	o          Options
	lab        *lab.Lab
	Switches   *lab.Host // all forwarders but Open vSwitch
	access     *lab.Host // Open vSwitch
	second     *lab.Host // of the standby controller
	Services   *lab.Host
	Router     *lab.Host
	Clients    []*lab.Host
	Surrogates []*lab.Host
	Line       []*lab.Link // between forwarders, the access's first
	SpareLink  *lab.Link   // nil without

	Origin     *peers.Server
	Caches     []*peers.Server
	VSwitch    *peers.VSwitch // nil without Open vSwitch
	NameServer *lab.Process
	Controller *lab.Process // nil without
	Standby    *lab.Process // the second controller; nil without
	Etcd       *peers.EtcdCluster
	Page       string // URL of the controller's page for the machine's own programs; "" without
	Token      string // of an operator, for it
	Forwarders *lab.Process
	Routing    *lab.Process

	router     *api.Client
	forwarders *api.Client
	controller *api.Client
	standby    *api.Client
	northbound *http.Client
	asked      string // the address of the northbound that is asked
	stations   []station
	began      time.Time
}

// station is a host of the network and where it is attached.
type station struct {
	host     *lab.Host
	at       int    // forwarder, from 1
	port     int    // of it
	name     string // of the port's interface
	address  string
	managed  string // address in the management network
	attached *lab.Interface
}

// Build starts everything and returns when the request router has legs to all surrogates. All of it goes with the lab.
func Build(ctx context.Context, l *lab.Lab, o Options) (*Network, error) {
	if o.Forwarders == 0 {
		o.Forwarders = 3
	}
	if o.Forwarders < 2 {
		return nil, fmt.Errorf("a line of %d forwarders: clients and surrogates are at different ones", o.Forwarders)
	}
	if o.Standby && !o.Controller {
		return nil, errors.New("a standby controller without a controller")
	}
	if o.Spare && (o.Forwarders < 3 || !o.Controller) {
		return nil, fmt.Errorf("a second link between forwarders 2 and 3 of %d needs both, and a controller", o.Forwarders)
	}
	l.Need("nginx", "apache2", "curl", "kdig")
	n := &Network{o: o, lab: l, began: time.Now()}
	n.wire()
	for _, step := range []struct {
		what string
		skip bool
		do   func(context.Context) error
	}{
		{"origin and caching surrogates: Apache, nginx", false, n.startContent},
		{"tokens of the controller's callers", false, n.writeTokens},
		{"etcd, three members", !o.Standby, n.startEtcd},
		{"controller", !o.Controller, n.startController},
		{"standby controller", !o.Standby, n.startStandby},
		{fmt.Sprintf("%d forwarders in line", o.Forwarders), false, n.startForwarders},
		{"discovery of forwarders and links", !o.Controller, n.Discovered},
		{"name server", false, n.startNameServer},
		{"request router", false, n.startRouter},
	} {
		if step.skip {
			continue
		}
		n.say("%6.1f s  %s", time.Since(n.began).Seconds(), step.what)
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	n.say("%6.1f s  the network is up", time.Since(n.began).Seconds())
	return n, nil
}

func (n *Network) say(format string, args ...any) {
	if n.o.Progress != nil {
		fmt.Fprintf(n.o.Progress, format+"\n", args...)
	}
}

// wire makes hosts and links. Ports 1 to 9 of a forwarder are hosts', 10 is to the left, 11 to the right, 12 of the spare link.
func (n *Network) wire() {
	l, last := n.lab, n.o.Forwarders
	n.Switches = l.Host("mn")
	if n.o.OpenVSwitch {
		n.access = l.Host("access")
	}
	halfway := (last + 1) / 2
	n.Services = n.attach("services", halfway, 1, Services, "11")
	n.Clients = []*lab.Host{n.attach("client1", 1, 1, "10.11.0.101", "15"), n.attach("client2", 1, 2, "10.11.0.102", "16")}
	if n.o.Standby {
		n.second = n.attach("standby", halfway, 4, "10.11.0.98", "19")
	}
	n.Router = n.attach("rr", last, 1, RouterHost, "12")
	n.Router.Interface("eth0").Address(ReactiveAt + "/24")
	n.Surrogates = []*lab.Host{n.attach("se1", last, 2, "10.11.0.11", "13"), n.attach("se2", max(2, last-1), 3, "10.11.0.12", "14")}
	n.Router.Forward()
	for i := 1; i < last; i++ {
		n.Line = append(n.Line,
			l.Link(lab.End{Host: n.at(i), Name: fmt.Sprintf("r%d", i)}, lab.End{Host: n.at(i + 1), Name: fmt.Sprintf("l%d", i+1)}, n.links(i)))
	}
	if n.o.Spare {
		n.SpareLink = l.Link(lab.End{Host: n.at(2), Name: "spare2"}, lab.End{Host: n.at(3), Name: "spare3"}, lab.LinkOptions{})
	}
	n.manage()
	for _, h := range n.Clients {
		h.Resolv([]netip.Addr{netip.MustParseAddr(Services)})
	}
	for _, h := range n.Surrogates {
		h.Hosts(map[string][]netip.Addr{"origin." + Domain: {netip.MustParseAddr(Services)}})
	}
}

// at is the host of a forwarder.
func (n *Network) at(forwarder int) *lab.Host {
	if n.o.OpenVSwitch && forwarder == 1 {
		return n.access
	}
	return n.Switches
}

// links of Open vSwitch carry whole frames: see peers.OpenVSwitchOptions.
func (n *Network) links(forwarder int) lab.LinkOptions {
	return lab.LinkOptions{NoOffloads: n.o.OpenVSwitch && forwarder == 1}
}

// attach makes a host at a port of a forwarder. IPv6 is off: the paper's network has none.
func (n *Network) attach(name string, at, port int, address, managed string) *lab.Host {
	h := n.lab.Host(name)
	for _, which := range []string{"all", "default"} {
		h.Sysctl("net.ipv6.conf."+which+".disable_ipv6", "1")
	}
	k := n.lab.Link(lab.End{Host: h, Name: "eth0", Addrs: []string{address + "/24"}}, lab.End{Host: n.at(at), Name: name}, n.links(at))
	n.stations = append(n.stations, station{host: h, at: at, port: port, name: name, address: address, managed: "10.9.1." + managed, attached: k.A})
	return h
}

// manage makes the management network: a bridge on the services' node.
func (n *Network) manage() {
	bridge := n.Services.Bridge("mgmt", Management+"/24")
	join := func(h *lab.Host, address string) {
		n.lab.Link(lab.End{Host: n.Services, Name: "m-" + h.Name()}, lab.End{Host: h, Name: "mgmt", Addrs: []string{address + "/24"}}, lab.LinkOptions{}).A.Attach(bridge)
	}
	join(n.Switches, "10.9.1.10")
	if n.o.OpenVSwitch {
		join(n.access, "10.9.1.17")
	}
	for _, s := range n.stations {
		if s.host != n.Services {
			join(s.host, s.managed)
		}
	}
}

// example is the text of a file of the example.
func (n *Network) example(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(n.o.Examples, name))
	if err != nil {
		return "", fmt.Errorf("read the example: %w", err)
	}
	if n.o.Edit != nil {
		return n.o.Edit(name, string(text)), nil
	}
	return string(text), nil
}

// configure writes a configuration of the example with its control socket in the lab's folder: sockets are files of the machine.
func (n *Network) configure(name, text string) (file, socket string, err error) {
	dir := filepath.Join(n.lab.Dir(), "cdn")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	file, socket = filepath.Join(dir, name), filepath.Join(dir, strings.TrimSuffix(name, ".yaml")+".sock")
	return file, socket, os.WriteFile(file, []byte(text+"\ncontrol: "+socket+"\n"), 0o644)
}

// run starts baton, or baton-cdn through it, on a host.
func (n *Network) run(h *lab.Host, part, file string) (*lab.Process, error) {
	return h.Start(lab.Program{Path: n.o.Program, Args: []string{part, "run", "-c", file}, Name: part})
}

// ready polls until a process is as it should be.
func ready(ctx context.Context, p *lab.Process, within time.Duration, f func() error) error {
	var ended error
	err := lab.Poll(within, func() error {
		select {
		case <-p.Done():
			ended = fmt.Errorf("%s has ended:\n%s", p.Name(), p.Log())
			return nil
		case <-ctx.Done():
			return nil // the caller looks
		default:
			return f()
		}
	})
	return errors.Join(err, ended)
}

// Examples finds the folder of the configurations: here, or above here or the running program.
func Examples() (string, error) {
	starts := []string{"."}
	if self, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(self))
	}
	for _, start := range starts {
		dir, err := filepath.Abs(start)
		if err != nil {
			return "", err
		}
		for ; ; dir = filepath.Dir(dir) {
			folder := filepath.Join(dir, "examples", "cdn")
			if _, err := os.Stat(filepath.Join(folder, "router.yaml")); err == nil {
				return folder, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("find the configurations: there is no folder examples/cdn here, or above here or the program")
}
