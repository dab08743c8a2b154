package resume // pieces are nobody else's

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"baton/resume/width"
)

// TestPieces has lanes that get random amounts of random pieces, break off, and help each other: what is read is the file, and no byte of it is
// asked for twice.
func TestPieces(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	splits := 0
	for range 120 {
		file := make([]byte, 4*leastPiece+random.IntN(2<<20))
		for i := range file {
			file[i] = byte(random.Uint32())
		}
		q := pieces{end: int64(len(file)), window: int64(leastPiece + random.IntN(1<<20))}
		lanes := make([]*piece, 1+random.IntN(6))
		path := width.Path{Life: time.Second, Breaks: 5, Trip: 100 * time.Millisecond, Start: 200 * time.Millisecond, Rate: 1e6}
		asked := make([]byte, len(file))
		var got []byte
		for steps := 0; int64(len(got)) < q.end; steps++ {
			if steps > 100_000 {
				t.Fatalf("%d of %d bytes, and nobody gets on: %+v", len(got), len(file), q)
			}
			i := random.IntN(len(lanes))
			if lanes[i] == nil {
				before := len(q.all)
				p, _ := q.choose(&demand{path: &path, lanes: max(2, len(lanes)), rate: random.Float64() * 1e6, split: random.IntN(2) == 0})
				if p != nil && before > 0 && len(q.all) > before && q.all[len(q.all)-1] != p {
					splits++
				}
				lanes[i] = p
			}
			if p := lanes[i]; p != nil {
				if early, hole := q.early(p); early && !hole {
					p = nil
				} else if early {
					lanes[i].taken, lanes[i] = lanes[i].whole(), nil
					continue
				}
				if p != nil {
					n := min(p.end-p.missing(), int64(random.IntN(100_000)))
					for at := p.missing(); at < p.missing()+n; at++ {
						asked[at]++
					}
					p.add(file[p.missing() : p.missing()+n])
					if p.whole() || random.IntN(10) == 0 { // or it breaks off
						p.taken, lanes[i] = p.whole(), nil
					}
				}
			}
			b := make([]byte, random.IntN(200_000))
			n := q.copy(b)
			got = append(got, b[:n]...)
			if kept := q.kept(); kept > q.window+100_000+block {
				t.Fatalf("%d bytes are kept, of a window of %d", kept, q.window)
			}
		}
		if !bytes.Equal(got, file) {
			t.Fatal("the bytes are others")
		}
		if at := bytes.IndexFunc(asked, func(r rune) bool { return r != 1 }); at >= 0 {
			t.Fatalf("byte %d came %d times", at, asked[at])
		}
	}
	if splits == 0 {
		t.Error("no piece was ever split")
	}
}

// TestWaste: what connections beside each other may cost is a share of what was taken, and a little for small files.
func TestWaste(t *testing.T) {
	var g ledger
	g.add(func(a *Account) { a.Bytes = 100 << 20 })
	for _, step := range []struct {
		spent, cost int64
		share       float64
		may         bool
	}{{0, leastWaste, 0.02, true}, {leastWaste, 2 << 20, 0.02, true}, {0, 2<<20 + 1, 0.02, false}, {2 << 20, 0, 0.02, true}, {1, 0, 0.02, false}, {0, 1 << 40, -1, true}} {
		g.spent(step.spent)
		if got := g.may(step.cost, step.share); got != step.may {
			t.Errorf("%+v: %v after %d bytes", step, got, g.extra)
		}
	}
	if a := g.copy(); a.Wasted != g.extra {
		t.Errorf("%d bytes in the account, want %d", a.Wasted, g.extra)
	}
}
