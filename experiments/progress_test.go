package experiments

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgress(t *testing.T) {
	for _, tt := range []struct {
		name     string
		terminal bool
		want     string
	}{
		{"lines", false, " 1/10  round 1, a\n 2/10  round 2, a\nlab: started\n 3/10  round 3, a\n 4/10  round 4, a  about 70 s left\n" +
			" 5/10  round 5, a  about 60 s left\n"},
		{"a terminal", true, "\r\x1b[K 1/10  round 1, a\r\x1b[K 2/10  round 2, a\r\x1b[Klab: started\n\r\x1b[K 3/10  round 3, a" +
			"\r\x1b[K 4/10  round 4, a  about 70 s left\r\x1b[K 5/10  round 5, a  about 60 s left\r\x1b[K"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			p := newProgress(&out, 10)
			now := time.Now()
			p.now, p.terminal = func() time.Time { return now }, tt.terminal
			for i := range 5 {
				p.step(fmt.Sprintf("round %d", i+1), "", "a")
				now = now.Add(10 * time.Second)
				if i == 1 {
					fmt.Fprintln(p, "lab: started")
				}
			}
			p.finish()
			p.finish()
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoughly(t *testing.T) {
	for want, d := range map[string]time.Duration{"0 s": 0, "89 s": 89 * time.Second, "2 min": 110 * time.Second, "1.5 h": 90 * time.Minute} {
		if got := roughly(d); got != want {
			t.Errorf("roughly %v: %q, want %q", d, got, want)
		}
	}
}
