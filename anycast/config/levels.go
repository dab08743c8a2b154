package config

import (
	"fmt"
	"strconv"
	"strings"

	"baton/anycast/level"
	"baton/document"
)

// defaultLadder starts with what a router compares last (RFC 4271, section 9.1.2): MED, then the AS-path length, or with internal peers the
// local preference, then RFC 8326.
func defaultLadder(internal bool) []level.Level {
	steps := []level.Level{
		{Name: "announce"},
		{Name: "med", Announcement: level.Announcement{MED: 100}, Enter: 0.85, Leave: 0.7},
		{Name: "prepend-1", Announcement: level.Announcement{MED: 100, Prepend: 1}, Enter: 0.95, Leave: 0.8},
		{Name: "prepend-3", Announcement: level.Announcement{MED: 100, Prepend: 3}, Enter: 1.05, Leave: 0.9},
		{Name: "drain", Announcement: level.Announcement{MED: 100, Prepend: 3, Communities: []uint32{level.GracefulShutdown}}},
		{Name: "withdraw", Announcement: level.Announcement{Withdrawn: true}},
	}
	if internal {
		for i, preference := range []uint32{0, 0, 90, 80, 0} {
			a := &steps[i].Announcement
			a.Prepend = 0
			if i >= 2 {
				a.LocalPreference = &preference
			}
		}
		steps[2].Name, steps[3].Name = "preference-90", "preference-80"
	}
	return steps
}

// ladder decodes all levels but the last, which is always the withdrawal.
func (d *decoder) ladder(path string, n *node) []level.Level {
	d.AtMost(path, n, maxLevels)
	var out []level.Level
	d.NonEmptyList(path, n, func(at string, n *node) {
		l := d.level(at, n)
		for i := range out {
			if out[i].Name == l.Name {
				d.Refuse(document.Join(at, "name"), fmt.Sprintf("%q is the name of %s already", l.Name, document.Index(path, i)), "a name of its own")
			}
		}
		out = append(out, l)
	})
	if d.Err() != nil {
		return nil
	}
	d.checkLadder(path, out)
	return append(out, level.Level{Name: withdrawn, Announcement: level.Announcement{Withdrawn: true}})
}

const withdrawn = "withdraw"

func (d *decoder) level(path string, n *node) level.Level {
	var l level.Level
	d.Fields(path, n, []key{
		{Name: "name", Help: "in the status and for commands", Decode: func(path string, n *node) { l.Name = d.Label(path, n) }},
		{Name: "med", Help: "multi-exit discriminator of the announcements",
			Decode: func(path string, n *node) { l.Announcement.MED = uint32(d.Integer(path, n, 1, 1<<32-1)) }},
		{Name: "prepend", Help: "how often the own AS is prepended", Decode: func(path string, n *node) { l.Announcement.Prepend = d.Integer(path, n, 1, 20) }},
		{Name: "local_preference", Help: "for internal routers", Decode: func(path string, n *node) {
			v := uint32(d.Integer(path, n, 0, 1<<32-1))
			l.Announcement.LocalPreference = &v
		}},
		{Name: "communities", Help: "added to those of the site", Decode: func(path string, n *node) { l.Announcement.Communities = d.communities(path, n) }},
		{Name: "enter", Help: "load at which the level is entered, such as 85%", Decode: func(path string, n *node) { l.Enter = d.Percent(path, n, 1, 10000) }},
		{Name: "leave", Help: "load at which it is left", Decode: func(path string, n *node) { l.Leave = d.Percent(path, n, 1, 10000) }},
	})
	d.Require(path, n, "name")
	if d.Err() == nil && l.Name == withdrawn {
		d.Refuse(document.Join(path, "name"), "is that of the last level, which is always there", "leave it out")
	}
	if d.Given(document.Join(path, "enter")) != d.Given(document.Join(path, "leave")) {
		d.Wrong(n, path, "has one of enter and leave", "both, or neither for a level that load does not lead to")
	}
	if l.Enter > 0 && l.Leave >= l.Enter {
		d.Refuse(document.Join(path, "leave"), fmt.Sprintf("%g%% is not below enter, %g%%: the level would swing", 100*l.Leave, 100*l.Enter), "leave below enter")
	}
	return l
}

func (d *decoder) checkLadder(path string, all []level.Level) {
	if len(all) < 2 {
		d.Refuse(path, "has one level", "a plain one, and the one that sites drain at, at least")
		return
	}
	enter := 0.0
	for i, l := range all {
		at := document.Index(path, i)
		if l.Enter == 0 {
			continue
		}
		if i == 0 {
			d.Refuse(document.Join(at, "enter"), "the first level is where a site is without load", "enter and leave at those after it")
		}
		if l.Enter < enter {
			d.Refuse(document.Join(at, "enter"), fmt.Sprintf("%g%% is below that of a level before it, %g%%", 100*l.Enter, 100*enter), "loads that grow")
		}
		enter = l.Enter
	}
}

var wellKnown = map[string]uint32{"graceful_shutdown": level.GracefulShutdown, "no_export": level.NoExport}

func (d *decoder) communities(path string, n *node) []uint32 {
	d.AtMost(path, n, 32)
	var out []uint32
	d.NonEmptyList(path, n, func(at string, n *node) { out = append(out, d.community(at, n)) })
	return out
}

// community decodes one of RFC 1997.
func (d *decoder) community(path string, n *node) uint32 {
	s := d.Text(path, n)
	if v, ok := wellKnown[s]; ok {
		return v
	}
	high, low, _ := strings.Cut(s, ":")
	a, err := strconv.ParseUint(high, 10, 16)
	b, wrong := strconv.ParseUint(low, 10, 16)
	if d.Err() == nil && (err != nil || wrong != nil) {
		d.WrongText(n, path, s, "is not a community", `"64512:100", graceful_shutdown or no_export`)
	}
	return uint32(a)<<16 | uint32(b)
}
