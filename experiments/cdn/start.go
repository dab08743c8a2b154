package cdn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
	of "baton/openflow"
	"baton/openflow/channel"
)

// patience bounds what takes a second on a machine with nothing else to do.
const patience = time.Minute

// startContent starts origin and surrogates.
func (n *Network) startContent(context.Context) error {
	text, err := n.example("origin.conf")
	if err != nil {
		return err
	}
	content, err := n.content()
	if err != nil {
		return err
	}
	n.Origin = peers.ConfiguredApache(n.Services, peers.ConfiguredOptions{
		Name: "origin", Config: text, Folders: []string{"content/images"}, Files: content,
	})
	if text, err = n.example("surrogate.conf"); err != nil {
		return err
	}
	for _, h := range n.Surrogates {
		n.Caches = append(n.Caches, peers.ConfiguredNginx(h, peers.ConfiguredOptions{Config: text, Folders: []string{"tmp"}}))
	}
	return nil
}

// content are the files of the origin by path, in the folder content.
func (n *Network) content() (map[string]string, error) {
	files := map[string]string{}
	root := os.DirFS(n.o.Examples)
	err := fs.WalkDir(root, "content", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the gallery: %w", err)
	}
	return files, nil
}

// forwarderConfig is the configuration of the forwarders: the example's but for the length of the line.
func (n *Network) forwarderConfig() (string, error) {
	text, err := n.example("forwarders.yaml")
	if err != nil {
		return "", err
	}
	head, _, _ := strings.Cut(n.bothControllers(text), "\ndatapaths:\n")
	if !n.o.Controller {
		head = strings.Replace(head, "fail_mode: secure", "fail_mode: standalone", 1)
	}
	if n.o.Forwarders > 10 { // each takes kernel memory for its entries
		head = strings.Replace(head, "entries: 16384", "entries: 4096", 1)
	}
	var b strings.Builder
	b.WriteString(head + "\ndatapaths:\n")
	for i := 1; i <= n.o.Forwarders; i++ {
		if n.at(i) == n.Switches {
			fmt.Fprintf(&b, "  - {name: s%d, datapath_id: %d, listen: [%q], ports: {%s}}\n", i, i, "unix:"+n.listens(i), strings.Join(n.ports(i), ", "))
		}
	}
	return b.String(), nil
}

// listens is the socket at which a forwarder takes flow entries from tools.
func (n *Network) listens(forwarder int) string {
	return filepath.Join(n.lab.Dir(), fmt.Sprintf("s%d.of", forwarder))
}

// Numbers of ports between forwarders.
const (
	leftPort  = 10
	rightPort = 11
	sparePort = 12
)

// ports of a forwarder as the configuration has them.
func (n *Network) ports(forwarder int) (list []string) {
	for _, s := range n.stations {
		if s.at == forwarder {
			list = append(list, fmt.Sprintf("%d: %s", s.port, s.name))
		}
	}
	if forwarder > 1 {
		list = append(list, fmt.Sprintf("%d: l%d", leftPort, forwarder))
	}
	if forwarder < n.o.Forwarders {
		list = append(list, fmt.Sprintf("%d: r%d", rightPort, forwarder))
	}
	if n.o.Spare && (forwarder == 2 || forwarder == 3) {
		list = append(list, fmt.Sprintf("%d: spare%d", sparePort, forwarder))
	}
	return list
}

func (n *Network) startForwarders(ctx context.Context) error {
	if n.o.OpenVSwitch {
		mode := "standalone"
		if n.o.Controller {
			mode = "secure"
		}
		n.VSwitch = peers.OpenVSwitch(n.access, peers.OpenVSwitchOptions{
			FailMode: mode, Ports: []string{"client1", "client2", "r1"}, Controller: "tcp:" + Management + ":6653", DatapathID: 1,
		})
	}
	text, err := n.forwarderConfig()
	if err != nil {
		return err
	}
	file, socket, err := n.configure("forwarders.yaml", text)
	if err != nil {
		return err
	}
	if n.Forwarders, err = n.run(n.Switches, "forwarder", file); err != nil {
		return err
	}
	n.forwarders = api.NewClient(socket)
	n.lab.T().Cleanup(n.forwarders.Close)
	err = ready(ctx, n.Forwarders, patience, func() error {
		if !strings.Contains(n.Forwarders.Log(), "all forwarders are up") {
			return fmt.Errorf("they are not up:\n%s", n.Forwarders.Log())
		}
		return nil
	})
	if err != nil || !n.o.Static {
		return err
	}
	return n.fill(ctx)
}

// fill gives each forwarder the way to each station, by MAC, and to the VIP's owner; other frames are flooded, which a line does without loops.
func (n *Network) fill(ctx context.Context) error {
	for i := 1; i <= n.o.Forwarders; i++ {
		if n.at(i) != n.Switches {
			continue
		}
		conn, err := n.Switches.Dial(ctx, "unix", n.listens(i))
		if err != nil {
			return err
		}
		c := channel.Start(conn, channel.Options{})
		if err = c.Up(ctx); err == nil {
			err = c.Commit(ctx, n.entries(i)...)
		}
		c.Close()
		if err != nil {
			return fmt.Errorf("forwarder s%d: %w", i, err)
		}
	}
	return nil
}

func (n *Network) entries(forwarder int) []of.Message {
	entry := func(priority uint16, match of.Match, port of.PortNo) of.Message {
		m := of.NewFlowMod(of.FlowAdd)
		m.Priority, m.Match = priority, match
		m.Instructions = []of.Instruction{of.InstructionApplyActions{Actions: []of.Action{of.ActionOutput{Port: port}}}}
		return m
	}
	list := []of.Message{entry(1, nil, of.PortFlood)}
	for _, s := range n.stations {
		port := of.PortNo(s.port)
		switch {
		case s.at < forwarder:
			port = leftPort
		case s.at > forwarder:
			port = rightPort
		}
		list = append(list, entry(100, of.Match{}.Bytes(of.FieldEthDst, s.attached.MAC, nil), port))
	}
	return list
}

// startNameServer returns when it answers, and knows that surrogates are up: it sends nobody to the request router for want of one.
func (n *Network) startNameServer(ctx context.Context) (err error) {
	text, err := n.example("nameserver.yaml")
	if err != nil {
		return err
	}
	zone, err := n.example("dizp.bt.zone")
	if err != nil {
		return err
	}
	file, _, err := n.configure("nameserver.yaml", text)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "dizp.bt.zone"), []byte(zone), 0o644); err != nil {
		return err
	}
	if n.NameServer, err = n.run(n.Services, "nameserver", file); err != nil {
		return err
	}
	return ready(ctx, n.NameServer, patience, func() error {
		at, err := n.Resolve(ctx, n.Clients[0], "cdn."+Domain)
		if err == nil && at != VIP {
			err = fmt.Errorf("cdn.%s is %q", Domain, at)
		}
		if err != nil {
			return err
		}
		if at, err = n.Resolve(ctx, n.Clients[0], "near.cdn."+Domain); err == nil && at == VIP {
			err = fmt.Errorf("near.cdn.%s is the request router: no surrogate is up", Domain)
		}
		return err
	})
}

// Resolve asks the name server for an address, from a client and over the forwarders.
func (n *Network) Resolve(ctx context.Context, from *lab.Host, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	said, err := peers.Kdig(ctx, from, Services, name, "A", "+short", "+retry=0", "+time=1")
	if err != nil {
		return "", err
	}
	lines := strings.Fields(said) // the last of them is the address, after those of aliases
	if len(lines) == 0 {
		return "", fmt.Errorf("%s has no address", name)
	}
	return lines[len(lines)-1], nil
}

// routerConfig is the example's. Without a controller the native mode has the surrogates of the file, in turn.
func (n *Network) routerConfig() (string, error) {
	text, err := n.example("router.yaml")
	if err != nil || n.o.Controller {
		return n.bothControllers(text), err
	}
	head, rest, found := strings.Cut(text, "  near:\n")
	_, rest, follows := strings.Cut(rest, "  content:\n")
	if !found || !follows {
		return "", errors.New("router.yaml of the example has no pools near and content, in this order")
	}
	return strings.Replace(head, "pool: near", "pool: content", 1) + "  content:\n" + rest, nil
}

// startRouter returns when every surrogate is up and has legs.
func (n *Network) startRouter(ctx context.Context) error {
	text, err := n.routerConfig()
	if err != nil {
		return err
	}
	saved := filepath.Join(n.lab.Dir(), "cdn", "saved") // what a router discovers outlives it, and must not outlive the lab
	file, socket, err := n.configure("router.yaml", n.withTokens(text)+"\nsaved: "+saved+"\n")
	if err != nil {
		return err
	}
	if n.Routing, err = n.run(n.Router, "router", file); err != nil {
		return err
	}
	n.router = api.NewClient(socket)
	n.lab.T().Cleanup(n.router.Close)
	return ready(ctx, n.Routing, patience, func() error {
		s, err := n.router.Router(ctx)
		if err != nil {
			return err
		}
		for _, p := range s.Pools {
			if len(p.Surrogates) == 0 {
				return fmt.Errorf("pool %s has no surrogates: %+v", p.Name, p.Discover)
			}
			for _, sg := range p.Surrogates {
				if !sg.Up || sg.LegsMode != "" && sg.IdleLegs == 0 { // a pool for redirects has no legs
					return fmt.Errorf("surrogate %s is %s, with %d legs: %s", sg.Name, sg.Phase, sg.IdleLegs, sg.LastError)
				}
			}
		}
		return nil
	})
}
