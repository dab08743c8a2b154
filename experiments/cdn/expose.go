package cdn

import (
	"context"
	"io"
	"net"
	"sync"

	"baton/lab"
)

// expose makes an address of a host reachable for the machine's own programs, such as a browser, and returns where. It ends with the lab.
func expose(l *lab.Lab, h *lab.Host, to string) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(context.Background())
	var passing sync.WaitGroup
	l.T().Cleanup(func() {
		stop()
		ln.Close()
		passing.Wait()
	})
	passing.Go(func() {
		for {
			outside, err := ln.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { pass(ctx, outside, h, to) })
		}
	})
	return ln.Addr().String(), nil
}

// pass passes on what two connections say, until both have ended or the context has.
func pass(ctx context.Context, outside net.Conn, h *lab.Host, to string) {
	defer outside.Close()
	inside, err := h.Dial(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer inside.Close()
	defer context.AfterFunc(ctx, func() {
		outside.Close()
		inside.Close()
	})()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{outside, inside}, {inside, outside}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // a broken connection ends
			if half, ok := way[1].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
