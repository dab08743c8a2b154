package api

import (
	"context"
	"testing"
)

// BenchmarkSessions lists sessions: the time of one, in the daemon and in the client.
func BenchmarkSessions(b *testing.B) {
	c := daemon(b, Backend{Part: RouterBackend{Sessions: func(_ context.Context, yield func(RouterSession) bool) error {
		s := session(1)
		for i := 0; i < b.N && yield(s); i++ {
		}
		return nil
	}}})
	b.ReportAllocs()
	b.ResetTimer()
	n := 0
	for _, err := range c.RouterSessions(b.Context(), RouterSessionsQuery{}) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != b.N {
		b.Fatalf("%d sessions, want %d", n, b.N)
	}
}
