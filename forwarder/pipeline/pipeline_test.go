package pipeline_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/forwarder/pipeline"
	"baton/openflow"
)

// start is when the tests begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is so many seconds later.
func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// bench is a pipeline whose messages a test expects to succeed, or to be refused with a code.
type bench struct {
	*pipeline.Pipeline
	t   testing.TB
	now time.Time
}

func newBench(t testing.TB, l pipeline.Limits) *bench { return &bench{pipeline.New(l), t, start} }

func (b *bench) do(m openflow.Message) (pipeline.Change, error) {
	b.t.Helper()
	if err := openflow.Check(m); err != nil {
		b.t.Fatalf("%+v: %v", m, err)
	}
	return b.Apply(b.now, m)
}

// must does what is not refused.
func (b *bench) must(m openflow.Message) pipeline.Change {
	b.t.Helper()
	c, err := b.do(m)
	if err != nil {
		b.t.Fatalf("%+v: %v", m, err)
	}
	return c
}

// refuses expects an error of that code, and that nothing changed.
func (b *bench) refuses(m openflow.Message, want openflow.Code) {
	b.t.Helper()
	c, err := b.do(m)
	wantCode(b.t, err, want)
	if !c.Empty() {
		b.t.Fatalf("%v, and yet a change: %+v", err, c)
	}
}

// flow is a flow mod, changed.
func flow(c openflow.FlowModCommand, change ...func(*openflow.FlowMod)) *openflow.FlowMod {
	m := openflow.NewFlowMod(c)
	for _, f := range change {
		f(m)
	}
	return m
}

func table(n openflow.TableID) func(*openflow.FlowMod) {
	return func(m *openflow.FlowMod) { m.Table = n }
}

func priority(n uint16) func(*openflow.FlowMod) {
	return func(m *openflow.FlowMod) { m.Priority = n }
}

func flags(f openflow.FlowModFlags) func(*openflow.FlowMod) {
	return func(m *openflow.FlowMod) { m.Flags = f }
}

func cookie(c, mask uint64) func(*openflow.FlowMod) {
	return func(m *openflow.FlowMod) { m.Cookie, m.CookieMask = c, mask }
}

func timeouts(idle, hard uint16) func(*openflow.FlowMod) {
	return func(m *openflow.FlowMod) { m.Idle, m.Hard = idle, hard }
}

func fields(f openflow.Match) func(*openflow.FlowMod) {
	return func(m *openflow.FlowMod) { m.Match = f }
}

// to has the entry apply actions, on top of the instructions that it has.
func to(list ...openflow.Action) func(*openflow.FlowMod) {
	return does(openflow.InstructionApplyActions{Actions: list})
}

func does(list ...openflow.Instruction) func(*openflow.FlowMod) {
	return func(m *openflow.FlowMod) { m.Instructions = append(m.Instructions, list...) }
}

func out(p openflow.PortNo) openflow.Action { return openflow.ActionOutput{Port: p} }

func into(g openflow.GroupID) openflow.Action { return openflow.ActionGroup{Group: g} }

// from is a match on IPv4 sources.
func from(prefix string) openflow.Match {
	return openflow.Match{}.Uint(openflow.FieldEthType, 0x0800).Prefix(openflow.FieldIPv4Src, netip.MustParsePrefix(prefix))
}

func bucket(list ...openflow.Action) openflow.Bucket {
	return openflow.Bucket{WatchPort: openflow.PortAny, WatchGroup: openflow.GroupAny, Actions: list}
}

// wantCode expects a fault of that code, or no error if it is 0.
func wantCode(t testing.TB, err error, want openflow.Code) {
	t.Helper()
	var f *openflow.Fault
	if errors.As(err, &f) != (want != 0) || f != nil && f.Code != want {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// wantEqual compares values, where nil and empty lists are the same.
func wantEqual(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// wantSame compares lists without regard for their order.
func wantSame(t *testing.T, want, got []uint64) {
	t.Helper()
	slices.Sort(got)
	wantEqual(t, want, got)
}
