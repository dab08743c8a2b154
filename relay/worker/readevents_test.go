package worker

import (
	"bytes"
	"io"
	"testing"

	"baton/relay/flow"
)

// What an end receives wakes nobody while the other end takes nothing, and is passed on as soon as that does again: what came meanwhile,
// what comes later, and the end.
func TestReadEvents(t *testing.T) {
	for _, which := range []flow.End{flow.Client, flow.Server} {
		t.Run(which.String(), func(t *testing.T) {
			r := newRelay(t, 1, defaults())
			from, to := r.pair()
			if which == flow.Server {
				from, to = to, from
			}
			quiet := func() (is bool) {
				err := r.workers[0].ask(func(w *Worker) error {
					for s := range w.flows {
						is = s.ends[which].muted
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return is
			}
			want := bytes.Repeat([]byte("0123456789abcdef!"), 1<<20)
			for range 2 {
				written := make(chan error, 1)
				go func() {
					_, err := from.Write(want)
					written <- err
				}()
				eventually(t, "the end is quiet", quiet)
				got := make([]byte, len(want))
				if n, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d of %d bytes, or others, %v", n, len(want), err)
				}
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				eventually(t, "the end is heard", func() bool { return !quiet() })
				for range 3 {
					say(t, from, "more")
					expectRead(t, to, "more")
				}
			}
			written := make(chan error, 1)
			go func() {
				_, err := from.Write(want)
				_ = from.CloseWrite()
				written <- err
			}()
			eventually(t, "the end is quiet", quiet)
			if n, err := io.Copy(io.Discard, to); err != nil || int(n) != len(want) {
				t.Errorf("%d of %d bytes, %v", n, len(want), err)
			}
			if err := <-written; err != nil {
				t.Error(err)
			}
			to.Close()
			r.settled()
		})
	}
}
