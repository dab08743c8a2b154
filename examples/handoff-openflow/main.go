// Command handoff-openflow is a request router that hands its clients' TCP sessions to servers by OpenFlow, as the paper's figure 6 does:
// seven flow mods, on the access switch and on the core forwarder, join two sessions that it has itself. It is an example: see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"

	"baton/openflow"
	"baton/openflow/channel"
)

func main() {
	address := flag.String("address", "10.0.0.1:80", "the router's own `address`, which clients know")
	core := flag.String("core", "tcp:127.0.0.1:6654", "where the core forwarder listens: tcp:`HOST:PORT` or unix:PATH")
	access := flag.String("access", "tcp:127.0.0.1:6655", "where the access switch listens")
	servers := flag.String("servers", "10.0.0.11:80,10.0.0.12:80", "the servers' `addresses`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *address, *core, *access, strings.Split(*servers, ",")); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// router is the request router, and the controller of both switches.
type router struct {
	address      netip.AddrPort
	core, access *channel.Conn
	sessions     *sessions
	pools        []*pool // one a server
	turn         atomic.Uint64
}

func run(ctx context.Context, address, core, access string, servers []string) (err error) {
	r := &router{sessions: newSessions()}
	if r.address, err = netip.ParseAddrPort(address); err != nil {
		return err
	}
	if r.core, err = connect(ctx, core); err != nil {
		return fmt.Errorf("core forwarder: %w", err)
	}
	defer r.core.Close()
	if r.access, err = connect(ctx, access); err != nil {
		return fmt.Errorf("access switch: %w", err)
	}
	defer r.access.Close()
	if err := r.core.Commit(ctx, r.basic()...); err != nil {
		return fmt.Errorf("core forwarder: %w", err)
	}
	go r.watch(ctx)
	go discard(ctx, r.access)
	for _, s := range servers {
		p, err := newPool(ctx, s)
		if err != nil {
			return err
		}
		r.pools = append(r.pools, p)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	log.Print("ready")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			if err := r.serve(ctx, conn.(*net.TCPConn)); err != nil {
				log.Printf("%v: %v", conn.RemoteAddr(), err)
			}
		}()
	}
}

func connect(ctx context.Context, endpoint string) (*channel.Conn, error) {
	network, address, _ := strings.Cut(endpoint, ":")
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := channel.Start(conn, channel.Options{})
	return c, c.Up(ctx)
}

// watch hears of the packets of all sessions that the router has.
func (r *router) watch(ctx context.Context) {
	for {
		m, err := r.core.Receive(ctx)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				log.Fatalf("core forwarder: %v", err) // without it nothing works
			}
			return
		}
		if in, ok := m.Message.(*openflow.PacketIn); ok {
			port, _ := in.Match.Get(openflow.FieldInPort)
			r.sessions.see(openflow.PortNo(port.Uint()), in.Data)
		}
	}
}

func discard(ctx context.Context, c *channel.Conn) {
	for {
		if _, err := c.Receive(ctx); err != nil {
			return
		}
	}
}
