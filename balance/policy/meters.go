package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"baton/balance/config"

	"github.com/google/renameio/v2"
)

// Meters count what links with a cap have carried. They are kept in a file, so that neither a restart nor a crash of the host gives a link
// its cap anew. They are for one goroutine at a time.
type Meters struct {
	file   string
	boot   string // of the host: counters begin at 0 with it
	saved  time.Time
	dirty  bool
	urgent bool // a link is over its cap now
	book   book
}

// Usage is how much of its cap a link has used.
type Usage struct {
	Used, Bytes uint64
	Until       time.Time // then it counts from 0
	Over        bool
}

// book is what the file holds.
type book struct {
	Version int                 `json:"version"`
	Links   map[string]*account `json:"links"`
}

// account is a link's.
type account struct {
	Interface string        `json:"interface"`
	Boot      string        `json:"boot"`    // of the host
	Counter   uint64        `json:"counter"` // the interface's, as it was last
	Every     config.Period `json:"every"`
	Day       int           `json:"day"`
	Begin     time.Time     `json:"begin"`
	Until     time.Time     `json:"until"`
	Used      uint64        `json:"used"`
	Before    *past         `json:"before,omitempty"`
}

// past is the period before, for clocks that are set back.
type past struct {
	Begin time.Time `json:"begin"`
	Until time.Time `json:"until"`
	Used  uint64    `json:"used"`
}

const (
	version   = 1
	mostBytes = 1 << 20 // of the file
	// saveEvery bounds what a host that loses its power forgets. A process that dies forgets nothing, as the kernel's counters go on.
	saveEvery = 30 * time.Second
	bootFile  = "/proc/sys/kernel/random/boot_id"
)

// set is when no clock is that has been set: hosts without a battery begin in 1970, or at the age of their software.
var set = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// OpenMeters reads the file. If that cannot be read, or is not what was written, counting begins anew: the error says so, and the Meters work.
func OpenMeters(file string) (*Meters, error) {
	m := &Meters{file: file}
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		err = fmt.Errorf("what links carry while nobody counts is lost: %w", err)
	}
	m.boot = string(bytes.TrimSpace(boot))
	var wrong error
	if m.book, wrong = readBook(file); wrong != nil {
		wrong = fmt.Errorf("what links have used of their caps is not known, counting begins anew: %w", wrong)
	}
	return m, errors.Join(wrong, err)
}

func readBook(file string) (book, error) {
	none := book{Links: map[string]*account{}}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, nil
	case err != nil:
		return none, err
	case info.Size() > mostBytes:
		return none, fmt.Errorf("%s: %d bytes", file, info.Size())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return none, err
	}
	b, err := parseBook(data)
	if err != nil {
		return none, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

func parseBook(data []byte) (b book, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, err
	}
	if b.Version != version {
		return b, fmt.Errorf("version %d, not %d", b.Version, version)
	}
	for name, a := range b.Links {
		if a == nil || !a.Begin.Before(a.Until) || a.Before != nil && !a.Before.Begin.Before(a.Before.Until) {
			return b, fmt.Errorf("link %q: no period", name)
		}
	}
	if b.Links == nil {
		b.Links = map[string]*account{}
	}
	return b, nil
}

// Count notes what a link with a cap has carried: counter is of all bytes that its interface has, both ways, since the host has started.
// What it had carried before it was counted for the first time does not count.
func (m *Meters) Count(now time.Time, l config.Link, counter uint64) Usage {
	a := m.book.Links[l.Name]
	if a == nil {
		a = &account{Interface: l.Interface, Boot: m.boot, Counter: counter}
		m.book.Links[l.Name] = a
	}
	if a.Interface != l.Interface { // the same contract by another interface
		a.Interface, a.Boot, a.Counter = l.Interface, m.boot, counter
	}
	since := counter - a.Counter
	if counter < a.Counter || a.Boot != m.boot {
		since = counter
	}
	rolled := a.roll(now, *l.Cap)
	wasOver := a.Used >= l.Cap.Bytes
	m.dirty = m.dirty || rolled || since > 0
	a.Boot, a.Counter, a.Used = m.boot, counter, a.Used+min(since, math.MaxUint64-a.Used)
	u := Usage{Used: a.Used, Bytes: l.Cap.Bytes, Until: a.Until, Over: a.Used >= l.Cap.Bytes}
	m.urgent = m.urgent || u.Over && !wasOver
	return u
}

// turn has the account be of the period that the time is in, and says whether it was another.
//
// Clocks jump. Ahead: another period begins; the one before is remembered, and goes on when the clock is set back. Back, to no period that
// is known: what was used counts in that one, as a cap that is believed to be used is cheaper than one that is not. A clock that is not set
// at all turns nothing.
func (a *account) roll(now time.Time, c config.Cap) bool {
	begin, end := Period(now, c)
	switch {
	case a.Begin.IsZero():
		a.Begin, a.Until = begin, end
	case a.Every != c.Every || a.Day != c.Day: // the configuration has changed
		if begin.After(a.Begin) {
			a.Used = 0
		}
		a.Begin, a.Until, a.Before = begin, end, nil
	case now.Before(set) || !now.Before(a.Begin) && now.Before(a.Until):
		return false
	case !now.Before(a.Until):
		a.Before = &past{a.Begin, a.Until, a.Used}
		a.Begin, a.Until, a.Used = begin, end, 0
	case a.Before != nil && !now.Before(a.Before.Begin):
		a.Begin, a.Until, a.Used = a.Before.Begin, a.Before.Until, a.Used+min(a.Before.Used, math.MaxUint64-a.Used)
		a.Before = nil
	default:
		a.Begin, a.Until, a.Before = begin, end, nil
	}
	a.Every, a.Day = c.Every, c.Day
	return true
}

// Save writes the file if there is something new and it is time, or if it is the last chance.
func (m *Meters) Save(now time.Time, last bool) error {
	between := now.Sub(m.saved)
	if !m.dirty || !last && !m.urgent && between >= 0 && between < saveEvery {
		return nil
	}
	m.saved = now // also when it fails: the disk is not to be asked without end
	m.book.Version = version
	data, err := json.Marshal(m.book)
	if err != nil {
		return fmt.Errorf("save what links have used: %w", err)
	}
	if err := replace(m.file, append(data, '\n')); err != nil {
		return fmt.Errorf("save what links have used: %w", err)
	}
	m.dirty, m.urgent = false, false
	return nil
}

// replace writes a file at once: it is the old or the new one at any time, also when the host loses its power.
func replace(file string, data []byte) error {
	if err := renameio.WriteFile(file, data, 0o600, renameio.WithTempDir(filepath.Dir(file))); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
