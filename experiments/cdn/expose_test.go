package cdn

import (
	"io"
	"net"
	"testing"

	"baton/lab"
)

// What a host serves is reachable from outside, both ways, and half a connection can be closed.
func TestExpose(t *testing.T) {
	l := lab.New(t)
	h := l.Host("services")
	ln, err := h.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			asked, _ := io.ReadAll(c)
			_, _ = c.Write(append([]byte("you said "), asked...))
			c.Close()
		}
	}()
	at, err := expose(l, h, "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "hello")
		_ = c.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(c)
		c.Close()
		if err != nil || string(got) != "you said hello" {
			t.Errorf("%q, %v", got, err)
		}
	}
}
