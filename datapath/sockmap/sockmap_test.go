package sockmap

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"baton/datapath/kerneltest"

	"golang.org/x/sys/unix"
)

// joint is what a relay has in its hands: a connection from a client and one to a server.
type joint struct {
	t              testing.TB
	sockmap        *Sockmap
	client, server *net.TCPConn // the far ends
	front, back    *net.TCPConn // the relay's: to the client, to the server
}

var loaded = sync.OnceValues(func() (*Sockmap, error) { return Load(64) })

func newJoint(t testing.TB) *joint {
	t.Helper()
	kerneltest.Need(t)
	m, err := loaded()
	if err != nil {
		t.Fatalf("%+v", err)
	}
	j := &joint{t: t, sockmap: m}
	j.client, j.front = connection(t)
	j.back, j.server = connection(t)
	return j
}

// connection is one over lo, which nothing ends for a while.
func connection(t testing.TB) (opened, accepted *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	for _, c := range []net.Conn{o, a} {
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return o.(*net.TCPConn), a.(*net.TCPConn)
}

func (j *joint) must(err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
}

// fd is good as long as the connection is open.
func (j *joint) fd(c *net.TCPConn) (fd int) {
	j.t.Helper()
	raw, err := c.SyscallConn()
	j.must(err)
	j.must(raw.Control(func(f uintptr) { fd = int(f) }))
	return fd
}

func (j *joint) join() error { return j.sockmap.Join(j.fd(j.front), j.fd(j.back)) }

func (j *joint) behind(from, to *net.TCPConn) int64 {
	j.t.Helper()
	n, err := Behind(j.fd(from), j.fd(to))
	j.must(err)
	return n
}

func (j *joint) write(c *net.TCPConn, data string) {
	j.t.Helper()
	_, err := c.Write([]byte(data))
	j.must(err)
}

func (j *joint) read(c *net.TCPConn, want string) {
	j.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		j.t.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

func (j *joint) readEnd(c *net.TCPConn) {
	j.t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		j.t.Fatalf("got %d bytes, %v; want the end", n, err)
	}
}

// until polls what the kernel does on its own.
func (j *joint) until(what string, done func() bool) {
	j.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			j.t.Fatalf("in vain waited until %s", what)
		}
	}
}

func (j *joint) info(c *net.TCPConn) *unix.TCPInfo {
	j.t.Helper()
	i, err := unix.GetsockoptTCPInfo(j.fd(c), unix.SOL_TCP, unix.TCP_INFO)
	j.must(err)
	return i
}

// failed requires the error that a socket has, if any.
func (j *joint) failed(c *net.TCPConn, want unix.Errno) {
	j.t.Helper()
	if got, err := unix.GetsockoptInt(j.fd(c), unix.SOL_SOCKET, unix.SO_ERROR); err != nil || unix.Errno(got) != want {
		j.t.Errorf("got %v (%v), want %v", unix.Errno(got), err, want)
	}
}

// received waits for so many bytes to have come; a FIN counts as one.
func (j *joint) received(c *net.TCPConn, n int) {
	j.t.Helper()
	j.until("a socket has received all", func() bool { return j.info(c).Bytes_received == uint64(n) })
}

// pass does what a relay does after the end of one side.
func (j *joint) pass(from, to *net.TCPConn) {
	j.t.Helper()
	j.until("its partner has all", func() bool { return j.behind(from, to) == 0 })
	j.must(to.CloseWrite())
}

// TestSockmapEnds: bytes of before and after, an end of each side in turn, and nothing is left behind.
func TestSockmapEnds(t *testing.T) {
	for _, firstEnds := range []string{"client", "server"} {
		t.Run(firstEnds, func(t *testing.T) {
			j := newJoint(t)
			first, last, near, far := j.client, j.server, j.front, j.back
			if firstEnds == "server" {
				first, last, near, far = j.server, j.client, j.back, j.front
			}
			j.write(first, "before")
			j.received(near, len("before"))
			j.must(j.join())
			j.read(last, "before")
			j.write(last, "back")
			j.read(first, "back")
			j.write(first, "after")
			j.must(first.CloseWrite())
			j.received(near, len("beforeafter")+1)
			j.pass(near, far)
			j.read(last, "after")
			j.readEnd(last)

			j.write(last, "the rest")
			j.read(first, "the rest")
			j.failed(far, 0) // a FIN alone is no bytes to send
			// The last segment has bytes and the FIN.
			j.must(unix.SetsockoptInt(j.fd(last), unix.SOL_TCP, unix.TCP_CORK, 1))
			j.write(last, "the last")
			j.must(last.CloseWrite())
			j.received(far, len("backthe restthe last")+1)
			j.pass(far, near)
			j.read(first, "the last")
			j.readEnd(first)
			j.front.Close()
			j.back.Close()
			j.until("nothing is left in the maps", func() bool {
				return kerneltest.Entries(t, j.sockmap.objects.Partners) == 0 && kerneltest.Entries(t, j.sockmap.objects.Sources) == 0
			})
		})
	}
}

// TestSockmapWhole: MiBs both ways at once arrive as they were sent. The sockets are joined before: beside full
// buffers the kernel repeats bytes, see [Sockmap.Join].
func TestSockmapWhole(t *testing.T) {
	random := kerneltest.Rand(t)
	var all sync.WaitGroup
	for range 8 {
		j := newJoint(t)
		j.must(j.join())
		for _, way := range [][2]*net.TCPConn{{j.client, j.server}, {j.server, j.client}} {
			data := make([]byte, 4<<20+random.IntN(1000))
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			pieces := rand.New(rand.NewPCG(random.Uint64(), 0))
			all.Go(func() {
				for rest := data; len(rest) > 0; {
					n, err := way[0].Write(rest[:min(1+pieces.IntN(100_000), len(rest))])
					if err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
			})
			all.Go(func() {
				got := make([]byte, len(data))
				if n, err := io.ReadFull(way[1], got); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d of %d bytes, %v; as they were sent: %v", n, len(data), err, bytes.Equal(got[:n], data[:n]))
				}
			})
		}
	}
	all.Wait()
}

// TestSockmapHoldsAll is why the relay does not have it: a server that reads nothing does not stop its client. What the client has got rid
// of is in the kernel, beyond every buffer's size.
func TestSockmapHoldsAll(t *testing.T) {
	const size = 64 << 20 // a send buffer grows to 4 MiB (net.ipv4.tcp_wmem)
	j := newJoint(t)
	j.must(j.join())
	if n, err := j.client.Write(make([]byte, size)); err != nil {
		t.Fatalf("the kernel took %d bytes (%v): if it has come to bound what a sockmap holds, the relay may have another look at it", n, err)
	}
	j.must(j.client.CloseWrite())
	j.received(j.front, size+1)
	if n := j.behind(j.front, j.back); n < size/2 {
		t.Fatalf("%d bytes are held", n)
	}
	// None of them is lost, at least.
	if n, err := io.CopyN(io.Discard, j.server, size); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	j.pass(j.front, j.back)
	j.readEnd(j.server)
}

// TestSockmapShutdownOvertakes is why a relay asks for Behind: the kernel drops what a socket has not been given before it is shut
// down, and says nothing.
func TestSockmapShutdownOvertakes(t *testing.T) {
	const size = 16 << 20
	j := newJoint(t)
	j.must(j.join())
	if _, err := j.client.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	j.must(j.client.CloseWrite())
	j.received(j.front, size+1)
	behind := j.behind(j.front, j.back)
	j.must(j.back.CloseWrite())
	if n, err := io.Copy(io.Discard, j.server); err != nil || behind == 0 || n >= size {
		t.Fatalf("%d bytes were behind, and %d of %d came: %v", behind, n, size, err)
	}
}

// TestSockmapRepeatsWhatWasRead is why nothing is read before sockets are joined.
func TestSockmapRepeatsWhatWasRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		read int
		want string
	}{
		{"none", 0, "first second"},
		{"all", len("first "), "second"},
		{"a part", 2, "first second"}, // and not "rst second"
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newJoint(t)
			j.write(j.client, "first ")
			j.received(j.front, len("first "))
			j.read(j.front, "first "[:tt.read])
			j.must(j.join())
			j.write(j.client, "second")
			j.read(j.server, tt.want)
		})
	}
}

// TestSockmapHalfClosed: a client that has ended before its server is connected is refused, and served in another way.
func TestSockmapHalfClosed(t *testing.T) {
	for _, ended := range []string{"client", "server"} {
		t.Run(ended, func(t *testing.T) {
			j := newJoint(t)
			far, near := j.client, j.front
			if ended == "server" {
				far, near = j.server, j.back
			}
			j.write(far, "question")
			j.must(far.CloseWrite())
			j.received(near, len("question")+1)
			if err := j.join(); !errors.Is(err, ErrNotEstablished) {
				t.Fatalf("got %v, want %v", err, ErrNotEstablished)
			}
			j.read(near, "question")
			j.readEnd(near)
			j.write(near, "answer")
			j.read(far, "answer")
		})
	}
}

// TestSockmapReset: an error is that of one socket; the other knows nothing of it, and what it receives from then on is lost.
func TestSockmapReset(t *testing.T) {
	j := newJoint(t)
	j.must(j.join())
	j.must(j.server.SetLinger(0))
	j.must(j.server.Close())
	j.until("the reset is there", func() bool { return j.info(j.back).State == unix.BPF_TCP_CLOSE })
	j.write(j.client, "lost")
	j.received(j.front, len("lost"))
	j.failed(j.back, unix.ECONNRESET)
	j.failed(j.front, 0)
}

// TestSockmapRefuses: what cannot be joined is refused, and leaves nothing behind.
func TestSockmapRefuses(t *testing.T) {
	j := newJoint(t)
	file, err := unix.Open("/dev/null", unix.O_CLOEXEC, 0)
	j.must(err)
	defer unix.Close(file)
	idle, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	j.must(err)
	defer unix.Close(idle)
	front := j.fd(j.front)
	for _, tt := range []struct {
		name string
		a, b int
		want error
	}{
		{"no descriptor", front, -1, unix.EBADF},
		{"no socket", file, front, unix.ENOTSOCK},
		{"not connected", front, idle, ErrNotEstablished},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := j.sockmap.Join(tt.a, tt.b); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if n := kerneltest.Entries(t, j.sockmap.objects.Partners); n != 0 {
				t.Errorf("%d entries are left", n)
			}
		})
	}
	if _, err := Load(0); err == nil {
		t.Error("no pairs: want an error")
	}
}
