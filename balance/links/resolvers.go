package links

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// Host services report resolvers some time after an address, and not all changes are announced: they are polled often after a change of a
// link, and rarely otherwise.
const (
	resolversSoon  = time.Second
	resolversOften = 5
	resolversLater = 30 * time.Second
	busTimeout     = 2 * time.Second
)

// leasesFolder contains systemd-networkd's DHCP leases, a file for each interface index.
const leasesFolder = "/run/systemd/netif/leases"

// resolvers queries the host's network services for the resolvers of each interface. A missing service is no error: then links have only
// the configured resolvers.
type resolvers struct {
	leases  string
	bus     func(context.Context) (*dbus.Conn, error)
	indexes chan []int                // of the links, when they have changed
	found   chan map[int][]netip.Addr // resolvers by index
}

func newResolvers() *resolvers {
	return &resolvers{leases: leasesFolder, bus: systemBus, indexes: make(chan []int, 1), found: make(chan map[int][]netip.Addr)}
}

func systemBus(ctx context.Context) (*dbus.Conn, error) {
	return dbus.ConnectSystemBus(dbus.WithContext(ctx))
}

// want sets the interfaces to look up. It does not block, and has one caller.
func (r *resolvers) want(indexes []int) {
	select {
	case <-r.indexes: // an older request
	default:
	}
	r.indexes <- indexes
}

// run polls until ctx ends.
func (r *resolvers) run(ctx context.Context) {
	var indexes []int
	timer := time.NewTimer(resolversLater)
	defer timer.Stop()
	for often := 0; ; often-- {
		pause := resolversLater
		if often > 0 {
			pause = resolversSoon
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return
		case indexes = <-r.indexes:
			often = resolversOften
		case <-timer.C:
			if indexes == nil {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return
		case r.found <- r.ask(ctx, indexes):
		}
	}
}

// ask queries systemd-resolved, and systemd-networkd for the interfaces that are missing there.
func (r *resolvers) ask(ctx context.Context, indexes []int) map[int][]netip.Addr {
	out := r.askResolved(ctx)
	for _, index := range indexes {
		if len(out[index]) == 0 {
			out[index] = lease(filepath.Join(r.leases, strconv.Itoa(index)))
		}
	}
	return out
}

// busServer is an entry of the property DNS of org.freedesktop.resolve1.Manager: interface, address family, address.
type busServer struct {
	Index   int32
	Family  int32
	Address []byte
}

func (r *resolvers) askResolved(ctx context.Context) map[int][]netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	defer cancel()
	var list []busServer
	if err := r.property(ctx, &list); err != nil {
		return make(map[int][]netip.Addr) // no bus, or no systemd-resolved
	}
	return byIndex(list)
}

func (r *resolvers) property(ctx context.Context, to *[]busServer) error {
	conn, err := r.bus(ctx)
	if err != nil {
		return fmt.Errorf("connect to the system bus: %w", err)
	}
	defer conn.Close()
	var v dbus.Variant
	// The query must not start the service.
	call := conn.Object("org.freedesktop.resolve1", "/org/freedesktop/resolve1").CallWithContext(ctx,
		"org.freedesktop.DBus.Properties.Get", dbus.FlagNoAutoStart, "org.freedesktop.resolve1.Manager", "DNS")
	if err := call.Store(&v); err != nil {
		return fmt.Errorf("query systemd-resolved: %w", err)
	}
	if err := v.Store(to); err != nil {
		return fmt.Errorf("read resolvers: %w", err)
	}
	return nil
}

// byIndex drops servers without an interface, and the host's own addresses.
func byIndex(list []busServer) map[int][]netip.Addr {
	out := make(map[int][]netip.Addr)
	for _, s := range list {
		a, ok := netip.AddrFromSlice(s.Address)
		if ok && s.Index > 0 && !a.IsLoopback() {
			out[int(s.Index)] = append(out[int(s.Index)], a.Unmap())
		}
	}
	return out
}

// lease reads the resolvers of a lease, "DNS=192.0.2.53 192.0.2.54"; none if there is no lease.
func lease(file string) []netip.Addr {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []netip.Addr
	for lines := bufio.NewScanner(f); lines.Scan(); {
		list, is := strings.CutPrefix(lines.Text(), "DNS=")
		if !is {
			continue
		}
		for _, s := range strings.Fields(list) {
			if a, err := netip.ParseAddr(s); err == nil && !a.IsLoopback() {
				out = append(out, a)
			}
		}
	}
	return out
}
