package model

import (
	"slices"

	"baton/forwarder/match"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// Step is something that happens to a packet on its way, for [Switch.Report].
type Step struct {
	Kind StepKind
	// Depth counts how often the packet is a copy of a copy.
	Depth  int
	Table  openflow.TableID
	Entry  *pipeline.Entry // nil: it missed
	Action openflow.Action
	Group  *pipeline.Group
	Bucket int // of the group
	Of     int // buckets that have a copy
	Port   openflow.PortNo
	Flow   *Flow
	Loss   BindLoss
	Fields []openflow.TLV // what the packet has now, but for zeros
}

// StepKind says which of a Step's fields mean something.
type StepKind int

// The kinds of steps.
const (
	StepTable    StepKind = iota // looked up in Table: Entry
	StepSet                      // the action set begins
	StepAction                   // Action is carried out next
	StepEnded                    // Action was not possible: there is no such header, or the TTL has run out
	StepBucket                   // a copy for Bucket of Group
	StepDead                     // no bucket of Group lives; nil: there is no such group
	StepSent                     // out of Port
	StepUnsent                   // not out of Port: the packet came by it, or it is not there, is down, or forwards nothing
	StepUpcall                   // to the controllers
	StepStack                    // left to the host's stack
	StepKnown                    // the packet is of Flow, whose Port a bucket of Group watches
	StepNew                      // the packet begins Flow: Action selects one of Of buckets of Group, if there is a choice
	StepBindLost                 // no bucket has the packet, because of Loss; Flow is remembered, if not nil
	StepAnswer                   // the packet answers Flow, and gets its inside address
	StepNoAnswer                 // the packet answers no flow: the next action is carried out
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

// fields are those that a packet can be matched on, each under one name.
var fields = slices.DeleteFunc(append(openflow.Fields(), openflow.FieldTCPFlags), func(f openflow.Field) bool {
	return !match.Known(f) || f == openflow.FieldInPhyPort
})

// key is the packet's fields as the kernel compares them.
func (p *state) key() *match.Key {
	var k match.Key
	for _, f := range fields {
		at, size, _ := match.Place(f)
		for i, b := range p.value(f) {
			k[at+size-f.Size()+i] |= b // of the fields of one place a packet has one
		}
	}
	return &k
}
