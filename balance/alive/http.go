package alive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"baton/balance/links"
)

// answer is the result of a probe of a server.
type answer struct {
	alive  bool
	portal string // a URL; "": no portal
	err    error  // if there was no answer
}

// askServer probes a server over one link only: from the link's device and address, resolving names with its resolvers.
func askServer(ctx context.Context, l links.Link, where string) answer {
	dial := by(l).dial
	if end, limited := ctx.Deadline(); limited { // a transport does not pass it to its dialer
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithDeadline(ctx, end)
			defer cancel()
			return by(l).dial(ctx, network, address)
		}
	}
	client := http.Client{
		// A transport of its own: no kept connection, and no proxy of the host.
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return answer{err: fmt.Errorf("ask %s: %w", where, err)}
	}
	request.Header.Set("Cache-Control", "no-cache")
	response, err := client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	return judge(where, response.StatusCode, response.Header.Get("Location"))
}

// judge interprets a status. Server errors say nothing about the link, except RFC 6585's for portals.
func judge(where string, status int, location string) answer {
	switch {
	case status == http.StatusNoContent:
		return answer{alive: true}
	case status >= 500 && status != http.StatusNetworkAuthenticationRequired:
		return answer{err: fmt.Errorf("%s answers %d", where, status)}
	}
	if base, err := url.Parse(where); err == nil && location != "" {
		if to, err := base.Parse(location); err == nil {
			return answer{portal: to.String()}
		}
	}
	return answer{portal: where} // the portal appears to whoever opens that URL
}

// by dials over a link.
type by links.Link

func (b by) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addresses, err := b.lookUp(ctx, host)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, a := range addresses {
		f := b.family(a)
		if !f.Complete() {
			continue
		}
		attempt, cancel := share(ctx, len(addresses)-i)
		c, err := b.dialer(network, f.Address).DialContext(attempt, network, net.JoinHostPort(a.String(), port))
		cancel()
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("dial %s by %s: it has no address of an IP version that the link has", host, b.Name)
	}
	return nil, errors.Join(errs...)
}

// share returns an equal share of the remaining time for each of the attempts.
func share(ctx context.Context, attempts int) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/time.Duration(attempts))
}

func (b by) family(a netip.Addr) links.Family {
	if a.Is4() {
		return b.V4
	}
	return b.V6
}

// dialer is bound to the link's device and address, which the links' routing rules match.
func (b by) dialer(network string, from netip.Addr) *net.Dialer {
	d := &net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), b.Interface) }); e != nil {
			return e
		}
		return err
	}}
	d.SetMultipathTCP(false) // subflows would use other links
	if strings.HasPrefix(network, "udp") {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	} else {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return d
}

// lookUp resolves a host, IPv4 first, with the link's resolvers, or the host's if the link has none.
func (b by) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	resolvers := b.reachable()
	if len(resolvers) == 0 {
		return order(net.DefaultResolver.LookupNetIP(ctx, "ip", host))
	}
	var errs []error
	for i, to := range resolvers {
		attempt, cancel := share(ctx, len(resolvers)-i)
		list, err := order(b.resolver(to).LookupNetIP(attempt, "ip", strings.TrimSuffix(host, ".")+".")) // without the host's search domains
		cancel()
		if err == nil {
			return list, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (b by) resolver(to netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return b.dialer(network, b.family(to).Address).DialContext(ctx, network, netip.AddrPortFrom(to, dnsPort).String())
	}}
}

const dnsPort = 53

// reachable returns the resolvers of IP versions that the link has.
func (b by) reachable() []netip.Addr {
	var out []netip.Addr
	for _, a := range b.Resolvers {
		if b.family(a).Complete() {
			out = append(out, a)
		}
	}
	return out
}

// order puts IPv4 first: its route is less often broken.
func order(list []netip.Addr, err error) ([]netip.Addr, error) {
	for i, a := range list {
		list[i] = a.Unmap()
	}
	slices.SortStableFunc(list, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return list, err
}
