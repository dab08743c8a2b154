package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Host is a network namespace under /run/netns, so that `ip netns` sees it. Its processes have its name as the
// machine's, its /sys, and an /etc/hosts and /etc/resolv.conf of their own.
type Host struct {
	lab   *Lab
	name  string
	netns string // file name under /run/netns
	inode uint64
	ns    netns.NsHandle
	nl    *netlink.Handle
	spawn *spawner
	logs  map[string]int // name → processes of that name; the lab's lock guards it
}

// Host makes a host with its loopback up and IPv6 without address checks and router advertisements, so that
// addresses are usable at once. The name is unique within the lab.
func (l *Lab) Host(name string) *Host {
	l.t.Helper()
	h := &Host{lab: l, name: name, netns: l.prefix + "-" + name, ns: netns.None(), logs: map[string]int{}}
	if err := h.create(); err != nil {
		l.t.Fatalf("lab: host %s: %v", name, err)
	}
	l.mu.Lock()
	l.hosts = append(l.hosts, h)
	l.mu.Unlock()
	for key, value := range map[string]string{
		"net.ipv6.conf.all.accept_dad":     "0",
		"net.ipv6.conf.default.accept_dad": "0",
		"net.ipv6.conf.all.accept_ra":      "0",
		"net.ipv6.conf.default.accept_ra":  "0",
		"net.ipv4.conf.default.rp_filter":  "0",
		"net.ipv4.conf.all.rp_filter":      "0",
	} {
		h.Sysctl(key, value)
	}
	h.Interface("lo").up()
	return h
}

func (h *Host) create() (err error) {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(netnsDir, h.netns)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return fmt.Errorf("name the namespace: %w", err)
	}
	f.Close()
	defer func() {
		if err != nil {
			_ = h.remove()
		}
	}()

	if err := bindNewNamespace(path); err != nil {
		return err
	}
	if h.ns, err = netns.GetFromPath(path); err != nil {
		return fmt.Errorf("open namespace: %w", err)
	}
	if h.inode, err = inode(path); err != nil {
		return err
	}
	if h.nl, err = netlink.NewHandleAt(h.ns, unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	if err := h.writeDefaults(); err != nil {
		return err
	}
	h.spawn, err = newSpawner(h.enterView)
	return err
}

// bindNewNamespace makes a network namespace and holds it by a mount on the file path.
func bindNewNamespace(path string) error {
	return keepNamespace(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		self := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		if err := unix.Mount(self, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", path, err)
		}
		return nil
	})
}

// keepNamespace runs f on a thread that may change its network namespace, and takes the thread home afterwards.
func keepNamespace(f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own namespace: %w", err)
	}
	defer home.Close()
	defer func() {
		// A thread that cannot go home stays locked and is never used again.
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}

// remove takes the host away, or what has been made of it.
func (h *Host) remove() error {
	if h.spawn != nil {
		h.spawn.close()
	}
	if h.nl != nil {
		h.nl.Close()
	}
	if h.ns.IsOpen() {
		h.ns.Close()
	}
	_, err := removeNamespace(h.netns)
	return err
}

// Name is the host's name within the lab.
func (h *Host) Name() string { return h.name }

// Lab is the lab that owns the host.
func (h *Host) Lab() *Lab { return h.lab }

// Netns is the name that `ip netns` knows the host by; its path is /run/netns/<name>.
func (h *Host) Netns() string { return h.netns }

// Do runs f on this goroutine with its thread in the host's namespace: sockets that f opens belong to the host.
// Goroutines that f starts do not. The thread is shared again when f has returned.
func (h *Host) Do(f func() error) error {
	return keepNamespace(func() error {
		if err := netns.Set(h.ns); err != nil {
			return fmt.Errorf("enter %s: %w", h.name, err)
		}
		return f()
	})
}

// Sysctl sets a network sysctl ("net.ipv4.tcp_sack") of the host.
func (h *Host) Sysctl(key, value string) {
	h.lab.t.Helper()
	// A dot within an interface name is written as a slash, as sysctl(8) has it.
	path := "/proc/sys/" + strings.NewReplacer(".", "/", "/", ".").Replace(key)
	err := h.Do(func() error { return os.WriteFile(path, []byte(value), 0) })
	if err != nil {
		h.lab.t.Fatalf("lab: host %s: sysctl %s=%s: %v", h.name, key, value, err)
	}
}

// Forward makes the host a router for IPv4 and IPv6.
func (h *Host) Forward() {
	h.lab.t.Helper()
	h.Sysctl("net.ipv4.ip_forward", "1")
	h.Sysctl("net.ipv6.conf.all.forwarding", "1")
}

// Route adds a route to a prefix ("10.9.9.9/32", "fd00::/8"; "default" with the family of via) through a gateway.
func (h *Host) Route(prefix, via string) {
	h.lab.t.Helper()
	if err := h.route(prefix, via); err != nil {
		h.lab.t.Fatalf("lab: host %s: route %s via %s: %v", h.name, prefix, via, err)
	}
}

func (h *Host) route(prefix, via string) error {
	gateway := net.ParseIP(via)
	if gateway == nil {
		return fmt.Errorf("%q is not an address", via)
	}
	if prefix == "default" {
		prefix = "0.0.0.0/0"
		if gateway.To4() == nil {
			prefix = "::/0"
		}
	}
	_, dst, err := net.ParseCIDR(prefix)
	if err != nil {
		return err
	}
	return h.nl.RouteReplace(&netlink.Route{Dst: dst, Gw: gateway})
}

// Neighbour fixes the link address of an IP address, so that no ARP or neighbour discovery is needed.
func (h *Host) Neighbour(n *Interface, ip string, mac net.HardwareAddr) {
	h.lab.t.Helper()
	address := net.ParseIP(ip)
	if address == nil {
		h.lab.t.Fatalf("lab: host %s: neighbour %q is not an address", h.name, ip)
	}
	err := h.nl.NeighSet(&netlink.Neigh{LinkIndex: n.Index, IP: address, HardwareAddr: mac, State: netlink.NUD_PERMANENT})
	if err != nil {
		h.lab.t.Fatalf("lab: host %s: neighbour %s: %v", h.name, ip, err)
	}
}

// Netlink is a route netlink handle in the host's namespace, closed with the lab.
func (h *Host) Netlink() *netlink.Handle { return h.nl }
