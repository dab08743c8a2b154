package secure

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// Whatever the pieces in which ciphertext comes and plaintext is read, what one end writes the other reads, and then its end.
func TestBytes(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(1, seed))
		p := established(t)
		p.piece = func() int { return 1 + r.IntN(1<<(1+r.IntN(17))) }
		ends := [2]*Conn{p.opener, p.acceptor}
		var said, heard [2][]byte
		var over [2]bool
		for range 60 {
			from := r.IntN(2)
			if !over[from] {
				b := random(rand.NewChaCha8([32]byte{byte(seed)}), 1+r.IntN(Most))
				said[from] = append(said[from], b...)
				write(t, ends[from], b)
			}
			if r.IntN(20) == 0 && !over[from] {
				over[from] = true
				if err := ends[from].CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			got, err := p.pass(ends[from], ends[1-from])
			heard[from] = append(heard[from], got...)
			if (err == io.EOF) != over[from] || err != nil && err != io.EOF {
				t.Fatalf("seed %d: read: %v, the end was said: %t", seed, err, over[from])
			}
		}
		for i := range said {
			if !bytes.Equal(said[i], heard[i]) {
				t.Errorf("seed %d: end %d said %d bytes, %d others were heard", seed, i, len(said[i]), len(heard[i]))
			}
		}
		if n := p.buffers.InUse(); n != 0 {
			t.Errorf("seed %d: %d buffers are lent at rest", seed, n)
		}
	}
}

// Reads of a few bytes lose nothing of what was fed.
func TestSmallReads(t *testing.T) {
	p := established(t)
	want := random(rand.NewChaCha8([32]byte{2}), 40000)
	write(t, p.opener, want)
	_ = p.opener.CloseWrite()
	var got []byte
	r := rand.New(rand.NewPCG(3, 0))
	b := make([]byte, 100)
	in := make([]byte, 1<<20)
	for {
		small := b[:1+r.IntN(len(b))]
		if !p.acceptor.More() {
			out := p.opener.Pending()
			n := copy(in, out[:min(len(out), p.acceptor.FeedLimit(len(small)))])
			if n > 600 {
				t.Fatalf("%d bytes are to be kept for a read of %d", n, len(small))
			}
			p.acceptor.Feed(in[:n])
			p.opener.Sent(n)
		}
		n, err := p.acceptor.Read(small)
		clear(in)
		got = append(got, small[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d other bytes were read, want %d", len(got), len(want))
	}
}

// What is cut anywhere has no end, and what is changed anywhere is an error that no byte follows.
func TestCutAndChanged(t *testing.T) {
	said := []byte("the first record")
	for at := 0; ; at++ {
		p := established(t)
		write(t, p.opener, said)
		_ = p.opener.CloseWrite()
		whole := bytes.Clone(p.opener.Pending())
		if at == len(whole) {
			break
		}
		b := make([]byte, Most)
		p.acceptor.Feed(whole[:at])
		n, err := p.acceptor.Read(b)
		if err != nil || n > 0 && !bytes.Equal(b[:n], said) {
			t.Fatalf("cut at %d of %d: got %q, %v", at, len(whole), b[:n], err)
		}
		p.acceptor.Feed([]byte{whole[at] ^ 1})
		p.acceptor.Feed(whole[at+1:])
		m, err := p.acceptor.Read(b[n:])
		if m > 0 && err == nil {
			m, err = p.acceptor.Read(b[n+m:])
		}
		if m != 0 || err == io.EOF {
			t.Errorf("changed at %d of %d: got %q, %v, want an error", at, len(whole), b[n:n+m], err)
		}
		if err == nil && at != 3 && at != 4 && at != len(whole)-21 && at != len(whole)-20 { // a length that is longer: more is awaited
			t.Errorf("changed at %d of %d: no error", at, len(whole))
		}
		p.acceptor.Close()
	}
}

func TestCountsWhatIsSaid(t *testing.T) {
	p := established(t)
	before := p.opener.TotalOutput()
	if before == 0 {
		t.Error("the handshake had no bytes")
	}
	write(t, p.opener, make([]byte, 100))
	n := uint64(len(p.opener.Pending()))
	if n <= 100 || p.opener.TotalOutput() != before+n {
		t.Errorf("said %d bytes of %d, %d were said before", p.opener.TotalOutput(), n, before)
	}
	p.opener.Sent(10)
	if p.opener.TotalOutput() != before+n || len(p.opener.Pending()) != int(n)-10 {
		t.Errorf("said %d bytes, %d are pending, after 10 of %d were sent", p.opener.TotalOutput()-before, len(p.opener.Pending()), n)
	}
	p.opener.Close()
	if p.buffers.InUse() != 0 {
		t.Error("a buffer is lent to a connection that was closed")
	}
}
