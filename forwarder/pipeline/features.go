package pipeline

import (
	"bytes"
	"slices"

	"baton/forwarder/match"
	"baton/openflow"
)

// Capabilities of every table.
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
	// applyIDs are those of apply-actions if there is a binding table
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

// fieldIDs lists the fields for which can is true; if masks is set, with the mask bit of those that can be masked.
func fieldIDs(can func(openflow.Field) bool, masks bool) []openflow.FieldID {
	var ids []openflow.FieldID
	for _, f := range append(openflow.Fields(), openflow.FieldTCPFlags) {
		if can(f) {
			ids = append(ids, openflow.NewFieldID(f, masks && f.Maskable()))
		}
	}
	return ids
}

// TableFeatures answers a request for table features, which are equal for all tables except for the next tables [7.3.5.5]. Properties of table
// misses equal those of other entries, and are therefore left out [7.3.5.5.2].
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

// applied lists the actions of apply-actions.
func (p *Pipeline) applied() []openflow.TypeID {
	if p.limits.Bindings {
		return applyIDs
	}
	return actionIDs
}

// maxName is the maximum length of a table name in bytes: a zero must follow on the wire [7.3.5.5.1].
const maxName = 31

// ConfigureTables configures the tables as requested, or refuses and changes nothing; the error is the [*openflow.Fault] to answer with
// [7.3.5.5]. Tables get the names in the request; their features stay as they are, because they may exceed the request. Tables missing from
// the request are left out of the pipeline until another request names them: their entries are removed without notification, and so are those
// with a goto to them.
func (p *Pipeline) ConfigureTables(b openflow.TableFeaturesBody) (Change, error) {
	var asked [maxTables]bool
	for i := range b {
		id := b[i].Table
		if int(id) >= len(p.tables) || asked[id] {
			return result(Change{}, refuse(openflow.TableFeaturesFailedBadTable, "7.3.5.5", "table %v does not exist, or is a duplicate", id))
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

// checkProperty refuses a request for features that a table does not have.
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

// sameType reports whether an id includes a type. An experimenter's id without data includes all of that experimenter.
func sameType(id, can openflow.TypeID) bool {
	return id.Type == can.Type && id.Experimenter == can.Experimenter && (len(id.Data) == 0 || bytes.Equal(id.Data, can.Data))
}

// GroupFeatures answers a request for group features [7.3.5.11]. Its bit masks of actions cannot express experimenter actions and types above
// 31, which buckets support, too.
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

// MeterFeatures answers a request for meter features [7.3.5.14].
func (p *Pipeline) MeterFeatures() openflow.MeterFeaturesReply {
	return openflow.MeterFeaturesReply{
		MaxMeter:  uint32(p.limits.Meters),
		BandTypes: 1<<openflow.BandDrop | 1<<openflow.BandDSCPRemark,
		Capabilities: uint32(openflow.MeterFlagKbps | openflow.MeterFlagPktps | openflow.MeterFlagBurst |
			openflow.MeterFlagStats),
		MaxBands: uint8(min(p.limits.Bands, 255)),
	}
}
