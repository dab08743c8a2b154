package relaycost

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"baton/lab"
)

// A plain copy in Go is this program, executed again by one of these names.
const (
	spliceName = "go-splice" // io.Copy of connections: the runtime splices
	copyName   = "go-copy"   // io.Copy of what it cannot see to be connections: 32 KiB at a time
)

func init() {
	if len(os.Args) == 0 {
		return
	}
	if name := filepath.Base(os.Args[0]); name == spliceName || name == copyName {
		fmt.Fprintln(os.Stderr, relayPlainly(os.Args[1:], name == copyName))
		os.Exit(1)
	}
}

// startCopy starts a plain copy, on one processor.
func startCopy(h *lab.Host, name string) (*lab.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	path := filepath.Join(h.Lab().Dir(), name)
	if err := os.Symlink(self, path); err != nil && !os.IsExist(err) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var args []string
	for _, f := range forwards() {
		args = append(args, fmt.Sprintf("%d=%s", f.Port, f.To))
	}
	return h.Start(lab.Program{Path: path, Args: args, Env: []string{"GOMAXPROCS=1"}})
}

// relayPlainly is what anybody would write first. It returns when it cannot listen.
func relayPlainly(forwards []string, wrapped bool) error {
	for _, f := range forwards {
		port, to, _ := strings.Cut(f, "=")
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		go func() {
			for {
				client, err := l.Accept()
				if err != nil { // no descriptor is left
					time.Sleep(10 * time.Millisecond)
					continue
				}
				go join(client.(*net.TCPConn), to, wrapped)
			}
		}()
	}
	select {}
}

func join(client *net.TCPConn, to string, wrapped bool) {
	defer client.Close()
	c, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	server := c.(*net.TCPConn)
	defer server.Close()
	var directions sync.WaitGroup
	directions.Go(func() { pass(server, client, wrapped) })
	directions.Go(func() { pass(client, server, wrapped) })
	directions.Wait()
}

// pass copies until the end, and says so. After an error it resets who waits for more.
func pass(to, from *net.TCPConn, wrapped bool) {
	var err error
	if wrapped {
		_, err = io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
	} else {
		_, err = io.Copy(to, from)
	}
	if err != nil {
		_ = to.SetLinger(0)
		_ = to.Close()
		return
	}
	_ = to.CloseWrite()
}
