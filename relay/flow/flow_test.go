package flow

import (
	"math/rand/v2"
	"testing"
)

func TestFlow(t *testing.T) {
	const most = 100
	type step struct {
		do   func(*Flow) Act
		want Act
	}
	connect := func(want Act) step { return step{(*Flow).Connect, want} }
	read := func(e End, n int) step { return step{func(f *Flow) Act { f.Read(e, n); return 0 }, 0} }
	wrote := func(e End, n int, want Act) step { return step{func(f *Flow) Act { return f.Wrote(e, n) }, want} }
	eof := func(e End, want Act) step { return step{func(f *Flow) Act { return f.EOF(e) }, want} }
	reset := func(e End, want Act) step { return step{func(f *Flow) Act { return f.Reset(e) }, want} }
	deaf := func(e End, want Act) step { return step{func(f *Flow) Act { return f.WriteFailed(e) }, want} }
	fail := func(want Act) step { return step{(*Flow).Fail, want} }
	both := CloseClient | CloseServer
	for _, tt := range []struct {
		name  string
		steps []step
		over  bool
	}{
		{"request, response, client closes first", []step{
			connect(0), read(Client, 5), wrote(Client, 5, 0), read(Server, 9), wrote(Server, 9, 0), eof(Client, ShutServer), eof(Server, ShutClient|both),
		}, true},
		{"server closes first", []step{connect(0), eof(Server, ShutClient), eof(Client, ShutServer|both)}, true},
		{"half-close: the other direction goes on", []step{
			connect(0), eof(Client, ShutServer), read(Server, 9), wrote(Server, 9, 0), read(Server, 3), eof(Server, 0), wrote(Server, 3, ShutClient|both),
		}, true},
		{"FIN before the server is there", []step{eof(Client, 0), connect(ShutServer)}, false},
		{"FIN behind bytes that wait", []step{connect(0), read(Client, 5), eof(Client, 0), wrote(Client, 4, 0), wrote(Client, 1, ShutServer)}, false},
		{"server resets", []step{connect(0), reset(Server, CloseServer|AbortClient)}, true},
		{"server resets behind bytes that wait", []step{
			connect(0), read(Server, 5), reset(Server, CloseServer), wrote(Server, 2, 0), wrote(Server, 3, AbortClient),
		}, true},
		{"client resets while its request waits", []step{connect(0), read(Client, 5), reset(Client, CloseClient), wrote(Client, 5, AbortServer)}, true},
		{"client resets before the server is there", []step{reset(Client, CloseClient|CloseServer)}, true},
		{"client resets with bytes for it held", []step{connect(0), read(Server, 5), reset(Client, CloseClient|AbortServer)}, true},
		{"reset after the own FIN was passed on", []step{connect(0), eof(Server, ShutClient), reset(Server, CloseServer|AbortClient)}, true},
		{"reset behind a FIN that waits", []step{
			connect(0), read(Server, 1), eof(Server, 0), reset(Server, CloseServer), wrote(Server, 1, ShutClient|AbortClient),
		}, true},
		{"FIN, reset, and the server was never there", []step{eof(Client, 0), reset(Client, CloseClient|CloseServer)}, true},
		{"a write fails in front of what the end has said", []step{
			connect(0), read(Client, 5), deaf(Server, 0), read(Server, 9), wrote(Server, 9, 0), reset(Server, CloseServer|AbortClient),
		}, true},
		{"a write fails in the place of the read", []step{connect(0), deaf(Server, 0), eof(Server, CloseServer|AbortClient)}, true},
		{"a write fails behind the end's FIN", []step{
			connect(0), read(Server, 9), eof(Server, 0), read(Client, 5), deaf(Server, CloseServer), wrote(Server, 9, ShutClient|AbortClient),
		}, true},
		{"the other end is reset when a write to the first has failed", []step{
			connect(0), read(Server, 5), deaf(Client, 0), read(Client, 3), reset(Server, CloseServer|CloseClient),
		}, true},
		{"a write fails of what the other end, which was reset, has left", []step{
			connect(0), read(Server, 5), reset(Server, CloseServer), deaf(Client, CloseClient),
		}, true},
		{"writes to both fail", []step{connect(0), deaf(Server, 0), deaf(Client, both)}, true},
		{"the other end fails while the bytes of one that was reset wait", []step{
			connect(0), read(Server, 5), reset(Server, CloseServer), reset(Client, CloseClient),
		}, true},
		{"another server end takes the first one's place", []step{
			connect(0), read(Client, 5), wrote(Client, 5, 0), eof(Client, ShutServer), {func(f *Flow) Act { f.Again(7); return 0 }, 0},
			wrote(Client, 7, ShutServer), eof(Server, ShutClient|both),
		}, true},
		{"refused", []step{fail(both)}, true},
		{"expired", []step{connect(0), read(Client, 3), fail(both), reset(Client, 0), eof(Server, 0)}, true},
		{"expired while a reset waits", []step{connect(0), read(Server, 5), reset(Server, CloseServer), fail(CloseClient)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f Flow
			for i, s := range tt.steps {
				if got := s.do(&f); got != s.want {
					t.Fatalf("step %d: got acts %b, want %b", i, got, s.want)
				}
			}
			if f.Over() != tt.over {
				t.Errorf("over: got %t, want %t", f.Over(), tt.over)
			}
			if tt.over && (f.Wants(Client, most) || f.Wants(Server, most)) {
				t.Error("bytes are wanted of a flow that is over")
			}
		})
	}
}

// wire is what an end has been told.
type wire struct {
	bytes               int
	shut, aborted, gone bool
}

// Whatever happens, in whatever order: bytes are passed on whole and in front of what follows them, nothing is said after the end,
// each act comes once, and when both ends have ended, so has the flow.
func TestRandomWalks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for walk := range 20_000 {
		var (
			f    Flow
			told [2]wire
			said [2]wire // what the ends themselves have said: bytes, FIN (shut) or reset (gone)
			log  []any
		)
		apply := func(act Act) {
			for e := range End(2) {
				w := &told[e]
				for _, told := range []struct {
					Act
					set *bool
				}{{ShutClient << e, &w.shut}, {AbortClient << e, &w.aborted}, {CloseClient << e, &w.gone}} {
					bit, set := told.Act, told.set
					if act&bit == 0 {
						continue
					}
					if *set || w.aborted || w.gone && bit != ShutClient<<e {
						t.Fatalf("walk %d: %v: %b of an end that is gone: %v", walk, e, bit, log)
					}
					*set = true
				}
				if act&(ShutClient<<e) != 0 {
					if from := &said[e.Other()]; w.bytes != from.bytes || !from.shut {
						t.Fatalf("walk %d: FIN to the %v behind %d of %d bytes: %v", walk, e, w.bytes, from.bytes, log)
					}
				}
				if act&(AbortClient<<e) != 0 {
					if from := &said[e.Other()]; !from.gone || w.bytes != from.bytes {
						t.Fatalf("walk %d: RST to the %v behind %d of %d bytes: %v", walk, e, w.bytes, from.bytes, log)
					}
				}
			}
		}
		for range 40 {
			e := End(random.IntN(2))
			switch k := random.IntN(8); {
			case k == 0:
				log = append(log, "connect")
				if !f.Connected() && f.Open(Server) {
					apply(f.Connect())
				}
			case k < 3 && f.Wants(e, 50):
				n := 1 + random.IntN(20)
				log = append(log, "read", e, n)
				said[e].bytes += n
				f.Read(e, n)
			case k < 6 && f.Connected() && f.Open(e.Other()) && f.Held(e) > 0:
				n := 1 + random.IntN(f.Held(e))
				log = append(log, "wrote", e, n)
				told[e.Other()].bytes += n
				apply(f.Wrote(e, n))
			case k == 6 && f.Wants(e, 1<<30):
				log = append(log, "eof", e)
				said[e].shut, said[e].gone = !f.IsUnwritable(e), f.IsUnwritable(e)
				apply(f.EOF(e))
			case k == 7 && random.IntN(8) == 0 && f.Connected() && f.Open(e):
				log = append(log, "deaf", e)
				act := f.WriteFailed(e)
				said[e].gone = said[e].gone || !f.Open(e)
				if f.Held(e.Other()) > 0 {
					t.Fatalf("walk %d: bytes are held for a deaf end: %v", walk, log)
				}
				apply(act)
			case k == 7 && random.IntN(4) == 0 && f.Open(e) && (e == Client || f.Connected()):
				log = append(log, "reset", e)
				said[e].gone = true
				apply(f.Reset(e))
			}
		}
		for e := range End(2) {
			if f.Open(e) == (told[e].aborted || told[e].gone) {
				t.Fatalf("walk %d: the %v end is open: %t, but was told %+v", walk, e, f.Open(e), told[e])
			}
			if said[e].gone && f.Open(e.Other()) && f.Held(e) == 0 {
				t.Fatalf("walk %d: the %v was reset and the %v not told: %v", walk, e, e.Other(), log)
			}
		}
		if said[Client].shut && said[Server].shut && f.Held(Client)+f.Held(Server) == 0 && f.Connected() && !f.Over() {
			t.Fatalf("walk %d: both have ended and the flow has not: %v", walk, log)
		}
		apply(f.Fail())
		if !f.Over() || !told[Client].aborted && !told[Client].gone || !told[Server].aborted && !told[Server].gone {
			t.Fatalf("walk %d: failed, but not over: %v", walk, log)
		}
	}
}
