package resume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Dialer connects to all addresses of a name in rotation: after a broken connection another address comes first. It resolves the name for
// each connection. The zero value has no timeout.
type Dialer struct {
	Timeout time.Duration // for a connection, over all addresses; 0: the system's
	Network string        // tcp, tcp4 or tcp6; "": tcp

	// Fixed maps a name and port in lower case ("cdn.example.net:443") to addresses that replace the resolved ones.
	Fixed map[string][]netip.Addr
	// Lookup resolves a name; nil: the system's resolver. The network is ip, ip4 or ip6.
	Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)
	// Control is passed to net.Dialer, if it is not nil.
	Control func(ctx context.Context, network, address string, c syscall.RawConn) error
}

// alive probes a connection after 5 s without data, so that a server that does not know it can reset it.
var alive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 4}

// slow is the delay before the next address is tried in parallel (RFC 8305, section 5).
const slow = 250 * time.Millisecond

// DialContext is for http.Transport.
func (d *Dialer) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	all, err := d.addresses(ctx, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: d.network(), Err: err}
	}
	rotation, _ := ctx.Value(rotationKey{}).(*rotation)
	rotation.order(all)
	return d.race(ctx, all, rotation)
}

func (d *Dialer) network() string {
	if d.Network == "" {
		return "tcp"
	}
	return d.Network
}

func (d *Dialer) addresses(ctx context.Context, address string) ([]netip.AddrPort, error) {
	name, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("parse the port: %w", err)
	}
	found, ok := d.Fixed[strings.ToLower(address)]
	if a, err := netip.ParseAddr(name); err == nil && !ok {
		found, ok = []netip.Addr{a}, true
	}
	if !ok {
		lookup := d.Lookup
		if lookup == nil {
			lookup = net.DefaultResolver.LookupNetIP
		}
		if found, err = lookup(ctx, "ip"+strings.TrimPrefix(d.network(), "tcp"), name); err != nil {
			return nil, err
		}
	}
	var all []netip.AddrPort
	for _, a := range found {
		if a = a.Unmap(); d.Network == "" || d.Network == "tcp" || (d.Network == "tcp4") == a.Is4() {
			all = append(all, netip.AddrPortFrom(a, uint16(port)))
		}
	}
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no suitable address", Name: name, IsNotFound: true}
	}
	return all, nil
}

// race connects to the first address that answers. It tries the next one as soon as one has failed or is slow.
func (d *Dialer) race(ctx context.Context, all []netip.AddrPort, rotation *rotation) (net.Conn, error) {
	type result struct {
		c   net.Conn
		err error
		at  netip.AddrPort
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, len(all))
	one := net.Dialer{ControlContext: d.Control, KeepAliveConfig: alive}
	var errs []error
	for begun, ended := 0, 0; ; {
		if begun < len(all) {
			at := all[begun]
			go func() {
				c, err := one.DialContext(ctx, d.network(), at.String())
				results <- result{c, err, at}
			}()
			begun++
		}
		wait := time.NewTimer(slow)
		if begun == len(all) {
			wait.Stop()
		}
		select {
		case <-wait.C:
			continue
		case r := <-results:
			wait.Stop()
			ended++
			if r.err == nil {
				go func(others int) { // which are canceled by now
					for range others {
						if r := <-results; r.c != nil {
							r.c.Close()
						}
					}
				}(begun - ended)
				return r.c, nil
			}
			rotation.blame(r.at.String())
			if errs = append(errs, r.err); ended == len(all) {
				return nil, errors.Join(errs...)
			}
		}
	}
}

// rotation is the order in which addresses have failed downloads. A nil one remembers nothing.
type rotation struct {
	mu    sync.Mutex
	count int
	when  map[netip.AddrPort]int
}

// rotationKey is the context key for dialing.
type rotationKey struct{}

// remembered is the most addresses to remember.
const remembered = 1000

// blame records that a connection to an address has broken, or that its response was unusable.
func (t *rotation) blame(address string) {
	at, err := netip.ParseAddrPort(address)
	if t == nil || err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.when == nil || len(t.when) >= remembered {
		t.when = make(map[netip.AddrPort]int)
	}
	t.count++
	t.when[netip.AddrPortFrom(at.Addr().Unmap(), at.Port())] = t.count
}

// order sorts addresses: blameless ones first, unchanged, then by the time of the last failure.
func (t *rotation) order(all []netip.AddrPort) {
	if t == nil {
		return
	}
	t.mu.Lock()
	when := maps.Clone(t.when)
	t.mu.Unlock()
	slices.SortStableFunc(all, func(a, b netip.AddrPort) int { return when[a] - when[b] })
}
