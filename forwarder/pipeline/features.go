package pipeline

import (
	"bytes"
	"slices"

	"baton/forwarder/match"
	"baton/openflow"
)

// What every table can do.
var (
	instructionIDs = []openflow.TypeID{
		typeID(openflow.InstructionTypeGotoTable), typeID(openflow.InstructionTypeWriteMetadata),
		typeID(openflow.InstructionTypeWriteActions), typeID(openflow.InstructionTypeApplyActions),
		typeID(openflow.InstructionTypeClearActions), typeID(openflow.InstructionTypeMeter),
	}
	actionIDs = idsOf(
		openflow.ActionOutput{}, openflow.ActionCopyTTLOut{}, openflow.ActionCopyTTLIn{}, openflow.ActionSetMPLSTTL{},
		openflow.ActionDecMPLSTTL{}, openflow.ActionPushVLAN{}, openflow.ActionPopVLAN{}, openflow.ActionPushMPLS{},
		openflow.ActionPopMPLS{}, openflow.ActionSetQueue{}, openflow.ActionGroup{}, openflow.ActionSetNWTTL{},
		openflow.ActionDecNWTTL{}, openflow.ActionSetField{}, openflow.ActionPushPBB{}, openflow.ActionPopPBB{},
		openflow.ActionIncSeq{Plain: true}, openflow.ActionIncAck{Plain: true},
		openflow.ActionIncSeq{}, openflow.ActionIncAck{}, openflow.ActionIncSACK{}, openflow.ActionIncTSval{}, openflow.ActionIncTSecr{},
		openflow.ActionRescaleWindow{}, openflow.ActionClampMSS{}, openflow.ActionStripOption{},
	)
	// applyIDs are those of apply-actions where flows are remembered.
	applyIDs    = append(slices.Clone(actionIDs), idsOf(openflow.ActionBind{}, openflow.ActionUnbind{})...)
	matchIDs    = fieldIDs(match.Known, true)
	wildcardIDs = fieldIDs(match.Known, false)
	setIDs      = fieldIDs(Settable, false)
)

func typeID(t openflow.InstructionType) openflow.TypeID { return openflow.TypeID{Type: uint16(t)} }

func idsOf(list ...openflow.Action) []openflow.TypeID {
	ids := make([]openflow.TypeID, len(list))
	for i, a := range list {
		ids[i] = openflow.ActionID(a)
	}
	return ids
}

// fieldIDs names the fields of which can is true, with the bit of a mask where one is allowed, if masks are of interest.
func fieldIDs(can func(openflow.Field) bool, masks bool) []openflow.FieldID {
	var ids []openflow.FieldID
	for _, f := range append(openflow.Fields(), openflow.FieldTCPFlags) {
		if can(f) {
			ids = append(ids, openflow.NewFieldID(f, masks && f.Maskable()))
		}
	}
	return ids
}

// TableFeatures answers a request for what the tables can do, which is the same for each, but that packets go to later tables only
// [7.3.5.5]. The properties of a table's miss are those of its other entries, and therefore left out [7.3.5.5.2].
func (p *Pipeline) TableFeatures() openflow.TableFeaturesBody {
	var present []openflow.TableID
	for i := range p.tables {
		if !p.tables[i].left {
			present = append(present, p.tables[i].id)
		}
	}
	body := make(openflow.TableFeaturesBody, len(present))
	for i, id := range present {
		body[i] = openflow.TableFeatures{
			Table:         id,
			Name:          p.tables[id].name,
			MetadataMatch: ^uint64(0),
			MetadataWrite: ^uint64(0),
			MaxEntries:    uint32(p.limits.Entries),
			Properties: []openflow.TableProp{
				{Kind: openflow.PropInstructions, Types: instructionIDs},
				{Kind: openflow.PropNextTables, Tables: present[i+1:]},
				{Kind: openflow.PropWriteActions, Types: actionIDs},
				{Kind: openflow.PropApplyActions, Types: p.applied()},
				{Kind: openflow.PropMatch, Fields: matchIDs},
				{Kind: openflow.PropWildcards, Fields: wildcardIDs},
				{Kind: openflow.PropWriteSetfield, Fields: setIDs},
				{Kind: openflow.PropApplySetfield, Fields: setIDs},
			},
		}
	}
	return body
}

// applied names the actions of apply-actions.
func (p *Pipeline) applied() []openflow.TypeID {
	if p.limits.Bindings {
		return applyIDs
	}
	return actionIDs
}

// maxName is the longest name of a table in bytes: a zero must follow it on the wire [7.3.5.5.1].
const maxName = 31

// ConfigureTables makes the tables what a controller asks for, or refuses and changes nothing; the error is the
// [*openflow.Fault] to answer with [7.3.5.5]. The tables take the names of the request. Their features stay what they are, as they
// may be more than was asked for. Tables that the request leaves out are no part of the pipeline until another one
// names them: their entries go, and those that lead to them, of which no controller is told.
func (p *Pipeline) ConfigureTables(b openflow.TableFeaturesBody) (Change, error) {
	var asked [maxTables]bool
	for i := range b {
		id := b[i].Table
		if int(id) >= len(p.tables) || asked[id] {
			return result(Change{}, refuse(openflow.TableFeaturesFailedBadTable, "7.3.5.5", "table %v is not there, or named twice", id))
		}
		asked[id] = true
	}
	if !asked[0] {
		return result(Change{}, refuse(openflow.TableFeaturesFailedBadTable, "5.1", "no table 0, where packets begin"))
	}
	for i := range b {
		for j := range b[i].Properties {
			if f := p.checkProperty(b[i].Table, &b[i].Properties[j], &asked); f != nil {
				return result(Change{}, f)
			}
		}
	}
	var c Change
	for i := range p.tables {
		c.before.tables = append(c.before.tables, p.tables[i].tableConfig)
	}
	for i := range b {
		p.tables[b[i].Table].name = b[i].Name[:min(len(b[i].Name), maxName)]
	}
	var gone []*slot
	for i := range p.tables {
		t := &p.tables[i]
		t.left = !asked[t.id]
		t.each(func(s *slot) {
			if next, ok := s.entry.next(); t.left || ok && !asked[next] {
				gone = append(gone, s)
			}
		})
	}
	for _, s := range gone {
		p.removeEntry(&c, s, openflow.RemovedDelete)
		c.Removed[len(c.Removed)-1].Report = false
	}
	return c, nil
}

// checkProperty refuses what a table is asked for and cannot do.
func (p *Pipeline) checkProperty(table openflow.TableID, prop *openflow.TableProp, asked *[maxTables]bool) *openflow.Fault {
	bad := func(what any) *openflow.Fault {
		return refuse(openflow.TableFeaturesFailedBadArgument, "7.3.5.5.2", "table %v, %v: %v", table, prop.Kind, what)
	}
	types := instructionIDs
	fields := setIDs
	switch prop.Kind {
	case openflow.PropWriteActions, openflow.PropWriteActionsMiss:
		types = actionIDs
	case openflow.PropApplyActions, openflow.PropApplyActionsMiss:
		types = p.applied()
	case openflow.PropMatch:
		fields = matchIDs
	case openflow.PropWildcards:
		fields = wildcardIDs
	}
	for _, id := range prop.Types {
		if !slices.ContainsFunc(types, func(can openflow.TypeID) bool { return sameType(id, can) }) {
			return bad(id.Type)
		}
	}
	for _, id := range prop.Tables {
		if id <= table || int(id) >= maxTables || !asked[id] {
			return bad(id)
		}
	}
	for _, id := range prop.Fields {
		if !slices.ContainsFunc(fields, func(can openflow.FieldID) bool {
			return id.Field == can.Field && (!id.Masked || can.Masked || prop.Kind != openflow.PropMatch)
		}) {
			return bad(id.Field)
		}
	}
	return nil
}

// sameType reports whether an id asks for a type. An experimenter's without data asks for whatever there is of that experimenter.
func sameType(id, can openflow.TypeID) bool {
	return id.Type == can.Type && id.Experimenter == can.Experimenter && (len(id.Data) == 0 || bytes.Equal(id.Data, can.Data))
}

// GroupFeatures answers a request for what groups can do [7.3.5.11]. Its masks of actions have no place for those of experimenters
// and for types from 32 on, which buckets can hold as well.
func (p *Pipeline) GroupFeatures() openflow.GroupFeaturesReply {
	var actions uint32
	for _, id := range actionIDs {
		if id.Type < 32 {
			actions |= 1 << id.Type
		}
	}
	n := uint32(p.limits.Groups)
	return openflow.GroupFeaturesReply{
		Types: 1<<openflow.GroupTypeAll | 1<<openflow.GroupTypeSelect | 1<<openflow.GroupTypeIndirect | 1<<openflow.GroupTypeFF,
		Capabilities: openflow.GroupCapabilitySelectWeight | openflow.GroupCapabilitySelectLiveness |
			openflow.GroupCapabilityChaining | openflow.GroupCapabilityChainingChecks,
		Max:     [4]uint32{n, n, n, n},
		Actions: [4]uint32{actions, actions, actions, actions},
	}
}

// MeterFeatures answers a request for what meters can do [7.3.5.14].
func (p *Pipeline) MeterFeatures() openflow.MeterFeaturesReply {
	return openflow.MeterFeaturesReply{
		MaxMeter:  uint32(p.limits.Meters),
		BandTypes: 1<<openflow.BandDrop | 1<<openflow.BandDSCPRemark,
		Capabilities: uint32(openflow.MeterFlagKbps | openflow.MeterFlagPktps | openflow.MeterFlagBurst |
			openflow.MeterFlagStats),
		MaxBands: uint8(min(p.limits.Bands, 255)),
	}
}
