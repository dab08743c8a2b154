package pipeline_test

import (
	"strings"
	"testing"

	"baton/forwarder/match"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

// property returns a table's property of that kind.
func property(t *testing.T, f openflow.TableFeatures, kind openflow.PropType) openflow.TableProp {
	t.Helper()
	for _, p := range f.Properties {
		if p.Kind == kind {
			return p
		}
	}
	t.Fatalf("table %v has no property %v", f.Table, kind)
	return openflow.TableProp{}
}

// TestTableFeatures: every table tells all that it can do, with each property that is required [7.3.5.5.2].
func TestTableFeatures(t *testing.T) {
	p := pipeline.New(pipeline.Limits{Tables: 3, Entries: 77})
	body := p.TableFeatures()
	if len(body) != 3 {
		t.Fatalf("%d tables", len(body))
	}
	for i, f := range body {
		if f.Table != openflow.TableID(i) || f.MaxEntries != 77 || f.MetadataMatch != ^uint64(0) || f.MetadataWrite != ^uint64(0) {
			t.Errorf("table %d: %+v", i, f)
		}
		wantEqual(t, []openflow.TableID{1, 2}[min(i, 2):], property(t, f, openflow.PropNextTables).Tables)
		if n := len(property(t, f, openflow.PropInstructions).Types); n != 6 {
			t.Errorf("%d instructions", n)
		}
		for _, kind := range []openflow.PropType{openflow.PropWriteActions, openflow.PropApplyActions} {
			if n := len(property(t, f, kind).Types); n != 18+8 {
				t.Errorf("%v: %d", kind, n)
			}
		}
		matched, omitted := property(t, f, openflow.PropMatch).Fields, property(t, f, openflow.PropWildcards).Fields
		if len(matched) != 41 || len(omitted) != 41 {
			t.Errorf("%d fields matched, %d omitted", len(matched), len(omitted))
		}
		for _, id := range matched {
			if !match.Known(id.Field) || id.Masked != id.Field.Maskable() {
				t.Errorf("match %+v", id)
			}
		}
		for _, kind := range []openflow.PropType{openflow.PropWriteSetfield, openflow.PropApplySetfield} {
			list := property(t, f, kind).Fields
			if len(list) != 36 {
				t.Errorf("%v: %d", kind, len(list))
			}
			for _, id := range list {
				if !pipeline.Settable(id.Field) || id.Masked {
					t.Errorf("%v: %+v", kind, id)
				}
			}
		}
	}
}

// TestConfigureTables: what a controller may ask tables to be [7.3.5.5].
func TestConfigureTables(t *testing.T) {
	whole := pipeline.New(pipeline.Limits{Tables: 4}).TableFeatures()
	one := func(p openflow.TableProp) openflow.TableFeaturesBody {
		return openflow.TableFeaturesBody{{Table: 0, Properties: []openflow.TableProp{p}}, {Table: 2}}
	}
	types := func(kind openflow.PropType, list ...openflow.TypeID) openflow.TableFeaturesBody {
		return one(openflow.TableProp{Kind: kind, Types: list})
	}
	oxm := func(kind openflow.PropType, list ...openflow.FieldID) openflow.TableFeaturesBody {
		return one(openflow.TableProp{Kind: kind, Fields: list})
	}
	next := func(list ...openflow.TableID) openflow.TableFeaturesBody {
		return one(openflow.TableProp{Kind: openflow.PropNextTablesMiss, Tables: list})
	}
	const (
		badTable = openflow.TableFeaturesFailedBadTable
		badValue = openflow.TableFeaturesFailedBadArgument
	)
	tests := []struct {
		name string
		b    openflow.TableFeaturesBody
		want openflow.Code
	}{
		{"what was advertised", whole, 0},
		{"a part of it that leads elsewhere", whole[:3], badValue},
		{"no properties", openflow.TableFeaturesBody{{Table: 0, Config: 3, MaxEntries: 1}}, 0},
		{"no first table", openflow.TableFeaturesBody{{Table: 3}}, badTable},
		{"a table that is not there", openflow.TableFeaturesBody{{Table: 0}, {Table: 4}}, badTable},
		{"a table twice", openflow.TableFeaturesBody{{Table: 0}, {Table: 0}}, badTable},
		{"instruction", types(openflow.PropInstructionsMiss, openflow.TypeID{Type: 1}), 0},
		{"unknown instruction", types(openflow.PropInstructions, openflow.TypeID{Type: 7}), badValue},
		{"experimenter's instruction", types(openflow.PropInstructions, openflow.TypeID{Type: 0xffff, Experimenter: 1}), badValue},
		{"action", types(openflow.PropApplyActionsMiss, openflow.ActionID(openflow.ActionSetField{})), 0},
		{"unknown action", types(openflow.PropWriteActions, openflow.TypeID{Type: 1}), badValue},
		{"Baton's action", types(openflow.PropApplyActions, openflow.ActionID(openflow.ActionClampMSS{})), 0},
		{"Baton's actions", types(openflow.PropApplyActions, openflow.TypeID{Type: 0xffff, Experimenter: openflow.BatonExperimenter}), 0},
		{"Baton's action, unknown", types(openflow.PropApplyActions,
			openflow.TypeID{Type: 0xffff, Experimenter: openflow.BatonExperimenter, Data: []byte{0, 99, 0, 0}}), badValue},
		{"other's action", types(openflow.PropApplyActions, openflow.TypeID{Type: 0xffff, Experimenter: 0x2320}), badValue},
		{"field", oxm(openflow.PropMatch, openflow.NewFieldID(openflow.FieldTCPSrc, false)), 0},
		{"field with a mask", oxm(openflow.PropMatch, openflow.NewFieldID(openflow.FieldEthDst, true)), 0},
		{"field without its mask", oxm(openflow.PropMatch, openflow.NewFieldID(openflow.FieldEthDst, false)), 0},
		{"field that has no mask", oxm(openflow.PropMatch, openflow.NewFieldID(openflow.FieldTCPSrc, true)), badValue},
		{"unknown field", oxm(openflow.PropWildcards, openflow.NewFieldID(openflow.FieldActsetOutput, false)), badValue},
		{"wildcard with a mask", oxm(openflow.PropWildcards, openflow.NewFieldID(openflow.FieldEthDst, true)), 0},
		{"set-field", oxm(openflow.PropApplySetfield, openflow.NewFieldID(openflow.FieldVLANVID, false)), 0},
		{"set-field of a port", oxm(openflow.PropApplySetfieldMiss, openflow.NewFieldID(openflow.FieldInPort, false)), badValue},
		{"next table", next(2), 0},
		{"next table that is left out", next(1), badValue},
		{"next table that is not there", next(openflow.TableAll), badValue},
		{"itself as the next table", next(0), badValue},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pipeline.New(pipeline.Limits{Tables: 4})
			m := &openflow.MultipartRequest{Body: tt.b}
			if err := openflow.Check(m); err != nil {
				t.Fatal(err)
			}
			c, err := p.Apply(start, m)
			wantCode(t, err, tt.want)
			if !c.Empty() {
				t.Fatalf("change %+v", c)
			}
			if want := len(tt.b); tt.want == 0 && len(p.TableFeatures()) != want {
				t.Errorf("%d tables, want %d", len(p.TableFeatures()), want)
			} else if tt.want != 0 {
				wantEqual(t, whole, p.TableFeatures())
			}
		})
	}
}

// TestLeftOut: a table that a controller leaves out is not there: its entries go, and those that lead to it, and nothing is reported;
// named again, it is back, and empty [7.3.5.5].
func TestLeftOut(t *testing.T) {
	b := newBench(t, pipeline.Limits{Tables: 4})
	notify := flags(openflow.FlowSendFlowRem)
	jump := func(to openflow.TableID) func(*openflow.FlowMod) {
		return does(openflow.InstructionGotoTable{Table: to})
	}
	b.must(flow(add, cookie(1, 0), notify, jump(1)))
	b.must(flow(add, cookie(2, 0), notify, priority(1), jump(2)))
	b.must(flow(add, cookie(3, 0), notify, table(1)))
	b.must(flow(add, cookie(4, 0), notify, table(2)))
	c, err := b.ConfigureTables(openflow.TableFeaturesBody{{Table: 2, Name: strings.Repeat("b", 32)}, {Table: 0, Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	var gone []uint64
	for _, r := range c.Removed {
		gone = append(gone, r.Entry.Cookie)
		if r.Report {
			t.Errorf("reported %+v", r.Entry)
		}
	}
	wantSame(t, []uint64{1, 3}, gone)
	var names []string
	for _, f := range b.TableFeatures() {
		names = append(names, f.Name)
	}
	wantEqual(t, []string{"a", strings.Repeat("b", 31)}, names)
	wantEqual(t, []openflow.TableID{2}, property(t, b.TableFeatures()[0], openflow.PropNextTables).Tables)
	wantEqual(t, openflow.TableStatsReply{{Table: 0, Active: 1}, {Table: 2, Active: 1}},
		b.TableStats(func(openflow.TableID) (uint64, uint64) { return 0, 0 }))
	b.refuses(flow(add, table(1)), openflow.FlowModFailedBadTableID)
	b.refuses(flow(deletes, table(3)), openflow.FlowModFailedBadTableID)
	b.refuses(flow(add, jump(1)), openflow.BadInstructionBadTableID)
	b.must(&openflow.MultipartRequest{Body: openflow.TableFeaturesBody{{Table: 0}, {Table: 1}, {Table: 2}, {Table: 3}}})
	if c := b.must(flow(deletes, table(openflow.TableAll))); len(c.Removed) != 2 {
		t.Errorf("%d entries at the end", len(c.Removed))
	}
	b.must(flow(add, table(1)))
}

func TestGroupFeatures(t *testing.T) {
	f := pipeline.New(pipeline.Limits{Groups: 9}).GroupFeatures()
	want := openflow.GroupFeaturesReply{Types: 0xf, Capabilities: 0xf, Max: [4]uint32{9, 9, 9, 9}}
	for i := range want.Actions {
		want.Actions[i] = 0x0fff9801
	}
	wantEqual(t, want, f)
}

func TestMeterFeatures(t *testing.T) {
	wantEqual(t, openflow.MeterFeaturesReply{MaxMeter: 9, BandTypes: 6, Capabilities: 0xf, MaxBands: 3},
		pipeline.New(pipeline.Limits{Meters: 9, Bands: 3}).MeterFeatures())
}
