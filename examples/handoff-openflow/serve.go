package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"baton/openflow"
)

// patience bounds a handoff.
const patience = 10 * time.Second

// longest is the longest head of a request that is read.
const longest = 8 << 10

// serve reads a client's request and hands the session over.
func (r *router) serve(ctx context.Context, client *net.TCPConn) error {
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = client.SetReadDeadline(time.Now().Add(patience))
	request, err := readHead(client)
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	p := r.pools[int(r.turn.Add(1))%len(r.pools)]
	server, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := r.handOver(ctx, client, server, request); err != nil {
		return fmt.Errorf("hand over to %v: %w", server.RemoteAddr(), err)
	}
	log.Printf("%v is with %v", client.RemoteAddr(), server.RemoteAddr())
	// What the sockets say in the end goes nowhere: flow mods 6 and 7. Closed like this they wait for nothing.
	return errors.Join(client.SetLinger(0), server.SetLinger(0))
}

// readHead reads the head of a request without a body, and no more.
func readHead(r io.Reader) ([]byte, error) {
	b := make([]byte, 0, longest)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		if err != nil {
			return nil, err
		}
		b = b[:len(b)+n]
		switch end := bytes.Index(b, []byte("\r\n\r\n")); {
		case end >= 0 && end+4 == len(b):
			return b, nil
		case end >= 0 || len(b) == cap(b):
			return nil, errors.New("not one request with a short head and no body")
		}
	}
}

// handOver joins the client's session and the server's, as figure 6 of the paper has it.
func (r *router) handOver(ctx context.Context, client, server *net.TCPConn, request []byte) error {
	j := join{
		client: way{client.RemoteAddr().(*net.TCPAddr).AddrPort(), r.address},
		server: way{server.LocalAddr().(*net.TCPAddr).AddrPort(), server.RemoteAddr().(*net.TCPAddr).AddrPort()},
	}
	if err := j.look(ctx, r.sessions, len(request), 0); err != nil {
		return err
	}
	if err := j.alike(); err != nil {
		return err
	}
	// Part 1: flow mod 1; and the request will come here alone.
	if err := r.core.Commit(ctx, block(j.client.back()), hold(j.server)); err != nil {
		return err
	}
	// Part 2.
	if _, err := server.Write(request); err != nil {
		return err
	}
	if err := j.look(ctx, r.sessions, len(request), len(request)); err != nil {
		return err
	}
	if err := r.access.Commit(ctx, j.three(), j.five()); err != nil {
		return fmt.Errorf("access switch: %w", err)
	}
	answers := j.two()
	if err := r.core.Commit(ctx, answers, j.four(), block(j.client.back()), block(j.server)); err != nil {
		return err
	}
	r.sessions.forget(j.client)
	r.sessions.forget(j.server)
	// Part 3. Nobody but us repeats the request: the client may have its acknowledgement, and the router's own socket is not heard.
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		for _, frame := range j.toServer.data {
			if err := r.core.Commit(ctx, j.packetOut(frame)); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if n, err := r.packets(ctx, answers); err != nil || n > 0 {
			tick.Stop()
			return err
		}
	}
}

// look reads what is known of both sessions, once so many bytes from the client and to the server have passed.
func (j *join) look(ctx context.Context, s *sessions, client, server int) (err error) {
	for _, d := range []struct {
		told  *told
		way   way
		bytes int
	}{
		{&j.fromClient, j.client, client}, {&j.toClient, j.client.back(), 0},
		{&j.toServer, j.server, server}, {&j.fromServer, j.server.back(), 0},
	} {
		if *d.told, err = s.wait(ctx, d.way, uint32(d.bytes)); err != nil {
			return fmt.Errorf("see the packets from %v to %v: %w", d.way.from, d.way.to, err)
		}
	}
	return nil
}

// packets is how many packets have met a flow entry.
func (r *router) packets(ctx context.Context, m *openflow.FlowMod) (uint64, error) {
	q := openflow.NewFlowQuery()
	q.Match = m.Match
	parts, err := r.core.Multipart(ctx, openflow.AggregateRequest{FlowQuery: q})
	if err != nil {
		return 0, err
	}
	return parts[0].(openflow.AggregateReply).Packets, nil
}

// pool is sessions with a server that have carried nothing yet.
type pool struct {
	address string
	ready   chan idle
}

type idle struct {
	*net.TCPConn
	since time.Time
}

// Servers end a session on which no request comes; nginx after a minute.
const oldest = 30 * time.Second

func newPool(ctx context.Context, address string) (*pool, error) {
	p := &pool{address: address, ready: make(chan idle, 8)}
	for range cap(p.ready) {
		if err := p.add(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *pool) add(ctx context.Context) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return err
	}
	p.ready <- idle{conn.(*net.TCPConn), time.Now()}
	return nil
}

// take returns a session that is young enough, and has another made in its place.
func (p *pool) take(ctx context.Context) (*net.TCPConn, error) {
	for {
		select {
		case s := <-p.ready:
			go func() {
				if err := p.add(context.WithoutCancel(ctx)); err != nil {
					log.Printf("%s: %v", p.address, err)
				}
			}()
			if time.Since(s.since) < oldest {
				return s.TCPConn, nil
			}
			s.Close()
		case <-ctx.Done():
			return nil, fmt.Errorf("%s has no session: %w", p.address, ctx.Err())
		}
	}
}
