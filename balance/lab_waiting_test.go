package balance

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"baton/lab"
)

const (
	briefPort     = 7003 // of the server, which closes first
	manyServersAt = 100  // 198.51.100.100 and those that follow are the server's, too
	// Whether what is left of a connection takes a new one for an old packet of its own is chance, for each address (RFC 7323, 5.4: the begin of timestamps).
	manyServers = 12
)

// brief serves connections that it ends itself: what was their ports is left waiting there (TIME-WAIT).
func (n *network) brief() (servers []netip.AddrPort) {
	n.t.Helper()
	for i := range manyServers {
		a := netip.AddrFrom4([4]byte{198, 51, 100, byte(manyServersAt + i)})
		n.server.Interface("lo").Address(a.String() + "/32")
		servers = append(servers, netip.AddrPortFrom(a, briefPort))
	}
	n.greet(n.server, briefPort, func(net.Conn) {})
	return servers
}

// visit is a connection by a local address, to its end. It returns whence the server sees it come.
func (n *network) visit(local string, server netip.AddrPort) (from string, err error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), soon)
	defer cancel()
	c, err := n.host.DialFrom(ctx, "tcp", local, server.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(soon))
	in := bufio.NewReader(c)
	from, err = in.ReadString('\n')
	if err == nil {
		_, err = in.ReadString('\n')
	}
	if err == nil || from == "" {
		return from, fmt.Errorf("%q, then %v", from, err)
	}
	return from[:len(from)-1], nil
}

// TestServerStillWaits: a flow whose address and port are those of a connection that the server closed a moment ago is answered by what is left of it: the host
// resets that, and connects.
func TestServerStillWaits(t *testing.T) {
	everywhere(t, 1, func(t *testing.T, n *network, config string, _ bool) {
		servers := n.brief()
		for i, s := range servers {
			if from, err := n.visit(net.JoinHostPort(host4(0), fmt.Sprint(20000+i)), s); from != host4(0) || err != nil {
				t.Fatalf("before the balance: from %q, %v", from, err)
			}
		}
		n.start(config + n.linksText("", ""))
		lab.Eventually(t, soon, func() error {
			_, err := n.from(server4)()
			return err
		})
		for i, s := range servers {
			if from, err := n.visit(fmt.Sprintf(":%d", 20000+i), s); from != host4(0) || err != nil {
				t.Fatalf("%v: from %q, %v", s, from, err)
			}
		}
	}, plane{"baton controller", "datapath: baton\nmethod: controller\n", true}, plane{"ovs controller", "datapath: ovs\nmethod: controller\n", true})
}
