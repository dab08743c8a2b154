package worker

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"baton/relay/config"
	"baton/relay/secure"
	"baton/relay/secure/securetest"
)

// BenchmarkTrunk is a download over two relays and the trunk between them, all in this process with the client and the server. "copied" is
// what one would write with crypto/tls and io.Copy, on goroutines.
func BenchmarkTrunk(b *testing.B) {
	for _, security := range []config.Security{config.Plaintext, config.TLS} {
		b.Run(string(security), func(b *testing.B) {
			c := newChainOf(b, security, 2, nil)
			c.ready()
			client, server := c.pair()
			download(b, client, server)
			client.Close()
			server.Close()
			c.settled()
		})
	}
	b.Run("copied", func(b *testing.B) {
		a := securetest.NewAuthority(b)
		server := listenTCP(b)
		far := tls.NewListener(listenTCP(b), configOf(b, a.Issue(b, securetest.Certificate{Names: []string{"r2"}})))
		near := listenTCP(b)
		opener := configOf(b, a.Issue(b, securetest.Certificate{Names: []string{"r1"}}))
		opener.ServerName = "r2"
		go copies(near, func() (net.Conn, error) { return tls.Dial("tcp", far.Addr().String(), opener) })
		go copies(far, func() (net.Conn, error) { return net.Dial("tcp", server.Addr().String()) })
		r := &relay{t: b, server: server, entry: config.Entry{Listen: addrOf(near)}}
		download(b, r.dial(), r.accept())
	})
}

func configOf(b *testing.B, files config.Credentials) *tls.Config {
	pair, authorities, err := files.Read()
	if err != nil {
		b.Fatal(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: authorities, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13, NextProtos: []string{secure.Protocol},
	}
}

// copies passes on what one connection says, both ways.
func copies(l net.Listener, dial func() (net.Conn, error)) {
	in, err := l.Accept()
	if err != nil {
		return
	}
	defer in.Close()
	out, err := dial()
	if err != nil {
		return
	}
	defer out.Close()
	go func() { _, _ = io.Copy(out, in) }()
	_, _ = io.Copy(in, out)
}

// download has the server send b.N MiB, in one flow.
func download(b *testing.B, client, server net.Conn) {
	b.Helper()
	_ = client.SetDeadline(time.Now().Add(time.Hour))
	_ = server.SetDeadline(time.Now().Add(time.Hour))
	const size = 1 << 20
	warm := 32
	sent := make(chan error, 1)
	send := func(n int) {
		block := make([]byte, size)
		for range n {
			if _, err := server.Write(block); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}
	hear := func(n int) {
		block := make([]byte, size)
		for range n {
			if _, err := io.ReadFull(client, block); err != nil {
				b.Fatal(err)
			}
		}
		if err := <-sent; err != nil {
			b.Fatal(err)
		}
	}
	go send(warm)
	hear(warm)
	b.SetBytes(size)
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	go send(b.N)
	hear(b.N)
	b.StopTimer()
	b.ReportMetric((cpu(b)-before).Seconds()*1024/float64(b.N), "cpu-s/GiB")
}

// cpu is what this process has had of the processors.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReady is the memory, without the kernel's, of a trunk that waits: both ends of it.
func BenchmarkReady(b *testing.B) {
	const trunks = 500
	for _, security := range []config.Security{config.Plaintext, config.TLS} {
		b.Run(string(security), func(b *testing.B) {
			for b.Loop() {
				before := heap()
				c := newChainOf(b, security, 2, func(hop int, cfg *config.Config) {
					if hop == 1 {
						cfg.Peers[0].Ready.Min, cfg.Peers[0].Ready.Max = trunks, trunks
					}
				})
				eventually(b, "the trunks are ready", func() bool {
					return c.sum(func(w *Worker) uint64 { return uint64(w.count.Waiting.Load()) }) == trunks
				})
				b.ReportMetric(float64(heap()-before)/trunks, "B/trunk")
				for _, w := range c.workers {
					w.Close()
				}
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
