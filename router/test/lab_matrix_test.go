package test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/lab/peers"
)

// tcpOptions are the options of a host's TCP.
type tcpOptions struct {
	scale int // of the window; noScale: the option is not sent
	sack  bool
	ts    bool
	mss   int // advertised; 9000: for a link with an MTU of 9040; 8980 for IPv6
}

const noScale = -1

func (o tcpOptions) String() string {
	return fmt.Sprintf("scale=%d,sack=%v,ts=%v,mss=%d", o.scale, o.sack, o.ts, o.mss)
}

// tcpVariants holds every pair of values of any two options: a covering array of strength 2, of 5 × 3 rows.
func tcpVariants() []tcpOptions {
	var out []tcpOptions
	for i, scale := range []int{noScale, 0, 2, 7, 14} {
		for j, mss := range []int{536, 1400, 9000} {
			out = append(out, tcpOptions{scale: scale, mss: mss, sack: (i+j)%2 == 0, ts: (i+j/2)%2 == 0})
		}
	}
	return out
}

func TestVariantsCoverEveryPair(t *testing.T) {
	seen := make(map[[4]any]bool)
	for _, o := range tcpVariants() {
		values := [4]any{o.scale, o.mss, o.sack, o.ts}
		for i := range values {
			for j := range i {
				seen[[4]any{i, values[i], j, values[j]}] = true
			}
		}
	}
	if want := 5*3 + 5*2 + 5*2 + 3*2 + 3*2 + 2*2; len(seen) != want {
		t.Errorf("%d pairs of values, want %d", len(seen), want)
	}
}

const jumbo = 9040 // bytes of a link's MTU

// use makes the host offer these options on routes via the gateways, which are on its interface.
func (o tcpOptions) use(t *testing.T, h *lab.Host, n *lab.Interface, prefixes, gateways []string) {
	t.Helper()
	flag := map[bool]string{true: "1", false: "0"}
	h.Sysctl("net.ipv4.tcp_window_scaling", flag[o.scale != noScale])
	h.Sysctl("net.ipv4.tcp_sack", flag[o.sack])
	h.Sysctl("net.ipv4.tcp_timestamps", flag[o.ts])
	h.Sysctl("net.ipv4.tcp_rmem", fmt.Sprintf("4096 131072 %d", 1<<29)) // for the largest window of any scale
	for i, gateway := range gateways {
		_, dst, err := net.ParseCIDR(prefixes[i])
		if err != nil {
			t.Fatal(err)
		}
		r := netlink.Route{LinkIndex: n.Index, Dst: dst, AdvMSS: min(o.mss, jumbo-40)}
		if dst.IP.To4() == nil {
			r.AdvMSS = min(o.mss, jumbo-60)
		}
		if gateway != "" {
			r.Gw = net.ParseIP(gateway)
		} else {
			r.Scope = netlink.SCOPE_LINK
		}
		if o.scale != noScale {
			r.Window = 1<<(16+o.scale) - 1 // tcp_select_initial_window: the least scale for the largest window
		}
		if err := h.Netlink().RouteReplace(&r); err != nil {
			t.Fatalf("%s: route %s: %v", h.Name(), prefixes[i], err)
		}
	}
}

// TestMatrix combines each variant of a client's options with each of a surrogate's: timestamps, SACK, window scale, MSS;
// alternately for both families. Then one connection of each client visits every surrogate.
func TestMatrix(t *testing.T) {
	const size = 1 << 20
	n := newNetwork(t)
	variants := tcpVariants()
	var (
		clients    []*lab.Host
		interfaces []string
		config     strings.Builder
		pools      strings.Builder
		mixed      = map[bool]string{}
	)
	for i, o := range variants {
		h, front := n.clientHost(fmt.Sprintf("c%d", i), lab.LinkOptions{MTU: jumbo})
		own := h.Interface("eth0")
		o.use(t, h, own, []string{"0.0.0.0/0", "::/0"}, []string{fmt.Sprintf("10.1.%d.1", n.others), fmt.Sprintf("fd01:0:0:%x::1", n.others)})
		clients, interfaces = append(clients, h), append(interfaces, front.Name)
	}
	config.WriteString("vips:\n")
	for j, o := range variants {
		link := lab.LinkOptions{}
		if o.mss > 1500 {
			link.MTU = jumbo
		}
		s := n.site(fmt.Sprintf("s%d", j), link)
		o.use(t, s.Host, s.side, []string{fmt.Sprintf("10.2.%d.1/32", j+1), fmt.Sprintf("fd02:0:0:%x::1/128", j+1)}, []string{"", ""})
		serve(t, s.Host, s.name)
		for _, v6 := range []bool{false, true} {
			pool := fmt.Sprintf("p%d-%v", j, v6)
			fmt.Fprintf(&config, "  - {address: %q, interfaces: [%s], routes: [{pool: %s}]}\n", matrixVIP(j, v6), strings.Join(interfaces, ", "), pool)
			fmt.Fprintf(&pools, "  %s: {legs: {min: 2, max: 40}, surrogates: [{name: %s, address: %q}]}\n", pool, pool, s.address(v6))
			mixed[v6] += fmt.Sprintf("      - {match: {host: s%d.test}, pool: %s}\n", j, pool)
		}
	}
	for v6, routes := range mixed {
		fmt.Fprintf(&config, "  - address: %q\n    interfaces: [%s]\n    routes:\n%s", matrixVIP(len(variants), v6), strings.Join(interfaces, ", "), routes)
	}
	r := n.start(config.String() + "pools:\n" + pools.String())

	// A surrogate's options are learnt from its first leg; from then on clients are offered those.
	for j := range len(variants) + 1 {
		for _, v6 := range []bool{false, true} {
			lab.Eventually(t, answersWithin, func() error {
				told, err := offered(t.Context(), clients[0], matrixVIP(j, v6))
				if want := j < len(variants) && variants[j].ts; err == nil && told.ts != want {
					err = fmt.Errorf("%s offers timestamps: %v, want %v", matrixVIP(j, v6), told.ts, want)
				}
				return err
			})
		}
	}
	t.Run("cells", func(t *testing.T) {
		var work errgroup.Group
		work.SetLimit(6)
		for i, client := range variants {
			for j, surrogate := range variants {
				work.Go(func() error {
					v6 := (i+j)%2 == 1
					if err := matrixCell(t.Context(), clients[i], matrixVIP(j, v6), client, surrogate, size); err != nil {
						t.Errorf("client %v, surrogate %v, IPv6 %v: %v", client, surrogate, v6, err)
					}
					return nil
				})
			}
		}
		_ = work.Wait()
	})
	// A connection's options are fixed by its SYN, but its legs' differ: a move must translate between them.
	t.Run("one connection over all surrogates", func(t *testing.T) {
		var work errgroup.Group
		work.SetLimit(6)
		for i, client := range variants {
			for _, v6 := range []bool{false, true} {
				work.Go(func() error {
					if err := visitAll(t.Context(), clients[i], matrixVIP(len(variants), v6), len(variants)); err != nil {
						t.Errorf("client %v, IPv6 %v: %v", client, v6, err)
					}
					return nil
				})
			}
		}
		_ = work.Wait()
	})
	for name, value := range r.metrics() {
		if strings.HasPrefix(name, "baton_router_fallback_requests_total") && value > 0 {
			t.Errorf("not spliced: %s %v", name, value)
		}
	}
}

func matrixVIP(surrogate int, v6 bool) string {
	if v6 {
		return fmt.Sprintf("[fd09::9]:%d", 8000+surrogate)
	}
	return fmt.Sprintf("10.9.9.9:%d", 8000+surrogate)
}

// matrixCell checks the negotiated options at both ends, and a download and an upload byte for byte.
func matrixCell(ctx context.Context, h *lab.Host, vip string, client, surrogate tcpOptions, size int64) error {
	c, err := dial(ctx, h, vip)
	if err != nil {
		return err
	}
	defer c.Close()
	a, err := c.get("h", "/leg")
	if err != nil {
		return fmt.Errorf("first request: %w", err)
	}
	told, err := agreed(c.Conn)
	if err != nil {
		return err
	}
	ts := client.ts && surrogate.ts
	if want := (tcpOptions{scale: client.scale, sack: client.sack, ts: ts}); told != want {
		err = errors.Join(err, fmt.Errorf("client leg has %v, want %v", told, want))
	}
	if want := fmt.Sprint(tcpOptions{scale: surrogate.scale, sack: surrogate.sack, ts: ts}); a.body != want {
		err = errors.Join(err, fmt.Errorf("server leg has %v, want %v", a.body, want))
	}
	return errors.Join(err, download(ctx, h, vip, size, answersWithin), upload(ctx, h, vip, size, answersWithin))
}

// offered returns the options that a VIP accepts.
func offered(ctx context.Context, h *lab.Host, vip string) (tcpOptions, error) {
	c, err := dial(ctx, h, vip)
	if err != nil {
		return tcpOptions{}, err
	}
	defer c.Close()
	return agreed(c.Conn)
}

// visitAll sends requests to every surrogate in turn on one connection.
func visitAll(ctx context.Context, h *lab.Host, vip string, surrogates int) error {
	c, err := dial(ctx, h, vip)
	if err != nil {
		return err
	}
	defer c.Close()
	for j := range 2 * surrogates {
		const size = 100_000
		want := fmt.Sprintf("s%d", j*7%surrogates) // 7 and 15 have no common divisor
		a, err := c.get(want+".test", fmt.Sprintf("/bytes/%d", size))
		if err != nil {
			return fmt.Errorf("request %d: %w", j, err)
		}
		if a.surrogate != want {
			return fmt.Errorf("request %d: answered by %s, want %s", j, a.surrogate, want)
		}
		if err := peers.CheckPattern(strings.NewReader(a.body), size); err != nil {
			return fmt.Errorf("request %d: %w", j, err)
		}
	}
	return nil
}

// tcpInfo is the kernel's information on a TCP connection.
func tcpInfo(c net.Conn) (unix.TCPInfo, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return unix.TCPInfo{}, fmt.Errorf("%T is no TCP connection", c)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return unix.TCPInfo{}, err
	}
	var (
		info   *unix.TCPInfo
		failed error
	)
	err = raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(err, failed); err != nil {
		return unix.TCPInfo{}, err
	}
	return *info, nil
}

// agreed are the options of an established connection, without the MSS.
func agreed(c net.Conn) (tcpOptions, error) {
	info, err := tcpInfo(c)
	if err != nil {
		return tcpOptions{}, err
	}
	const ts, sack, scale = 1, 2, 4 // TCPI_OPT_*
	o := tcpOptions{scale: noScale, ts: info.Options&ts != 0, sack: info.Options&sack != 0}
	if info.Options&scale != 0 {
		o.scale = int((*[8]byte)(unsafe.Pointer(&info))[6] >> 4) // tcpi_snd_wscale:4, tcpi_rcv_wscale:4
	}
	return o, nil
}

// legOf responds with the options of the server leg.
type legKey struct{}

func withLeg(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, legKey{}, c)
}

func legOf(ctx context.Context) string {
	c, _ := ctx.Value(legKey{}).(net.Conn)
	o, err := agreed(c)
	if err != nil {
		return err.Error()
	}
	return o.String()
}
