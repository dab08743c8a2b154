package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"baton/forwarder/match"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// The packets of the model's world: 4 ports, the last of which no match names, and 3 bits of metadata. A match is the set of those
// that it lets through, as bits, so that the model knows nothing of masks.
const (
	worldPorts    = 4
	worldMetadata = 8
)

type packets uint32

// anyMatch returns a random match and its packets.
func anyMatch(r *rand.Rand) (openflow.Match, packets) {
	var m openflow.Match
	port, masked, mask, value := r.IntN(worldPorts), r.IntN(2) == 1, r.Uint64N(worldMetadata), r.Uint64N(worldMetadata)
	value &= mask
	byPort := func() {
		if port > 0 {
			m = m.Port(openflow.PortNo(port))
		}
	}
	byMetadata := func() {
		if masked {
			m = m.UintMasked(openflow.FieldMetadata, value, mask)
		}
	}
	if r.IntN(2) == 1 {
		byPort()
		byMetadata()
	} else {
		byMetadata()
		byPort()
	}
	var set packets
	for p := 1; p <= worldPorts; p++ {
		for d := range uint64(worldMetadata) {
			if (port == 0 || p == port) && (!masked || d&mask == value) {
				set |= 1 << ((p-1)*worldMetadata + int(d))
			}
		}
	}
	return m, set
}

// model is a pipeline as the specification's sentences have it, one after the other, over lists.
type model struct {
	limits  pipeline.Limits
	entries []*pipeline.Entry
	sets    map[*pipeline.Entry]packets
	groups  map[openflow.GroupID][]openflow.GroupID // what each uses
	flows   map[openflow.GroupID]openflow.Action    // that remembers flows, and may have each: a bind, an unbind, or nil
	meters  map[openflow.MeterID]bool
}

func (m *model) refusesInstructions(list []openflow.Instruction) openflow.Code {
	for _, i := range list {
		switch i := i.(type) {
		case openflow.InstructionGotoTable:
			if int(i.Table) >= m.limits.Tables {
				return openflow.BadInstructionBadTableID
			}
		case openflow.InstructionMeter:
			if !m.meters[i.Meter] {
				return openflow.MeterModFailedUnknownMeter
			}
		}
		for _, a := range actionsIn(i) {
			for _, g := range groupsIn([]openflow.Action{a}) {
				_, plain := a.(openflow.ActionGroup)
				switch {
				case m.groups[g] == nil:
					return openflow.BadActionBadOutGroup
				case !plain && m.flows[g] != a:
					return openflow.BadActionBadArgument
				}
			}
		}
	}
	return 0
}

func actionsIn(i openflow.Instruction) []openflow.Action {
	switch i := i.(type) {
	case openflow.InstructionApplyActions:
		return i.Actions
	case openflow.InstructionWriteActions:
		return i.Actions
	}
	return nil
}

func groupsIn(list []openflow.Action) []openflow.GroupID {
	ids := []openflow.GroupID{}
	for _, a := range list {
		switch a := a.(type) {
		case openflow.ActionGroup:
			ids = append(ids, a.Group)
		case openflow.ActionBind:
			ids = append(ids, a.Group)
		case openflow.ActionUnbind:
			ids = append(ids, a.Group)
		}
	}
	return ids
}

// leads reports whether an action leads to a group.
func leads(a any, id openflow.GroupID) bool {
	return a == openflow.ActionGroup{Group: id} || a == bind(id) || a == unbind(id)
}

// uses reports whether an entry has an action or instruction of which is is true.
func uses(e *pipeline.Entry, is func(any) bool) bool {
	return slices.ContainsFunc(e.Instructions, func(i openflow.Instruction) bool {
		return is(i) || slices.ContainsFunc(actionsIn(i), func(a openflow.Action) bool { return is(a) })
	})
}

// flowMod returns the entries that are there then and were not before, those that are gone, and the code of a refusal.
func (m *model) flowMod(now time.Time, f *openflow.FlowMod, set packets) (came, went []*pipeline.Entry, code openflow.Code) {
	deletes := f.Command == openflow.FlowDelete || f.Command == openflow.FlowDeleteStrict
	if int(f.Table) >= m.limits.Tables && (f.Table != openflow.TableAll || !deletes) {
		return nil, nil, openflow.FlowModFailedBadTableID
	}
	if !deletes {
		if c := m.refusesInstructions(f.Instructions); c != 0 {
			return nil, nil, c
		}
	}
	if f.Command == openflow.FlowAdd {
		return m.add(now, f, set)
	}
	for _, e := range m.entries {
		strict := f.Command == openflow.FlowDeleteStrict || f.Command == openflow.FlowModifyStrict
		switch {
		case f.Table != openflow.TableAll && e.Table != f.Table,
			strict && (e.Priority != f.Priority || m.sets[e] != set),
			!strict && m.sets[e]&^set != 0,
			e.Cookie&f.CookieMask != f.Cookie&f.CookieMask,
			deletes && f.OutPort != openflow.PortAny && !uses(e, func(a any) bool { return a == openflow.ActionOutput{Port: f.OutPort} }),
			deletes && f.OutGroup != openflow.GroupAny && !uses(e, func(a any) bool { return leads(a, f.OutGroup) }):
			continue
		}
		went = append(went, e)
		if !deletes {
			changed := *e
			changed.Instructions = f.Instructions
			m.sets[&changed] = m.sets[e]
			came = append(came, &changed)
		}
	}
	m.replace(went, came)
	return came, went, 0
}

func (m *model) add(now time.Time, f *openflow.FlowMod, set packets) (came, went []*pipeline.Entry, code openflow.Code) {
	for _, e := range m.entries {
		if e.Table == f.Table && e.Priority == f.Priority && m.sets[e] == set {
			went = append(went, e)
		}
	}
	for _, e := range m.entries {
		if f.Flags&openflow.FlowCheckOverlap != 0 && e.Table == f.Table && e.Priority == f.Priority &&
			m.sets[e]&set != 0 && m.sets[e] != set {
			return nil, nil, openflow.FlowModFailedOverlap
		}
	}
	if len(went) == 0 && len(m.entries) >= m.limits.Entries {
		return nil, nil, openflow.FlowModFailedTableFull
	}
	e := &pipeline.Entry{Table: f.Table, Priority: f.Priority, Fields: f.Match, Match: match.Of(f.Match), Cookie: f.Cookie,
		Flags: f.Flags, Idle: f.Idle, Hard: f.Hard, Instructions: f.Instructions, Created: now}
	m.sets[e] = set
	came = append(came, e)
	m.replace(went, came)
	return came, went, 0
}

func (m *model) replace(went, came []*pipeline.Entry) {
	m.entries = slices.DeleteFunc(m.entries, func(e *pipeline.Entry) bool { return slices.Contains(went, e) })
	m.entries = append(m.entries, came...)
}

func (m *model) groupMod(g *openflow.GroupMod) (went []*pipeline.Entry, code openflow.Code) {
	if g.Command == openflow.GroupDelete {
		gone := []openflow.GroupID{g.Group}
		if g.Group == openflow.GroupAll {
			gone = nil
			for id := range m.groups {
				gone = append(gone, id)
			}
		} else {
			for _, used := range m.groups {
				if slices.Contains(used, g.Group) {
					return nil, openflow.GroupModFailedChainedGroup
				}
			}
		}
		for _, id := range gone {
			delete(m.groups, id)
			delete(m.flows, id)
			for _, e := range m.entries {
				if uses(e, func(a any) bool { return leads(a, id) }) && !slices.Contains(went, e) {
					went = append(went, e)
				}
			}
		}
		m.replace(went, nil)
		return went, 0
	}
	if there := m.groups[g.Group] != nil; g.Command == openflow.GroupAdd && there {
		return nil, openflow.GroupModFailedGroupExists
	} else if g.Command == openflow.GroupModify && !there {
		return nil, openflow.GroupModFailedUnknownGroup
	}
	var flows openflow.Action
	switch {
	case g.Kind == openflow.GroupTypeIndirect:
		flows = unbind(g.Group)
	case g.Kind == openflow.GroupTypeSelect: // those of the world are right
		flows = bind(g.Group)
	}
	for _, had := range []openflow.Action{bind(g.Group), unbind(g.Group)} {
		if had != flows && slices.ContainsFunc(m.entries, func(e *pipeline.Entry) bool { return uses(e, func(a any) bool { return a == had }) }) {
			return nil, openflow.GroupModFailedInvalidGroup
		}
	}
	used := []openflow.GroupID{}
	for _, b := range g.Buckets {
		used = append(used, groupsIn(b.Actions)...)
	}
	reached := slices.Clone(used)
	for i := 0; i < len(reached); i++ {
		if reached[i] == g.Group {
			return nil, openflow.GroupModFailedLoop
		}
		reached = append(reached, m.groups[reached[i]]...)
	}
	for _, id := range used {
		if m.groups[id] == nil {
			return nil, openflow.BadActionBadOutGroup
		}
	}
	m.groups[g.Group], m.flows[g.Group] = used, flows
	return nil, 0
}

func (m *model) meterMod(d *openflow.MeterMod) (went []*pipeline.Entry, code openflow.Code) {
	switch {
	case d.Command == openflow.MeterAdd && m.meters[d.Meter]:
		return nil, openflow.MeterModFailedMeterExists
	case d.Command == openflow.MeterAdd:
		m.meters[d.Meter] = true
		return nil, 0
	}
	delete(m.meters, d.Meter)
	for _, e := range m.entries {
		if uses(e, func(a any) bool { return a == openflow.InstructionMeter{Meter: d.Meter} }) {
			went = append(went, e)
		}
	}
	m.replace(went, nil)
	return went, 0
}

// wantLookup looks a random packet up in a table.
func (m *model) wantLookup(t *testing.T, r source, p *pipeline.Pipeline) {
	t.Helper()
	table, n := openflow.TableID(r.IntN(m.limits.Tables)), r.IntN(worldPorts*worldMetadata)
	key := match.Of(openflow.Match{}.Port(openflow.PortNo(n/worldMetadata+1)).
		Uint(openflow.FieldMetadata, uint64(n%worldMetadata)).Uint(openflow.FieldEthType, 0x0800)).Key
	best := -1
	for _, e := range m.entries {
		if e.Table == table && m.sets[e]&(1<<n) != 0 {
			best = max(best, int(e.Priority))
		}
	}
	got := p.Lookup(table, &key)
	if got == nil && best >= 0 || got != nil && (int(got.Priority) != best || got.Table != table || !got.Match.Matches(&key)) {
		t.Errorf("packet %d in table %v: %+v, where the best has priority %d", n, table, got, best)
	}
}

// lastUsed is as if each entry had a few packets, and then none.
func lastUsed(e *pipeline.Entry) time.Time {
	return e.Created.Add(time.Duration(5*e.Cookie) * time.Second)
}

func (m *model) expire(now time.Time) (went []*pipeline.Entry) {
	for _, e := range m.entries {
		hard, idle := e.Created.Add(time.Duration(e.Hard)*time.Second), lastUsed(e).Add(time.Duration(e.Idle)*time.Second)
		if e.Hard != 0 && !now.Before(hard) || e.Idle != 0 && !now.Before(idle) {
			went = append(went, e)
		}
	}
	m.replace(went, nil)
	return went
}

// TestModel: after any sequence of messages, a pipeline holds what the model holds, has said so, and has refused the same.
func TestModel(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, source{rand.New(rand.NewPCG(seed, 0))}) })
	}
}

func runModel(t *testing.T, r source) {
	limits := pipeline.Limits{Tables: 3, Entries: 60, Bindings: true}
	texts := entryTexts{}
	k := kernel{map[uint64]*pipeline.Entry{}, map[openflow.GroupID]*pipeline.Group{}, map[openflow.MeterID]*pipeline.Meter{}}
	b := newBench(t, limits)
	m := &model{
		limits: limits, sets: map[*pipeline.Entry]packets{}, groups: map[openflow.GroupID][]openflow.GroupID{},
		flows: map[openflow.GroupID]openflow.Action{}, meters: map[openflow.MeterID]bool{},
	}
	for range 1000 {
		b.now = b.now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
		var came, went []*pipeline.Entry
		var want openflow.Code
		var c pipeline.Change
		var err error
		var message openflow.Message
		do := func() { c, err = b.do(message) }
		switch n := r.IntN(20); {
		case n == 0:
			g := r.groupMod()
			went, want = m.groupMod(g)
			message = g
		case n == 1:
			d := r.meterMod()
			went, want = m.meterMod(d)
			message = d
		case n < 4:
			went = m.expire(b.now)
			do = func() { c = b.Expire(b.now, lastUsed) }
		default:
			f, set := r.flowMod()
			came, went, want = m.flowMod(b.now, f, set)
			message = f
		}
		if r.IntN(2) == 0 {
			was := k.clone()
			do()
			k.apply(t, c)
			k.want(t, b.Pipeline)
			k.apply(t, b.Undo(c))
			k.want(t, b.Pipeline)
			if !k.equal(was) {
				t.Errorf("undone: %+v\nhad been: %+v", k, was)
			}
		}
		do()
		k.apply(t, c)
		k.want(t, b.Pipeline)
		wantCode(t, err, want)
		var set, gone []*pipeline.Entry
		for _, s := range c.Set {
			set = append(set, s.Entry)
			if s.Old != nil {
				gone = append(gone, s.Old)
			}
		}
		for _, e := range c.Removed {
			gone = append(gone, e.Entry)
		}
		texts.want(t, "set", came, set)
		texts.want(t, "gone", went, gone)
		texts.want(t, "held", m.entries, slices.Collect(b.Entries()))
		m.wantLookup(t, r, b.Pipeline)
		if t.Failed() {
			t.Fatalf("after %+v", message)
		}
	}
	wantReplayed(t, b.Pipeline)
	for e, was := range texts {
		if now := textOf(e); now != was {
			t.Errorf("an entry has changed: %s\nhad been %s", now, was)
		}
	}
}

// entryTexts are entries as texts, without their IDs.
type entryTexts map[*pipeline.Entry]string

func textOf(e *pipeline.Entry) string {
	plain := *e
	plain.ID, plain.Match = 0, match.Match{}
	return fmt.Sprintf("%+v", plain)
}

func (x entryTexts) all(list []*pipeline.Entry) []string {
	var all []string
	for _, e := range list {
		if x[e] == "" {
			x[e] = textOf(e)
		}
		all = append(all, x[e])
	}
	slices.Sort(all)
	return all
}

// want compares lists of entries without regard for their order.
func (x entryTexts) want(t *testing.T, what string, want, got []*pipeline.Entry) {
	t.Helper()
	if w, g := x.all(want), x.all(got); !slices.Equal(w, g) {
		t.Errorf("%s:\n got %q\nwant %q", what, g, w)
	}
}
