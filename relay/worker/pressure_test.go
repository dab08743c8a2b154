package worker

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/secure"
)

// Of a client that does not read, the server is told by TCP: the relay holds no more than its pipe.
func TestBackPressure(t *testing.T) {
	r := newRelay(t, 1, defaults())
	r.backPressure(most)
	if r.workers[0].count.Spliced.Load() == 0 {
		t.Error("nothing was spliced")
	}
	r.settled()
}

// So it is over trunks; a relay of TLS has what was read, and what was encrypted before, and gives the buffers back.
func TestBackPressureOverTrunks(t *testing.T) {
	securely(t, func(t *testing.T, security config.Security) {
		c := newChainOf(t, security, 3, nil)
		if security == config.TLS {
			c.backPressure(copyChunk + secure.BufferSize)
		} else {
			c.backPressure(most)
		}
		c.settled()
		for i, w := range c.workers {
			if err := w.ask(func(w *Worker) error {
				if n := w.buffers.InUse(); n != 0 {
					t.Errorf("worker %d: %d buffers are lent at rest", i, n)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// backPressure has a client not read for a while: each relay has at most so many bytes for it then.
func (r *relay) backPressure(each int) {
	t := r.t
	t.Helper()
	const all, block = 16 << 20, 64 << 10
	client, server := r.pair()
	r.narrow()
	_ = client.SetReadBuffer(narrow)
	_ = server.SetWriteBuffer(narrow)
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	_ = server.SetDeadline(time.Now().Add(time.Minute))
	sent, want, done := new(atomic.Int64), sha256.New(), make(chan error, 1)
	go func() {
		random := rand.NewChaCha8([32]byte{1})
		b := make([]byte, block)
		for range all / block {
			_, _ = random.Read(b)
			want.Write(b)
			if _, err := server.Write(b); err != nil {
				done <- err
				return
			}
			sent.Add(block)
		}
		done <- server.CloseWrite()
	}()
	last, still, held := int64(-1), 0, 0
	eventually(t, "the server is held up", func() bool {
		time.Sleep(10 * time.Millisecond)
		n := sent.Load()
		if still++; n != last {
			last, still = n, 0
		}
		held = 0
		for i, w := range r.workers {
			n := w.holds(t)
			if held += n; n > each {
				t.Fatalf("worker %d has %d bytes, want %d at most", i, n, each)
			}
		}
		return still > 20 && held > 0
	})
	if last > all/2 { // a relay has no MiB, and the kernel 128 KiB an end
		t.Errorf("%d bytes were taken for a client that reads nothing", last)
	}
	got := sha256.New()
	if n, err := io.Copy(got, client); err != nil || n != all {
		t.Fatalf("got %d bytes, %v, want %d", n, err, all)
	}
	if err := <-done; err != nil || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("other bytes arrived: %v", err)
	}
	client.Close()
	server.Close()
}

const narrow = 64 << 10 // bytes; the kernel takes twice that

// narrow gives the connections of flows small buffers. The system's grow to 32 MiB (tcp_rmem since Linux 6.16), and would hide what the
// relays themselves take.
func (r *relay) narrow() {
	r.t.Helper()
	for _, w := range r.workers {
		if err := w.ask(func(w *Worker) error {
			for s := range w.flows {
				for i := range s.ends {
					if err := setInt(s.ends[i].fd, unix.SOL_SOCKET, unix.SO_RCVBUF, narrow); err != 0 {
						return err
					}
					if err := setInt(s.ends[i].fd, unix.SOL_SOCKET, unix.SO_SNDBUF, narrow); err != 0 {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// holds is how many bytes of its flows a worker has in its own memory and in pipes.
func (w *Worker) holds(t testing.TB) (n int) {
	t.Helper()
	if err := w.ask(func(w *Worker) error {
		for s := range w.flows {
			for i := range s.ends {
				n += s.state.Held(flow.End(i)) + s.ends[i].pending()
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
