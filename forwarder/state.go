package forwarder

import (
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"baton/forwarder/config"
	"baton/forwarder/journal"
	"baton/forwarder/pipeline"
	"baton/openflow"
)

func (f *Forwarder) journalPath() string { return filepath.Join(f.cfg.State, "flows") }

// replay restores the pipeline that an earlier process has stored.
func (f *Forwarder) replay() (err error) {
	if f.cfg.State == "" {
		return nil
	}
	f.journal, err = journal.Open(f.journalPath())
	if err != nil {
		return err
	}
	for r, err := range f.journal.All() {
		if err != nil {
			return fmt.Errorf("read the state: %w", err)
		}
		_, m, err := openflow.Decode(r.Message)
		if err != nil {
			return fmt.Errorf("read the state: %w", err)
		}
		c, err := f.pipeline.Apply(r.Time, m)
		if err != nil {
			f.log.Warn("a stored message is no longer accepted", "type", m.Type().String(), "error", err)
			continue
		}
		if err := f.installed.Apply(c, func(*pipeline.Removed, openflow.Counter) {}); err != nil {
			f.log.Warn("a stored message could not be installed", "type", m.Type().String(), "error", err)
		}
	}
	if n := f.journal.Len(); n > 0 {
		f.log.Info("state restored", "messages", n, "torn_bytes", f.journal.Torn())
	}
	f.repair()
	return nil
}

// repair reports damage of the stored state, and rewrites it (decision 25).
func (f *Forwarder) repair() {
	d := f.journal.Damage()
	if d.Places == 0 {
		return
	}
	what := []any{"file", f.journalPath(), "places", d.Places, "bytes", d.Bytes, "first_at", d.At, "restored_messages", f.journal.Len()}
	if !d.After.IsZero() {
		what = append(what, "changes_after", d.After)
	}
	if !d.Before.IsZero() {
		what = append(what, "changes_before", d.Before)
	}
	kept, err := f.journal.Repair(f.records())
	if err != nil {
		what = append(what, "not_repaired", err)
	} else {
		what = append(what, "damaged_file", kept)
	}
	f.log.Error("the state was damaged, and changes are lost: flow entries, groups and meters may be missing, and deleted ones may be in force "+
		"again; have the controllers install theirs again, or stop the forwarder, remove the file and start empty", what...)
}

// record stores a message that changed the pipeline; raw are its bytes.
func (f *Forwarder) record(now time.Time, m openflow.Message, raw []byte) {
	if f.journal == nil {
		return
	}
	var err error
	if _, tables := m.(*openflow.MultipartRequest); tables || f.journal.Due(f.pipeline.Messages()) {
		err = f.journal.Rewrite(f.records()) // a table features request may be longer than one message
	} else {
		err = f.journal.Append(raw, now)
	}
	if err != nil {
		f.log.Error("a change will not survive a restart", "error", err)
	}
}

// recordExpired stores that entries have expired.
func (f *Forwarder) recordExpired(now time.Time, gone []pipeline.Removed) {
	for i := range gone {
		e := gone[i].Entry
		m := openflow.NewFlowMod(openflow.FlowDeleteStrict)
		m.Table, m.Priority, m.Match = e.Table, e.Priority, e.Fields
		raw, err := openflow.Append(nil, 0, m)
		if err != nil {
			f.log.Error("an expired flow entry may return after a restart", "error", err)
			continue
		}
		f.record(now, m, raw)
	}
}

// records yields messages that recreate the pipeline.
func (f *Forwarder) records() iter.Seq[journal.Record] {
	return func(yield func(journal.Record) bool) {
		var b []byte
		for m, at := range f.pipeline.Snapshot() {
			var err error
			if b, err = openflow.Append(b[:0], 0, m); err != nil {
				f.log.Error("a part of the state is too long for a message", "type", m.Type().String(), "error", err)
				continue
			}
			if !yield(journal.Record{Time: at, Message: b}) {
				return
			}
		}
	}
}

// standaloneCookie marks the entry that a forwarder in fail mode standalone adds while no controller is connected.
const standaloneCookie = 0x42544e5354414e44

// connected is called when the first controller has connected and when the last one has gone [6.3.3].
func (f *Forwarder) connected(is bool) {
	if f.cfg.FailMode != config.Standalone {
		return
	}
	m := &openflow.FlowMod{
		Command: openflow.FlowDelete, Table: openflow.TableAll, OutPort: openflow.PortAny, OutGroup: openflow.GroupAny,
		Buffer: openflow.NoBuffer,
	}
	if is {
		m.Cookie, m.CookieMask = standaloneCookie, ^uint64(0)
	}
	list := []openflow.Message{m}
	if !is {
		list = append(list, &openflow.FlowMod{
			Command: openflow.FlowAdd, Cookie: standaloneCookie, Buffer: openflow.NoBuffer,
			OutPort: openflow.PortAny, OutGroup: openflow.GroupAny,
			Instructions: []openflow.Instruction{openflow.InstructionApplyActions{
				Actions: []openflow.Action{openflow.ActionOutput{Port: openflow.PortNormal}},
			}},
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	now := time.Now()
	for _, m := range list {
		raw, err := openflow.Append(nil, 0, m)
		if err == nil {
			err = f.change(now, m, raw)
		}
		if err != nil {
			f.log.Error("fail mode", "error", err)
		}
	}
}
