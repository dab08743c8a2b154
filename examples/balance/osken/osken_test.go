package osken_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

// settings are balance.json.
type settings struct {
	Method   string            `json:"method"`
	Internal map[string]string `json:"internal"`
	Links    []map[string]any  `json:"links"`
}

const server = "203.0.113.9"

// network is the README's: a host with two links to a server.
type network struct {
	*lab.Lab
	t            *testing.T
	host, server *lab.Host
	settings     settings
}

// newNetwork makes the network of balance.json, and a file like it with the MACs of this one.
func newNetwork(t *testing.T, method string) *network {
	t.Helper()
	l := lab.New(t)
	n := &network{Lab: l, t: t, host: l.Host("host"), server: l.Host("server")}
	text, err := os.ReadFile("balance.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &n.settings); err != nil {
		t.Fatal(err)
	}
	plain := lab.LinkOptions{NoOffloads: true} // as Open vSwitch's userspace datapath needs
	internal := l.Link(lab.End{Host: n.host, Name: "bal0", Addrs: []string{n.settings.Internal["ip"] + "/29"}}, lab.End{Host: n.host, Name: "bal0p"}, plain)
	n.settings.Method, n.settings.Internal["mac"] = method, internal.A.MAC.String()
	n.server.Interface("lo").Address(server + "/32")
	for i, link := range n.settings.Links {
		ip := link["ip"].(string)
		k := l.Link(lab.End{Host: n.host, Name: fmt.Sprintf("eth%d", i), Addrs: []string{ip + "/24"}},
			lab.End{Host: n.server, Name: fmt.Sprintf("up%d", i), Addrs: []string{strings.TrimSuffix(ip, "2") + "1/24"}}, plain)
		n.server.Neighbour(k.B, ip, k.A.MAC) // the forwarder's ports are not the host's
		link["mac"], link["gateway_mac"] = k.A.MAC.String(), k.B.MAC.String()
	}
	n.host.Route("0.0.0.0/0", "192.0.0.1")
	return n
}

// control starts the application.
func (n *network) control() {
	bin, err := filepath.Abs("../../../bin/python/bin")
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		n.t.Skip("SKIP: bin/python is not there: make deps brings it")
	}
	text, err := json.Marshal(n.settings)
	if err != nil {
		n.t.Fatal(err)
	}
	file := filepath.Join(n.Dir(), "balance.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		n.t.Fatal(err)
	}
	p, err := n.host.Start(lab.Program{Path: filepath.Join(bin, "python"), Env: []string{"BALANCE=" + file}, Name: "osken",
		Args: []string{"-W", "ignore", filepath.Join(bin, "osken-manager"), "--verbose", "balance.py"}})
	if err != nil {
		n.t.Fatal(err)
	}
	n.until(p, func() error {
		conn, err := n.host.Dial(n.t.Context(), "tcp", "127.0.0.1:6653")
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// until waits for a program that must not end.
func (n *network) until(p *lab.Process, f func() error) {
	n.t.Helper()
	lab.Eventually(n.t, 30*time.Second, func() error {
		select {
		case <-p.Done():
			n.t.Fatalf("%s has ended:\n%s", p.Name(), p.Log())
		default:
		}
		return f()
	})
}

func (n *network) startOVS() {
	rules := "table netdev hush {\n"
	for i := range n.settings.Links {
		rules += fmt.Sprintf("chain eth%d { type filter hook ingress device eth%d priority 0; meta l4proto { tcp, udp } drop; }\n", i, i)
	}
	file := filepath.Join(n.Dir(), "hush.nft")
	if err := os.WriteFile(file, []byte(rules+"}\n"), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.Need("nft")
	if out, err := n.host.Exec(n.t.Context(), "nft", "-f", file); err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	peers.OpenVSwitch(n.host, peers.OpenVSwitchOptions{Ports: []string{"bal0p", "eth0", "eth1"}, FailMode: "secure", NoTSO: true,
		Controller: "tcp:127.0.0.1:6653"})
}

func (n *network) startForwarder() {
	path, err := build.Program("baton")
	if err != nil {
		n.t.Fatal(err)
	}
	file := filepath.Join(n.Dir(), "forwarder.yaml")
	text := fmt.Sprintf("name: osken\nports: [bal0p, eth0, eth1]\ncontrollers: [tcp:127.0.0.1:6653]\ncontrol: %s.sock\n", file)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.host.Start(lab.Program{Path: path, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"}); err != nil {
		n.t.Fatal(err)
	}
}

// serve starts a server that reports the client's address.
func (n *network) serve() {
	ln, err := n.server.Listen("tcp", server+":80")
	if err != nil {
		n.t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })}
	go func() { _ = s.Serve(ln) }()
	n.t.Cleanup(func() { s.Close() })
	datagrams, err := n.server.ListenPacket("udp", server+":9")
	if err != nil {
		n.t.Fatal(err)
	}
	go func() {
		b := make([]byte, 1500)
		for {
			_, from, err := datagrams.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo([]byte(from.String()), from)
		}
	}()
	n.t.Cleanup(func() { datagrams.Close() })
}

// link returns the number of the link that the server saw.
func (n *network) link(saw string) (int, error) {
	from, err := netip.ParseAddrPort(saw)
	if err != nil {
		return 0, err
	}
	for i, link := range n.settings.Links {
		if link["ip"] == from.Addr().String() {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the server saw %s", saw)
}

func (n *network) fetch() (int, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Second)
	defer cancel()
	got, err := peers.Curl(ctx, n.host, "--connect-timeout", "2", "http://"+server+"/")
	if err != nil {
		return 0, err
	}
	return n.link(got.Body)
}

func (n *network) ask() (int, error) {
	conn, err := n.host.Dial(n.t.Context(), "udp", net.JoinHostPort(server, "9"))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("?")); err != nil {
		return 0, err
	}
	b := make([]byte, 100)
	size, err := conn.Read(b)
	if err != nil {
		return 0, err
	}
	return n.link(string(b[:size]))
}

// count makes flows and counts them by their links.
func (n *network) count(flows int, flow func() (int, error)) []int {
	n.t.Helper()
	got := make([]int, len(n.settings.Links))
	for range flows {
		i, err := flow()
		if err != nil {
			n.t.Fatal(err)
		}
		got[i]++
	}
	return got
}

// TestApplication: each method spreads flows with each switch, and their answers come back.
func TestApplication(t *testing.T) {
	lab.NeedRoot(t)
	for _, target := range []string{"ovs", "baton"} {
		for method, want := range map[string][]int{"rr": {6, 6}, "wrr": {4, 8}, "group": nil} {
			t.Run(target+" by "+method, func(t *testing.T) {
				n := newNetwork(t, method)
				n.control()
				if target == "ovs" {
					n.startOVS()
				} else {
					n.startForwarder()
				}
				n.serve()
				lab.Eventually(t, 30*time.Second, func() error {
					_, err := n.fetch()
					return err
				})
				if method == "group" {
					if got := n.count(40, n.fetch); slices.Contains(got, 0) {
						t.Errorf("flows went %v", got)
					}
					n.count(4, n.ask)
					return
				}
				for range 2 { // whose turn it is does not matter
					if got := n.count(12, n.fetch); !slices.Equal(got, want) {
						t.Errorf("flows went %v, want %v", got, want)
					}
				}
				if got := n.count(12, n.ask); !slices.Equal(got, want) {
					t.Errorf("datagrams went %v, want %v", got, want)
				}
			})
		}
	}
}
