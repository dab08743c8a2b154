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

// Dialer makes connections to all addresses of a name in turn: where a connection has broken, another address comes first for the next one.
// A name is looked up for each connection. The zero value is one without bounds.
type Dialer struct {
	Timeout time.Duration // for a connection, whatever the number of addresses; 0: what the system has
	Network string        // tcp, tcp4 or tcp6; "": tcp

	// Fixed are addresses to use in place of those that a name has, by the name and port in lower case ("cdn.example.net:443").
	Fixed map[string][]netip.Addr
	// Lookup finds the addresses of a name; nil: the system's resolver. The network is ip, ip4 or ip6.
	Lookup func(ctx context.Context, network, name string) ([]netip.Addr, error)
	// Control is that of net.Dialer, if it is not nil.
	Control func(ctx context.Context, network, address string, c syscall.RawConn) error
}

// alive probes a connection on which nothing comes after 5 s, so that a server that knows nothing of it can say so.
var alive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 4}

// slow is how long an address is waited for before the next one is tried beside it (RFC 8305, section 5).
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
		return nil, fmt.Errorf("read the port: %w", err)
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

// race connects to the first address that answers. The next one is tried as soon as one has failed, or is slow.
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
				go func(others int) { // which are told to end by now
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

// turns is the order in which addresses have let downloads down. A nil one remembers nothing.
type rotation struct {
	mu    sync.Mutex
	count int
	when  map[netip.AddrPort]int
}

// turnsKey is of contexts for dialing.
type rotationKey struct{}

// remembered is how many addresses are remembered at most.
const remembered = 1000

// blame notes that a connection to an address has broken, or that what it gave was of no use.
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

// order sorts addresses: those that nothing is held against as they were, then the one that was blamed longest ago.
func (t *rotation) order(all []netip.AddrPort) {
	if t == nil {
		return
	}
	t.mu.Lock()
	when := maps.Clone(t.when)
	t.mu.Unlock()
	slices.SortStableFunc(all, func(a, b netip.AddrPort) int { return when[a] - when[b] })
}
