package relaycost

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"baton/lab"
)

// TestSockmap: the relay passes on bytes, ends and resets, also of clients that have ended before their server is connected.
func TestSockmap(t *testing.T) {
	lab.NeedRoot(t)
	h := lab.New(t).Host("h")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.Lab().Dir(), sockmapName)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	servers := map[string]func(c *net.TCPConn){
		"127.0.0.1:8001": func(c *net.TCPConn) { // answers when it knows all
			all, _ := io.ReadAll(c)
			_, _ = c.Write(all)
		},
		"127.0.0.1:8002": func(c *net.TCPConn) { _, _ = io.Copy(c, c) },
		"127.0.0.1:8003": func(c *net.TCPConn) { _ = c.SetLinger(0) },
	}
	for address, serve := range servers {
		var l net.Listener
		err := h.Do(func() (err error) {
			l, err = net.Listen("tcp", address)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					serve(c.(*net.TCPConn))
				}()
			}
		}()
	}
	p, err := h.Start(lab.Program{Path: path, Args: []string{"81=127.0.0.1:8001", "82=127.0.0.1:8002", "83=127.0.0.1:8003", "84=127.0.0.1:8004"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	dial := func(t *testing.T, to string) (c *net.TCPConn) {
		err := lab.Poll(10*time.Second, func() error {
			return h.Do(func() error {
				n, err := net.Dial("tcp", to)
				if err == nil {
					c = n.(*net.TCPConn)
				}
				return err
			})
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Stderr())
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, tt := range []struct {
		name, to    string
		size, times int
	}{
		{"answered at the end", "127.0.0.1:81", 3 << 20, 3},
		{"answered meanwhile", "127.0.0.1:82", 3 << 20, 3},
		{"ended at once", "127.0.0.1:82", 100, 50},
		{"nothing said", "127.0.0.1:81", 0, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := bytes.Repeat([]byte("0123456789abcdef!"), tt.size/17+1)[:tt.size]
			for range tt.times {
				c := dial(t, tt.to)
				go func() {
					_, _ = c.Write(want)
					_ = c.CloseWrite()
				}()
				if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d of %d bytes, %v\n%s", len(got), len(want), err, p.Stderr())
				}
			}
		})
	}
	for name, to := range map[string]string{"reset": "127.0.0.1:83", "refused": "127.0.0.1:84"} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				if _, err := dial(t, to).Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Fatalf("got %v, want %v", err, syscall.ECONNRESET)
				}
			}
		})
	}
}
