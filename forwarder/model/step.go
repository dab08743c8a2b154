package model

import (
	"slices"

	"baton/forwarder/match"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// Step is an event in a packet's processing, for [Switch.Report].
type Step struct {
	Kind StepKind
	// Depth is how many copies deep the packet is.
	Depth  int
	Table  openflow.TableID
	Entry  *pipeline.Entry // nil: a miss
	Action openflow.Action
	Group  *pipeline.Group
	Bucket int // of the group
	Of     int // number of buckets that get a copy
	Port   openflow.PortNo
	Flow   *Flow
	Loss   BindLoss
	Fields []openflow.TLV // the packet's non-zero fields
}

// StepKind determines which fields of a Step are set.
type StepKind int

// The kinds of steps.
const (
	StepTable    StepKind = iota // looked up in Table: Entry
	StepSet                      // the action set begins
	StepAction                   // Action is executed next
	StepEnded                    // Action failed: the packet lacks the header, or its TTL has expired
	StepBucket                   // a copy for Bucket of Group
	StepDead                     // Group has no live bucket; nil: the group does not exist
	StepSent                     // out of Port
	StepUnsent                   // not out of Port, because it is the input port, missing, down, or no_fwd
	StepUpcall                   // to the controllers
	StepStack                    // passed to the host's stack
	StepKnown                    // the packet belongs to Flow, which is bound to Port
	StepNew                      // the packet starts Flow, for which Action selects one of Of buckets of Group
	StepBindLost                 // dropped by bind because of Loss; Flow is its binding, if not nil
	StepAnswer                   // the packet is a reply to Flow, and gets its internal address
	StepNoAnswer                 // the packet is no reply: the next action follows
)

func (r *run) report(p *state, s Step) {
	if r.Report == nil {
		return
	}
	s.Depth = p.depth
	for _, f := range fields {
		if v := p.value(f); slices.ContainsFunc(v, func(b byte) bool { return b != 0 }) {
			s.Fields = append(s.Fields, openflow.TLV{Field: f, Value: v})
		}
	}
	r.Report(s)
}

// fields are all fields that a packet can be matched on, each once.
var fields = slices.DeleteFunc(append(openflow.Fields(), openflow.FieldTCPFlags), func(f openflow.Field) bool {
	return !match.Known(f) || f == openflow.FieldInPhyPort
})

// key is the packet's fields in the kernel's layout.
func (p *state) key() *match.Key {
	var k match.Key
	for _, f := range fields {
		at, size, _ := match.Place(f)
		for i, b := range p.value(f) {
			k[at+size-f.Size()+i] |= b // of fields that share a place a packet has at most one
		}
	}
	return &k
}
